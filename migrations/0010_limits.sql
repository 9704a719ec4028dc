-- What a member may be given in an hour and on a day, over all pools and in one. Null = no limit.
ALTER TABLE members
    ADD COLUMN per_hour bigint CHECK (per_hour >= 0),
    ADD COLUMN per_day  bigint CHECK (per_day >= 0);

ALTER TABLE pool_members
    -- Open allocations of this pool at a time.
    ADD COLUMN cap      bigint CHECK (cap >= 0),
    ADD COLUMN per_hour bigint CHECK (per_hour >= 0),
    ADD COLUMN per_day  bigint CHECK (per_day >= 0);
-- Who must be told when his day ends.
CREATE INDEX pool_members_by_time ON pool_members (corp_id, member) WHERE per_hour IS NOT NULL OR per_day IS NOT NULL;
