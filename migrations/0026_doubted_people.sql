-- Of somebody who is in a group and not named yet: only a read that may be older than what is known says that he is in it. No
-- seat is taken for his before an event tells of him or a read is sure.
ALTER TABLE group_people ADD COLUMN doubted boolean NOT NULL DEFAULT false;
