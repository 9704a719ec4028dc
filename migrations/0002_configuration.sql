-- What operators configure (pools, members, channels) and what the REST API needs to be safe to repeat:
-- keys, remembered answers, long work, and an append-only record of who changed what.

-- A pool's members and strategy. `version` rises with every change: ETag of the API, and what Redis is compared with.
-- A deleted pool keeps its row: its version goes on counting, should it come back.
CREATE TABLE pools (
    corp_id     text        NOT NULL REFERENCES corps (corp_id),
    pool_id     text        NOT NULL,
    name        text        NOT NULL,
    strategy    text        NOT NULL CHECK (strategy IN ('weighted_round_robin', 'least_load')),
    -- Open allocations end by themselves this long after the decision; null = never.
    load_window_seconds bigint CHECK (load_window_seconds > 0),
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    deleted_at  timestamptz,
    PRIMARY KEY (corp_id, pool_id)
);
CREATE INDEX pools_by_time ON pools (corp_id, created_at DESC, pool_id DESC);

-- People who can be given customers. `member` is the lower-cased userid (WeCom's ids ignore case), `userid` its spelling.
CREATE TABLE members (
    corp_id     text        NOT NULL REFERENCES corps (corp_id),
    member      text        NOT NULL,
    userid      text        NOT NULL,
    -- Whose spelling it is. WeCom's stands against a console's.
    spelled_by  text        NOT NULL CHECK (spelled_by IN ('console', 'wecom')),
    -- Most open allocations over all pools; null = no limit.
    cap         bigint      CHECK (cap >= 0),
    -- Why the member is left out of every choice; null = not.
    blocked     text,
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (corp_id, member)
);
CREATE INDEX members_by_time ON members (corp_id, created_at DESC, member DESC);

CREATE TABLE pool_members (
    corp_id     text          NOT NULL,
    pool_id     text          NOT NULL,
    member      text          NOT NULL,
    weight      numeric(12,3) NOT NULL CHECK (weight >= 0),
    PRIMARY KEY (corp_id, pool_id, member),
    FOREIGN KEY (corp_id, pool_id) REFERENCES pools (corp_id, pool_id),
    FOREIGN KEY (corp_id, member) REFERENCES members (corp_id, member)
);
CREATE INDEX pool_members_by_member ON pool_members (corp_id, member);

-- A channel is a poster, a page, an ad: a State that leads to a pool.
CREATE TABLE channels (
    corp_id     text        NOT NULL REFERENCES corps (corp_id),
    channel_id  text        NOT NULL,
    name        text        NOT NULL,
    pool_id     text        NOT NULL,
    -- {"text": …, "attachments": […]}; null = no welcome message.
    welcome     jsonb,
    -- Tell the chosen member with a text card.
    card        boolean     NOT NULL DEFAULT true,
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    deleted_at  timestamptz,
    PRIMARY KEY (corp_id, channel_id),
    FOREIGN KEY (corp_id, pool_id) REFERENCES pools (corp_id, pool_id)
);
CREATE INDEX channels_by_time ON channels (corp_id, created_at DESC, channel_id DESC);
CREATE INDEX channels_by_pool ON channels (corp_id, pool_id);

-- Every State a channel has ever had: printed posters outlive a change.
CREATE TABLE channel_states (
    corp_id     text        NOT NULL,
    state       text        NOT NULL,
    channel_id  text        NOT NULL,
    -- Place in the channel's list.
    position    integer     NOT NULL,
    created_at  timestamptz NOT NULL,
    -- No longer in the channel's list; it leads there all the same.
    retired_at  timestamptz,
    PRIMARY KEY (corp_id, state),
    FOREIGN KEY (corp_id, channel_id) REFERENCES channels (corp_id, channel_id)
);
CREATE INDEX channel_states_by_channel ON channel_states (corp_id, channel_id);

-- API keys: only the SHA-256 of 256 random bits is here. corp_id null = every corp (role admin only).
CREATE TABLE api_keys (
    id          uuid        PRIMARY KEY,
    corp_id     text        REFERENCES corps (corp_id),
    role        text        NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'member')),
    member      text,
    hash        bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    name        text        NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    revoked_at  timestamptz,
    CHECK (corp_id IS NOT NULL OR role = 'admin'),
    CHECK ((member IS NOT NULL) = (role = 'member'))
);

-- Answers that are given again to a repeated Idempotency-Key; kept 24 h.
CREATE TABLE idempotency (
    corp_id     text        NOT NULL,
    -- The API key that asked: two callers may choose the same key.
    caller      uuid        NOT NULL,
    key         text        NOT NULL,
    -- Hash of route and body, so that the same key with another request is refused.
    request     bytea       NOT NULL,
    -- Whoever runs the request, and until when he is believed to.
    claim       uuid        NOT NULL,
    lease_until timestamptz NOT NULL,
    -- Null while the first request still runs.
    status      smallint,
    answer      text,
    -- Headers of the answer that belong to it (content type, location, etag).
    headers     jsonb,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (corp_id, caller, key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- Long work that a console follows.
CREATE TABLE operations (
    id          uuid        PRIMARY KEY,
    corp_id     text        NOT NULL REFERENCES corps (corp_id),
    kind        text        NOT NULL,
    state       text        NOT NULL CHECK (state IN ('running', 'cancelling', 'done', 'failed', 'cancelled')),
    total       bigint      NOT NULL DEFAULT 0,
    done        bigint      NOT NULL DEFAULT 0,
    skipped     bigint      NOT NULL DEFAULT 0,
    failed      bigint      NOT NULL DEFAULT 0,
    first_errors jsonb      NOT NULL DEFAULT '[]',
    request     jsonb       NOT NULL,
    actor       text        NOT NULL,
    -- Where the work stands, so that another process can go on.
    cursor      text,
    -- Whoever works on it, and until when he is believed to.
    claim       uuid,
    lease_until timestamptz,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);
CREATE INDEX operations_by_corp ON operations (corp_id, created_at DESC, id DESC);
CREATE INDEX operations_unfinished ON operations (corp_id, lease_until) WHERE state IN ('running', 'cancelling');

-- Append-only: who changed what.
CREATE TABLE audit (
    id          uuid        PRIMARY KEY,
    corp_id     text        NOT NULL,
    at          timestamptz NOT NULL,
    actor       text        NOT NULL,
    action      text        NOT NULL,
    entity      text        NOT NULL,
    before      jsonb,
    after       jsonb,
    reason      text,
    request_id  text
);
CREATE INDEX audit_by_corp ON audit (corp_id, at DESC, id DESC);
CREATE INDEX audit_by_entity ON audit (corp_id, entity, at DESC, id DESC);
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit is append-only';
END $$;
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION audit_is_append_only();
