-- Visits: one row for each hold. The allocation it belongs to is in `allocations`, first the visitor's, then, once the
-- callback said who he is, the customer's.
CREATE TABLE visits (
    allocation_id   uuid        PRIMARY KEY,
    corp_id         text        NOT NULL,
    channel_id      text        NOT NULL,
    -- Subject of the visitor.
    visitor         text        NOT NULL,
    -- State of the contact way he sees; null: he waits, or no slot was free.
    slot            text,
    hold_ms         bigint      NOT NULL,
    rest_ms         bigint      NOT NULL,
    began_at        timestamptz NOT NULL,
    -- The hold ends then; while he waits, his place.
    held_until      timestamptz NOT NULL,
    ended_at        timestamptz,
    -- 'confirmed', 'expired', 'late' (expired, and added the member afterwards), 'mismatched' (added another one),
    -- 'known' (was a customer already), 'closed' (by somebody).
    ended_as        text,
    -- How he was found to be the customer: 'visitor', 'slot' or 'time' (a guess).
    matched         text,
    -- The allocation that the customer has, where it is another one.
    next_allocation uuid,
    CHECK ((ended_at IS NULL) = (ended_as IS NULL))
);
CREATE INDEX visits_by_time ON visits (corp_id, began_at DESC, allocation_id DESC);
CREATE INDEX visits_live ON visits (corp_id, held_until) WHERE ended_at IS NULL;
-- When a slot was used last.
CREATE INDEX visits_by_slot ON visits (corp_id, slot, began_at DESC) WHERE slot IS NOT NULL;
-- The visit behind an allocation that came of it.
CREATE INDEX visits_by_next ON visits (next_allocation) WHERE next_allocation IS NOT NULL;
