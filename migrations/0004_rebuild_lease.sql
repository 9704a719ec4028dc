-- Whoever rebuilds a corp's Redis state, and until when he is believed to: others leave it to him that long. Null:
-- nobody does.
ALTER TABLE corps ADD COLUMN rebuilder text, ADD COLUMN rebuild_until timestamptz;
