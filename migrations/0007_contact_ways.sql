-- Visits: a channel's public page gives each visitor a member at once and shows him a contact way of that member. The ways
-- are made at WeCom ahead of the visitors.

ALTER TABLE channels
    -- Made by us once and kept for ever, visits on or off; it says nothing and cannot be guessed.
    ADD COLUMN public_code      text    UNIQUE,
    -- Contact ways of each member that live holds borrow; null = visits are off, and so are the two below.
    ADD COLUMN slots_per_member integer CHECK (slots_per_member BETWEEN 0 AND 1000),
    -- How long a visitor's member is held for him.
    ADD COLUMN hold_seconds     integer CHECK (hold_seconds BETWEEN 30 AND 86400),
    -- What the page is headed with; '' = nothing.
    ADD COLUMN title            text,
    ADD CHECK ((slots_per_member IS NULL) = (hold_seconds IS NULL) AND (slots_per_member IS NULL) = (title IS NULL)),
    ADD CHECK (slots_per_member IS NULL OR public_code IS NOT NULL);

-- One contact way of one member for one channel, as it is or is to be at WeCom. Making one cannot be repeated safely, so
-- that it is asked for is written before the call, and what became of a lost call is found out by its State.
CREATE TABLE contact_ways (
    corp_id     text        NOT NULL REFERENCES corps (corp_id),
    -- Its State: nobody else's, and the id of the slot.
    way         text        NOT NULL,
    channel_id  text        NOT NULL,
    member      text        NOT NULL,
    -- A slot is borrowed by one hold at a time; the plain one is for holds without a slot.
    kind        text        NOT NULL CHECK (kind IN ('slot', 'plain')),
    -- wanted: not at WeCom. asked: the call may have left the house; with config_id it is made and lacks its picture.
    -- ready: it can be shown. retiring: no longer given out, deleted at WeCom when it has rested. gone: deleted there.
    -- failed: given up for a long time, last_error says why.
    state       text        NOT NULL CHECK (state IN ('wanted', 'asked', 'ready', 'retiring', 'gone', 'failed')),
    -- Its number among those of the member, so that everybody gets his first before anybody gets a second.
    place       integer     NOT NULL,
    config_id   text,
    -- Where WeCom has the picture.
    qr_code     text,
    picture     bytea       CHECK (octet_length(picture) <= 524288),
    picture_type text,
    asked_at    timestamptz,
    -- Times it was asked for; an answer to an earlier try than the last is not believed.
    tries       integer     NOT NULL DEFAULT 0,
    picture_tries integer   NOT NULL DEFAULT 0,
    -- Not looked at before; whoever works on it puts it off. Null: nothing to do.
    next_try_at timestamptz,
    -- Its refusal stands against all ways of the corp until then.
    pauses_corp_until timestamptz,
    last_errcode bigint,
    last_error  text,
    -- The generation of Redis that knows what the state means (given out, or no longer).
    roster_generation bigint NOT NULL DEFAULT 0,
    -- When it was last taken out of use: it may have been lent until then.
    rests_since timestamptz,
    -- Of the last change that processes keep in memory; compared with snapshots, so none is overlooked.
    changed_by  xid8        NOT NULL DEFAULT pg_current_xact_id(),
    created_at  timestamptz NOT NULL,
    ready_at    timestamptz,
    PRIMARY KEY (corp_id, way),
    FOREIGN KEY (corp_id, channel_id) REFERENCES channels (corp_id, channel_id),
    CHECK (state NOT IN ('ready', 'retiring', 'gone') OR config_id IS NOT NULL),
    CHECK (state <> 'ready' OR picture IS NOT NULL)
);
-- Has all that is counted: the rows themselves are large.
CREATE INDEX contact_ways_by_member ON contact_ways (corp_id, channel_id, member, kind, state);
CREATE INDEX contact_ways_wanted ON contact_ways (corp_id, place, way) WHERE state = 'wanted';
CREATE INDEX contact_ways_due ON contact_ways (corp_id, state, next_try_at) WHERE next_try_at IS NOT NULL;
CREATE INDEX contact_ways_untold ON contact_ways (corp_id, roster_generation)
    WHERE kind = 'slot' AND state IN ('ready', 'retiring');
CREATE INDEX contact_ways_pausing ON contact_ways (corp_id, pauses_corp_until) WHERE pauses_corp_until IS NOT NULL;
CREATE INDEX contact_ways_changed ON contact_ways (corp_id, changed_by, way);
CREATE UNIQUE INDEX contact_ways_by_config ON contact_ways (corp_id, config_id) WHERE config_id IS NOT NULL;
