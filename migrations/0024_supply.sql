-- Groups are open to seats once a code leads into them, and pools get groups before they need them.

-- `version` rises with `way_at` too: from then on Redis may be told that the group is open.
ALTER TABLE groups
    -- Since when a code of a campaign has led into it, in its present pool. Null: none ever did, and nobody is shown it.
    ADD COLUMN way_at timestamptz;
-- Redis was told these already.
UPDATE groups SET way_at = now() WHERE group_pool_id IS NOT NULL AND deleted_at IS NULL AND state = 'open';
CREATE INDEX groups_wayless ON groups (corp_id, group_pool_id) WHERE way_at IS NULL AND group_pool_id IS NOT NULL;

-- How fast a pool fills.
CREATE INDEX seats_by_pool ON seats (corp_id, group_pool_id, asked_at);

-- A pool lacks groups: from where they come, and how far that is.
CREATE TABLE supply_tasks (
    corp_id       text        NOT NULL REFERENCES corps (corp_id),
    task_id       uuid        NOT NULL,
    group_pool_id text        NOT NULL,
    source        text        NOT NULL CHECK (source IN ('spare', 'auto_room', 'person')),
    -- wanted: nothing was done yet, last_error says why. asked: groups are on their way. overdue: they did not come in time; they may
    -- still. done: they are there. failed: given up for a while. cancelled: by an operator, or nothing is lacking any more.
    state         text        NOT NULL CHECK (state IN ('wanted', 'asked', 'overdue', 'done', 'failed', 'cancelled')),
    -- How many groups, and those that came.
    n_groups      integer     NOT NULL CHECK (n_groups >= 1),
    chats         text[]      NOT NULL DEFAULT '{}',
    -- Who asked: supply by itself, or an operator.
    asked_by      text        NOT NULL,
    -- What the pool was like then: free seats, people who waited, seats asked for a second.
    free          bigint      NOT NULL,
    waiting       bigint      NOT NULL,
    rate          double precision NOT NULL,
    -- Of the lease it was last written under; a lower one writes nothing.
    generation    bigint      NOT NULL,
    counter       bigint      NOT NULL,
    -- Who makes groups by hand, as WeCom spells him.
    keeper        text,
    asked_at      timestamptz,
    reminded_at   timestamptz,
    deadline_at   timestamptz,
    -- Not looked at before; once it is failed or overdue, the source rests until then.
    next_try_at   timestamptz,
    tries         integer     NOT NULL DEFAULT 0,
    last_errcode  bigint,
    last_error    text,
    created_at    timestamptz NOT NULL,
    settled_at    timestamptz,
    PRIMARY KEY (corp_id, task_id),
    CHECK ((settled_at IS NULL) = (state IN ('wanted', 'asked', 'overdue')))
);
-- Whoever else tries to get the same groups gets none.
CREATE UNIQUE INDEX supply_tasks_once ON supply_tasks (corp_id, group_pool_id, source) WHERE state IN ('wanted', 'asked');
CREATE INDEX supply_tasks_open ON supply_tasks (corp_id, group_pool_id) WHERE settled_at IS NULL;
CREATE INDEX supply_tasks_by_time ON supply_tasks (corp_id, created_at DESC, task_id DESC);
CREATE INDEX supply_tasks_resting ON supply_tasks (corp_id, group_pool_id, source, next_try_at) WHERE state IN ('failed', 'overdue');
