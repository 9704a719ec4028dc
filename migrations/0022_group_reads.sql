-- How far Redis knows who is in a group, and when the group is to be read at WeCom.

ALTER TABLE groups
    -- When the last read was begun that Redis was told whole; null: it never was.
    ADD COLUMN people_read_at    timestamptz,
    -- The corp's generation that was told it: what a later one knows is older, and the group is read again.
    ADD COLUMN people_generation bigint,
    -- A read and what Redis has of the group differed, so that one of them was old: a digest of what Redis had, and when. If
    -- nothing of it has changed when the group is read after WeCom's lag, the read is right.
    ADD COLUMN doubt             text,
    ADD COLUMN doubted_at        timestamptz,
    -- It could not be read: not again before, unless there is news of it.
    ADD COLUMN next_read_at      timestamptz,
    ADD CHECK ((doubt IS NULL) = (doubted_at IS NULL));
CREATE INDEX groups_by_read ON groups (corp_id, people_read_at NULLS FIRST) WHERE group_pool_id IS NOT NULL;
