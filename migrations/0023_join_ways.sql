-- Join ways: codes that lead into customer groups, made at WeCom ahead of those who ask for a seat.

-- One join way of a campaign, as it is or is to be at WeCom. Making one cannot be repeated safely, and WeCom lists none: that it is
-- asked for is written before the call, and one whose answer got lost stays there for ever, seen by nobody.
CREATE TABLE join_ways (
    corp_id       text        NOT NULL REFERENCES corps (corp_id),
    -- Ours: it names the picture. It says nothing and cannot be guessed.
    way           text        NOT NULL,
    campaign_id   text        NOT NULL,
    -- Whose it is; null: the campaign's.
    inviter_id    text,
    -- Its State. All ways of a campaign, or of an inviter, have the same.
    via           text        NOT NULL CHECK (char_length(via) <= 30),
    -- The groups that it is to lead into. No other live way of the campaign has one of them.
    chats         text[]      NOT NULL CHECK (cardinality(chats) BETWEEN 1 AND 5),
    -- Those that it leads into at WeCom; null: it is not there.
    told_chats    text[],
    -- wanted: not at WeCom. asked: the call may have left the house; with config_id it is made and lacks its picture.
    -- ready: it can be shown. retiring: no longer shown, deleted at WeCom when it has rested. gone: deleted there.
    -- failed: given up for a long time, last_error says why.
    state         text        NOT NULL CHECK (state IN ('wanted', 'asked', 'ready', 'retiring', 'gone', 'failed')),
    config_id     text,
    -- Where WeCom has the picture.
    qr_code       text,
    picture       bytea       CHECK (octet_length(picture) <= 524288),
    picture_type  text,
    asked_at      timestamptz,
    -- Times it was asked for, or changed; an answer to an earlier try than the last is not believed.
    tries         integer     NOT NULL DEFAULT 0,
    picture_tries integer     NOT NULL DEFAULT 0,
    -- Calls whose answer never came: there may be as many ways at WeCom that nobody knows of.
    lost          integer     NOT NULL DEFAULT 0,
    -- Not looked at before; whoever works on it puts it off. Null: nothing to do.
    next_try_at   timestamptz,
    -- Its refusal stands against all ways of the corp until then.
    pauses_corp_until timestamptz,
    last_errcode  bigint,
    last_error    text,
    -- Of the last change that processes keep in memory; compared with snapshots, so none is overlooked.
    changed_by    xid8        NOT NULL DEFAULT pg_current_xact_id(),
    created_at    timestamptz NOT NULL,
    ready_at      timestamptz,
    PRIMARY KEY (corp_id, way),
    FOREIGN KEY (corp_id, campaign_id) REFERENCES campaigns (corp_id, campaign_id),
    CHECK (state NOT IN ('ready', 'retiring', 'gone') OR config_id IS NOT NULL),
    CHECK ((config_id IS NULL) = (told_chats IS NULL)),
    CHECK (state <> 'ready' OR picture IS NOT NULL)
);
-- Has all that is counted: the rows themselves are large.
CREATE INDEX join_ways_by_campaign ON join_ways (corp_id, campaign_id, state);
CREATE INDEX join_ways_due ON join_ways (corp_id, state, next_try_at) WHERE next_try_at IS NOT NULL;
CREATE INDEX join_ways_pausing ON join_ways (corp_id, pauses_corp_until) WHERE pauses_corp_until IS NOT NULL;
CREATE INDEX join_ways_changed ON join_ways (corp_id, changed_by, way);
CREATE UNIQUE INDEX join_ways_by_config ON join_ways (corp_id, config_id) WHERE config_id IS NOT NULL;
