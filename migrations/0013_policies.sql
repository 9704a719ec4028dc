-- What pools were, and what they could be: every version that was ever in force, and drafts.

-- One row per version, written in the transaction that puts or deletes the pool.
CREATE TABLE pool_versions (
    corp_id      text        NOT NULL,
    pool_id      text        NOT NULL,
    version      bigint      NOT NULL,
    -- The pool as one document, {"format": 1, "name": …, "members": […]}: what pools learn later needs no column, and who reads an
    -- older document takes what is missing as not set. Null = the pool was deleted.
    content      jsonb,
    published_at timestamptz NOT NULL,
    -- Null = nobody knows: it is from before versions were kept.
    actor        text,
    note         text,
    PRIMARY KEY (corp_id, pool_id, version),
    FOREIGN KEY (corp_id, pool_id) REFERENCES pools (corp_id, pool_id)
);

INSERT INTO pool_versions (corp_id, pool_id, version, content, published_at)
SELECT p.corp_id, p.pool_id, p.version,
    CASE WHEN p.deleted_at IS NULL THEN jsonb_build_object(
        'format', 1,
        'name', p.name,
        'strategy', p.strategy,
        'load_window_seconds', p.load_window_seconds,
        'offers', CASE WHEN p.offer_tries IS NOT NULL THEN
            jsonb_build_object('accept_seconds', p.offer_accept_seconds, 'tries', p.offer_tries) END,
        'members', coalesce((
            SELECT jsonb_agg(jsonb_build_object('member', m.member, 'weight', trim_scale(m.weight)::text,
                'cap', m.cap, 'per_hour', m.per_hour, 'per_day', m.per_day) ORDER BY m.member COLLATE "C")
            FROM pool_members AS m WHERE m.corp_id = p.corp_id AND m.pool_id = p.pool_id), '[]'))
    END,
    p.updated_at
FROM pools AS p;

-- What somebody would like a pool to be. Nothing but what they say of it themselves follows from them.
CREATE TABLE pool_drafts (
    id           uuid        PRIMARY KEY,
    corp_id      text        NOT NULL,
    pool_id      text        NOT NULL,
    -- The version in force that it was made from.
    base_version bigint      NOT NULL,
    -- As in pool_versions; its members may be unknown.
    content      jsonb       NOT NULL,
    note         text,
    author       text        NOT NULL,
    version      bigint      NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    FOREIGN KEY (corp_id, pool_id) REFERENCES pools (corp_id, pool_id)
);
CREATE INDEX pool_drafts_by_pool ON pool_drafts (corp_id, pool_id, created_at DESC, id DESC);

-- What long work found, once it is done.
ALTER TABLE operations ADD COLUMN result jsonb;
-- A simulation holds the corp's state twice: one at a time.
CREATE UNIQUE INDEX operations_simulating ON operations (corp_id)
    WHERE kind = 'pools.simulate' AND state IN ('running', 'cancelling');
