-- The excess of a group that was told of last and is still there: the same people named one after the other are one excess.
ALTER TABLE group_counts ADD COLUMN told_excess integer NOT NULL DEFAULT 0 CHECK (told_excess >= 0);
UPDATE group_counts SET told_excess = oversold;
