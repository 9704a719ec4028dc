-- Offers: a pool may ask a member before it gives him a customer.

-- What an open allocation is as long as nobody has accepted it. `state` says the same without it: 'open' of one that a member is
-- asked about, 'waiting' of one that a person must decide. Null: neither, or closed.
ALTER TABLE allocations
    ADD COLUMN offer       text,
    -- Since when it is like this, and, of an offer, until when its member may answer.
    ADD COLUMN offer_since timestamptz,
    ADD COLUMN offer_until timestamptz,
    -- There is nothing to look at: all are null.
    ADD CHECK (offer IN ('offered', 'undecided')) NOT VALID,
    ADD CHECK ((offer IS NULL) = (offer_since IS NULL) AND (offer IS NOT DISTINCT FROM 'offered') = (offer_until IS NOT NULL)) NOT VALID,
    ADD CHECK (offer IS NULL OR closed_at IS NULL) NOT VALID;
CREATE INDEX allocations_offered ON allocations (corp_id, decided_at DESC, id DESC) WHERE offer = 'offered';
CREATE INDEX allocations_undecided ON allocations (corp_id, decided_at DESC, id DESC) WHERE offer = 'undecided';

-- One row for each time that a member was asked.
CREATE TABLE offers (
    allocation_id uuid        NOT NULL,
    -- Of the allocation while he was asked: an answer names it.
    epoch         bigint      NOT NULL,
    corp_id       text        NOT NULL,
    pool_id       text        NOT NULL,
    member        text        NOT NULL,
    offered_at    timestamptz NOT NULL,
    offered_until timestamptz NOT NULL,
    ended_at      timestamptz,
    -- 'accepted', 'declined', 'timed_out', 'offline' (he went, or was blocked), 'closed' (the allocation was), 'reassigned' (by a
    -- person).
    ended_as      text        CHECK (ended_as IN ('accepted', 'declined', 'timed_out', 'offline', 'closed', 'reassigned')),
    -- Why he declined.
    reason        text,
    -- Who answered, for him or himself.
    responded_by  text,
    PRIMARY KEY (allocation_id, epoch),
    CHECK ((ended_at IS NULL) = (ended_as IS NULL))
);
CREATE INDEX offers_by_time ON offers (corp_id, offered_at DESC, allocation_id DESC, epoch DESC);
CREATE INDEX offers_open ON offers (corp_id, offered_at DESC, allocation_id DESC, epoch DESC) WHERE ended_at IS NULL;
CREATE INDEX offers_by_member ON offers (corp_id, member, offered_at DESC, allocation_id DESC, epoch DESC);

ALTER TABLE pools
    -- How long a member may think, and how many are asked before a person must decide; null = nobody is asked.
    ADD COLUMN offer_accept_seconds bigint  CHECK (offer_accept_seconds > 0),
    ADD COLUMN offer_tries          integer CHECK (offer_tries > 0),
    ADD CHECK ((offer_accept_seconds IS NULL) = (offer_tries IS NULL));
