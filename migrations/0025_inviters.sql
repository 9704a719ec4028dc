-- Who brings people into the groups of a campaign, whom he brought, and what that came to.

-- Somebody who brings others. Whoever works on his edges holds his row, so that his counts are those of his edges.
CREATE TABLE inviters (
    corp_id        text        NOT NULL REFERENCES corps (corp_id),
    campaign_id    text        NOT NULL,
    -- Ours.
    inviter_id     text        NOT NULL,
    -- Names his page, and in his State his ways. Made once and kept for ever; it says nothing and cannot be guessed.
    public_code    text        NOT NULL UNIQUE,
    kind           text        NOT NULL CHECK (kind IN ('external_id', 'unionid', 'member', 'other')),
    -- The hash of what he was named by; a customer's is his subject.
    subject        text        NOT NULL,
    -- Surrogate id; a member has none.
    customer_id    uuid,
    -- The userid of a member, as it was spelled.
    userid         text,
    -- As whom he is in groups; null: not known (yet).
    person         text,
    name           text        NOT NULL,
    -- Edges that count or did; of them those that are one or the other now.
    joined         bigint      NOT NULL DEFAULT 0,
    pending        bigint      NOT NULL DEFAULT 0,
    qualified      bigint      NOT NULL DEFAULT 0,
    revoked        bigint      NOT NULL DEFAULT 0,
    -- Edges that never counted.
    refused        bigint      NOT NULL DEFAULT 0,
    -- Since when `qualified` is what it is: of two with the same number the earlier one is ahead.
    ranked_at      timestamptz NOT NULL,
    blocked_at     timestamptz,
    blocked_reason text,
    version        bigint      NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    PRIMARY KEY (corp_id, campaign_id, inviter_id),
    UNIQUE (corp_id, campaign_id, subject),
    FOREIGN KEY (corp_id, campaign_id) REFERENCES campaigns (corp_id, campaign_id),
    CHECK (joined = pending + qualified + revoked),
    CHECK (pending >= 0 AND qualified >= 0 AND revoked >= 0 AND refused >= 0),
    CHECK ((blocked_at IS NULL) = (blocked_reason IS NULL))
) WITH (fillfactor = 80);
CREATE INDEX inviters_by_time ON inviters (corp_id, campaign_id, created_at DESC, inviter_id DESC);
CREATE INDEX inviters_by_rank ON inviters (corp_id, campaign_id, qualified DESC, ranked_at, inviter_id);
CREATE INDEX inviters_by_person ON inviters (corp_id, person) WHERE person IS NOT NULL;

-- That an inviter brought somebody: one row for each person and campaign, whatever he does. The writer of the corp's log makes it
-- with the rows of his seat; who holds the inviter's row changes it.
CREATE TABLE edges (
    corp_id      text        NOT NULL,
    campaign_id  text        NOT NULL,
    -- Who came, as `group_people` has him.
    person       text        NOT NULL,
    inviter_id   text        NOT NULL,
    -- As whom he is known besides: by his unionid, else as who asked for the seat.
    subject      text,
    -- Null: he asked for none, and came by a code of the inviter's.
    seat_id      uuid,
    -- Where he is, or was last.
    chat_id      text        NOT NULL,
    -- pending: he has to stay. qualified: he stayed. revoked: he did not, or nobody can say. refused: it never counted.
    state        text        NOT NULL CHECK (state IN ('pending', 'qualified', 'revoked', 'refused')),
    -- Why it does not count.
    reason       text,
    -- What it was before it was revoked.
    was          text        CHECK (was IN ('pending', 'qualified')),
    joined_at    timestamptz NOT NULL,
    qualifies_at timestamptz NOT NULL,
    qualified_at timestamptz,
    -- Since when it is what it is.
    changed_at   timestamptz NOT NULL,
    -- Times that he came back too late.
    rejoins      integer     NOT NULL DEFAULT 0,
    -- Of one that is pending: when it is looked at next.
    next_look_at timestamptz,
    PRIMARY KEY (corp_id, person, campaign_id),
    FOREIGN KEY (corp_id, campaign_id, inviter_id) REFERENCES inviters (corp_id, campaign_id, inviter_id),
    CHECK ((reason IS NULL) = (state IN ('pending', 'qualified'))),
    CHECK ((was IS NULL) = (state <> 'revoked')),
    CHECK ((next_look_at IS NULL) = (state <> 'pending'))
) WITH (fillfactor = 80);
CREATE INDEX edges_by_time ON edges (corp_id, campaign_id, joined_at DESC, person DESC);
CREATE INDEX edges_by_inviter ON edges (corp_id, campaign_id, inviter_id, joined_at DESC, person DESC);
CREATE INDEX edges_by_subject ON edges (corp_id, campaign_id, subject) WHERE subject IS NOT NULL;
CREATE INDEX edges_due ON edges (corp_id, next_look_at) WHERE next_look_at IS NOT NULL;

-- What an inviter reached, once and for ever.
CREATE TABLE goals_reached (
    corp_id     text        NOT NULL,
    campaign_id text        NOT NULL,
    inviter_id  text        NOT NULL,
    count       bigint      NOT NULL,
    name        text        NOT NULL,
    reached_at  timestamptz NOT NULL,
    PRIMARY KEY (corp_id, campaign_id, inviter_id, count)
);

-- What others want to hear of. Read in the order of the transactions that wrote it.
CREATE TABLE outgoing_events (
    corp_id    text        NOT NULL,
    id         uuid        NOT NULL,
    kind       text        NOT NULL,
    body       jsonb       NOT NULL,
    at         timestamptz NOT NULL,
    -- Compared with snapshots, so that a reader overlooks none.
    written_by xid8        NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (corp_id, id)
);
CREATE INDEX outgoing_events_in_order ON outgoing_events (corp_id, written_by, id);
CREATE INDEX outgoing_events_by_time ON outgoing_events (at);
