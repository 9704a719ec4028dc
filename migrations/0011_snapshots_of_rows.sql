-- A state that was made of rows does not follow from the entries before it: who folds the log from further back must not
-- pass it. So such snapshots are known, and kept.
ALTER TABLE snapshots ADD COLUMN of_rows boolean NOT NULL DEFAULT false;
