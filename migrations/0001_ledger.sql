-- What arrived, what was decided and what was done. Members are in their lower-case form, customers are known by
-- `subject` (32 hex digits of a hash); their outside id is in `customers` only, and, until they are scrubbed, in the
-- raw deliveries and the outbox. No foreign keys between these tables: the one writer of a corp keeps them whole.

-- One row per corp; whoever writes the log holds it.
CREATE TABLE corps (
    corp_id           text        PRIMARY KEY,
    -- Generation of the Redis state. Whoever rebuilds that state raises it.
    generation        bigint      NOT NULL DEFAULT 0,
    -- The last generation that was opened. Log entries of an older one come too late.
    opened_generation bigint      NOT NULL DEFAULT 0,
    -- Last entry of the log that is written here.
    log_seq           bigint      NOT NULL DEFAULT 0,
    created_at        timestamptz NOT NULL DEFAULT now()
);

-- Every change of a corp's state, as Redis logged it. Folding it gives the state, byte for byte.
CREATE TABLE log (
    corp_id    text   NOT NULL,
    seq        bigint NOT NULL,
    at_ms      bigint NOT NULL,
    generation bigint NOT NULL,
    op         text   NOT NULL,
    args       text   NOT NULL,
    result     text   NOT NULL,
    PRIMARY KEY (corp_id, seq)
);

-- The folded state at some entry, so that a fold need not begin at the first.
CREATE TABLE snapshots (
    corp_id    text        NOT NULL,
    seq        bigint      NOT NULL,
    dump       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (corp_id, seq)
);

-- The only place that maps a surrogate id to the id others use. Deleting a customer empties `external_id`.
CREATE TABLE customers (
    id          uuid        PRIMARY KEY,
    corp_id     text        NOT NULL,
    subject     text        NOT NULL,
    -- 'wecom' for an external_userid, else the source channel that gave the id.
    kind        text        NOT NULL,
    external_id text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    deleted_at  timestamptz,
    UNIQUE (corp_id, subject)
);

-- Raw deliveries, kept even if unknown or unreadable. Rows are never changed, but for scrubbing.
CREATE TABLE deliveries (
    corp_id     text        NOT NULL,
    id          text        NOT NULL,
    received_at timestamptz NOT NULL,
    endpoint    text        NOT NULL,
    body        text        NOT NULL,
    event       text,
    change_type text,
    event_at    timestamptz,
    subject     text,
    -- Why it could not be read.
    problem     text,
    scrubbed_at timestamptz,
    PRIMARY KEY (corp_id, id, received_at)
) PARTITION BY RANGE (received_at);
CREATE INDEX deliveries_by_time ON deliveries (corp_id, received_at DESC, id DESC);
CREATE INDEX deliveries_by_subject ON deliveries (corp_id, subject) WHERE subject IS NOT NULL;

-- What became of them. A table of its own: recording and deciding run side by side, either may be first, and the
-- raw rows need not be written twice.
CREATE TABLE delivery_outcomes (
    corp_id       text        NOT NULL,
    delivery      text        NOT NULL,
    received_at   timestamptz NOT NULL,
    at            timestamptz NOT NULL,
    outcome       text        NOT NULL,
    reason        text,
    allocation_id uuid,
    PRIMARY KEY (corp_id, delivery, received_at)
) PARTITION BY RANGE (received_at);
-- The rare ones are what people look for.
CREATE INDEX delivery_outcomes_undecided ON delivery_outcomes (corp_id, outcome, received_at DESC, delivery DESC)
    WHERE allocation_id IS NULL;

-- Makes the daily partitions of both tables from `first` to `last` where they are missing; says how many it made.
-- Attaching does not stop writers, as CREATE TABLE … PARTITION OF would.
CREATE FUNCTION make_delivery_partitions(first date, last date) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    part   text;
    day    date;
    made   integer := 0;
BEGIN
    FOREACH parent IN ARRAY ARRAY['deliveries', 'delivery_outcomes'] LOOP
        FOR day IN SELECT generate_series(first, last, interval '1 day')::date LOOP
            part := parent || '_' || to_char(day, 'YYYYMMDD');
            CONTINUE WHEN to_regclass(quote_ident(part)) IS NOT NULL;
            -- One maker at a time, until the end of the transaction; readers and writers go on. Then look again.
            EXECUTE format('LOCK TABLE %I IN SHARE UPDATE EXCLUSIVE MODE', parent);
            CONTINUE WHEN to_regclass(quote_ident(part)) IS NOT NULL;
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS)', part, parent);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part,
                day::text || ' 00:00:00+00', (day + 1)::text || ' 00:00:00+00');
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

