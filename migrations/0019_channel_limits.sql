-- How many of those who come through a channel are given a member in an hour and on a day; null: as many as come.
ALTER TABLE channels
    ADD COLUMN per_hour integer CHECK (per_hour >= 1),
    ADD COLUMN per_day  integer CHECK (per_day >= 1);
