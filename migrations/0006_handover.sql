-- Allocations first, then effects, then transfers: the order in which the log's writer takes them, so that it and this
-- wait for each other and never in a circle. Dropping comes before making: that takes the strongest lock at once.

-- A pool's load window ends by itself what was decided before a time, and only what is carried out or waits.
CREATE INDEX allocations_window ON allocations (corp_id, pool_id, decided_at, id)
    WHERE closed_at IS NULL AND (settled_at IS NOT NULL OR member IS NULL);

-- Effects are claimed by corp and kind, earliest due first: a kind has one priority, and with it in between every claim
-- walked over what is not due yet.
DROP INDEX outbox_claim;
CREATE INDEX outbox_claim ON outbox (corp_id, kind, due_at, id) WHERE state IN ('pending', 'unknown');

-- Each corp looks at its own transfers.
DROP INDEX transfers_due;
CREATE INDEX transfers_due ON transfers (corp_id, next_check_at, id)
    WHERE ended_at IS NULL AND next_check_at IS NOT NULL;
-- Transfers as people look at them: the latest first.
CREATE INDEX transfers_by_time ON transfers (corp_id, created_at DESC, id DESC);