-- Who got whom. One open row per corp, pool and subject, whatever Redis thinks.
CREATE TABLE allocations (
    id           uuid        PRIMARY KEY,
    corp_id      text        NOT NULL,
    pool_id      text        NOT NULL,
    customer_id  uuid        NOT NULL,
    subject      text        NOT NULL,
    -- Null while it waits.
    member       text,
    -- Who had the customer at WeCom when it was assigned: the giver, if that is not the member himself.
    holder       text,
    channel_id   text,
    source       text        NOT NULL,
    delivery     text,
    request_id   text,
    -- Raised by every reassignment.
    epoch        bigint      NOT NULL DEFAULT 0,
    decided_at   timestamptz NOT NULL,
    assigned_at  timestamptz,
    -- The decision has been carried out (or given up): 'done', 'kept', 'void', 'closed'.
    settled_at   timestamptz,
    settled_as   text,
    closed_at    timestamptz,
    close_reason text,
    -- Log entry that made it, and the last one that changed it.
    decided_seq  bigint      NOT NULL,
    changed_seq  bigint      NOT NULL,
    state        text        NOT NULL GENERATED ALWAYS AS (
        CASE WHEN closed_at IS NOT NULL THEN 'closed' WHEN member IS NULL THEN 'waiting' ELSE 'open' END) STORED,
    CHECK ((settled_at IS NULL) = (settled_as IS NULL)),
    CHECK ((closed_at IS NULL) = (close_reason IS NULL))
) WITH (fillfactor = 85);
CREATE UNIQUE INDEX allocations_one_open ON allocations (corp_id, pool_id, subject) WHERE closed_at IS NULL;
CREATE INDEX allocations_by_time ON allocations (corp_id, decided_at DESC, id DESC);
CREATE INDEX allocations_by_subject ON allocations (corp_id, subject);
CREATE INDEX allocations_by_member ON allocations (corp_id, member, decided_at DESC, id DESC);
CREATE INDEX allocations_unsettled ON allocations (corp_id, assigned_at, id)
    WHERE settled_at IS NULL AND closed_at IS NULL AND member IS NOT NULL;
CREATE INDEX allocations_by_request ON allocations (corp_id, request_id) WHERE request_id IS NOT NULL;

-- Effects to be done outside, written with the decision that wants them.
CREATE TABLE outbox (
    id               uuid        PRIMARY KEY,
    corp_id          text        NOT NULL,
    kind             text        NOT NULL,
    -- Asking twice is asking once.
    effect_key       text        NOT NULL,
    allocation_id    uuid,
    -- The assignment it belongs to: a later epoch cancels it. Null: it belongs to the allocation as a whole.
    epoch            bigint,
    transfer_id      uuid,
    payload          jsonb       NOT NULL,
    -- The payload holds something short-lived or personal: empty it when the row ends.
    erase_payload    boolean     NOT NULL DEFAULT false,
    -- Smaller is sooner.
    priority         smallint    NOT NULL,
    state            text        NOT NULL DEFAULT 'pending' CHECK (state IN
        ('pending', 'running', 'unknown', 'done', 'failed', 'dead', 'cancelled')),
    due_at           timestamptz NOT NULL,
    -- Not to be sent after this.
    deadline_at      timestamptz,
    -- Claims so far: the number of the claim that may write the outcome.
    attempts         integer     NOT NULL DEFAULT 0,
    -- Attempts that may have reached WeCom.
    tries            integer     NOT NULL DEFAULT 0,
    lease_until      timestamptz,
    -- The present attempt may have left the house since.
    sent_at          timestamptz,
    -- Since when nobody knows whether an earlier attempt had its effect.
    unknown_since    timestamptz,
    fence_generation bigint,
    fence_counter    bigint,
    last_errcode     integer,
    last_error       text,
    outcome          jsonb,
    created_at       timestamptz NOT NULL,
    settled_at       timestamptz,
    UNIQUE (corp_id, kind, effect_key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX outbox_due ON outbox (priority, due_at, id, corp_id, kind) WHERE state IN ('pending', 'unknown');
CREATE INDEX outbox_running ON outbox (lease_until) WHERE state = 'running';
CREATE INDEX outbox_dead ON outbox (corp_id, settled_at DESC, id DESC) WHERE state = 'dead';
CREATE INDEX outbox_deadlines ON outbox (deadline_at) WHERE state = 'pending' AND deadline_at IS NOT NULL;
CREATE INDEX outbox_by_allocation ON outbox (allocation_id) WHERE allocation_id IS NOT NULL;
CREATE INDEX outbox_by_transfer ON outbox (transfer_id) WHERE transfer_id IS NOT NULL;

-- Customers on their way from one member to another at WeCom.
CREATE TABLE transfers (
    id            uuid        PRIMARY KEY,
    corp_id       text        NOT NULL,
    allocation_id uuid,
    customer_id   uuid        NOT NULL,
    subject       text        NOT NULL,
    giver         text        NOT NULL,
    taker         text        NOT NULL CHECK (taker <> giver),
    kind          text        NOT NULL CHECK (kind IN ('in_service', 'resigned')),
    state         text        NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'submitted', 'unknown',
        'waiting', 'human', 'done', 'refused', 'capped', 'failed', 'cancelled')),
    errcode       integer,
    -- What transfer_result said, as it said it.
    raw_status    integer,
    created_at    timestamptz NOT NULL,
    -- An accepted start, or one that may have been accepted: it counts against the moves a customer may make.
    started_at    timestamptz,
    takeover_at   timestamptz,
    next_check_at timestamptz,
    checks        integer     NOT NULL DEFAULT 0,
    unknown_since timestamptz,
    ended_at      timestamptz
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX transfers_one_running ON transfers (corp_id, customer_id, giver, taker) WHERE ended_at IS NULL;
CREATE INDEX transfers_due ON transfers (next_check_at, id) WHERE ended_at IS NULL AND next_check_at IS NOT NULL;
CREATE INDEX transfers_by_subject ON transfers (corp_id, subject, started_at);
CREATE INDEX transfers_by_allocation ON transfers (allocation_id) WHERE allocation_id IS NOT NULL;
CREATE INDEX transfers_unfinished ON transfers (corp_id, state) WHERE ended_at IS NULL;

-- What WeCom told us to wait for; kept here so that a wiped Redis does not forget it.
CREATE TABLE budget_blocks (
    corp_id text        NOT NULL,
    api     text        NOT NULL,
    scope   text        NOT NULL,
    until   timestamptz NOT NULL,
    PRIMARY KEY (corp_id, api, scope)
);
