-- WeCom opens rooms by itself for a join way whose group is full: which way is to, and who were shown a full group for it.

ALTER TABLE supply_tasks
    -- Of the source auto_room. The way that opens the room, and since when WeCom may know that: written before it is told.
    ADD COLUMN way         text,
    ADD COLUMN armed_at    timestamptz,
    -- How the room is called: the name, followed by the number.
    ADD COLUMN room_name   text,
    ADD COLUMN room_number bigint,
    -- Seats of those who wait and were shown the way's code.
    ADD COLUMN openers     uuid[]      NOT NULL DEFAULT '{}',
    -- The keeper is then the owner of the way's group: rooms are opened in his name.
    ADD CHECK ((way IS NULL) = (armed_at IS NULL) AND (way IS NULL OR source = 'auto_room'));

ALTER TABLE join_ways
    -- The supply task for which it is to open rooms; null: it is to open none.
    ADD COLUMN rooms_for  uuid,
    -- Whether WeCom was told that it opens rooms; null: the call may have left the house, so it may.
    ADD COLUMN told_rooms boolean DEFAULT false;
-- One way for one need.
CREATE UNIQUE INDEX join_ways_rooms ON join_ways (corp_id, rooms_for) WHERE rooms_for IS NOT NULL;
