-- New allocations that the ledger refused (an open one stood, or they were the echo of a transfer) and that Redis may
-- still have open. The log entry that ends one there raises `changed_seq`; until then it is ended again and again.
CREATE INDEX allocations_lost ON allocations (corp_id, decided_at, id)
    WHERE close_reason IN ('conflict', 'echo') AND changed_seq = decided_seq;
