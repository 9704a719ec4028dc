-- Groups that are known and that nobody has said anything of: an event told of them, or an import that named no pool. The next
-- import that does brings them in, as if they were new. An operator's word, once there is one, outlasts any import.
ALTER TABLE groups ADD COLUMN unplaced boolean NOT NULL DEFAULT false;
UPDATE groups SET unplaced = true
WHERE source = 'event' AND group_pool_id IS NULL AND state = 'spare' AND rank = 0 AND deleted_at IS NULL
    AND scan_cap IS NULL AND hard_cap IS NULL AND buffer IS NULL AND tags = '{}';
