-- Effects are claimed by corp and kind, so the index of what is due begins with them: what waits of one corp, or of one
-- kind, is not walked over by the claims of another. Dropped first: that takes the strongest lock at once, and nobody who
-- reads the outbox and then writes to it can stand in the way of the second statement.
DROP INDEX outbox_due;
CREATE INDEX outbox_claim ON outbox (corp_id, kind, priority, due_at, id) WHERE state IN ('pending', 'unknown');
