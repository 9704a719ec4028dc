-- Customer groups at WeCom, the pools that they are in, and the campaigns that bring people into them.

-- == What operators configure: group pools, groups, campaigns ==

-- Groups that are filled in order. As with pools, a deleted one keeps its row: its version goes on counting.
CREATE TABLE group_pools (
    corp_id       text        NOT NULL REFERENCES corps (corp_id),
    group_pool_id text        NOT NULL,
    name          text        NOT NULL,
    -- Which of the groups with room is shown next.
    strategy      text        NOT NULL CHECK (strategy IN ('fill_first', 'spread', 'least_filled')),
    -- WeCom says none of these numbers over its API; a group may have its own.
    -- People in a group beyond which nobody comes in by a code.
    scan_cap      integer     NOT NULL,
    -- People in a group beyond which nobody comes in at all.
    hard_cap      integer     NOT NULL,
    -- Seats below scan_cap that are kept for those who come in past us.
    buffer        integer     NOT NULL,
    -- A visitor for whose tags no group has room gets any other group.
    any_group     boolean     NOT NULL,
    -- {"min_free": …, "ahead_seconds": …, "sources": ["spare", "auto_room", "person"], "keeper": …, "deadline_seconds": …}
    supply        jsonb       NOT NULL,
    version       bigint      NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    PRIMARY KEY (corp_id, group_pool_id),
    CHECK (1 <= scan_cap AND scan_cap <= hard_cap AND hard_cap <= 2000 AND 0 <= buffer AND buffer < scan_cap)
);
CREATE INDEX group_pools_by_time ON group_pools (corp_id, created_at DESC, group_pool_id DESC);

-- A customer group that we know of. `version` rises with what operators say of it and with its pool's caps, not with what
-- WeCom says of it: Redis is compared with it, too.
CREATE TABLE groups (
    corp_id       text        NOT NULL REFERENCES corps (corp_id),
    -- WeCom's.
    chat_id       text        NOT NULL,
    -- Null: known, and filled by nobody.
    group_pool_id text,
    -- Its place in its pool; of one rank the one whose chat_id is first.
    rank          integer     NOT NULL DEFAULT 0 CHECK (rank >= 0),
    -- Null: as the pool has it.
    scan_cap      integer     CHECK (scan_cap BETWEEN 1 AND 2000),
    hard_cap      integer     CHECK (hard_cap BETWEEN 1 AND 2000),
    buffer        integer     CHECK (buffer >= 0),
    tags          text[]      NOT NULL DEFAULT '{}',
    -- open: visitors are shown it while it has room. closed: they are not, an operator says so. spare: in stock, until
    -- supply opens it. dismissed: it is no more at WeCom, and for ever.
    state         text        NOT NULL CHECK (state IN ('open', 'closed', 'spare', 'dismissed')),
    -- How we came to know of it.
    source        text        NOT NULL CHECK (source IN ('import', 'console', 'auto_room', 'event')),
    -- What WeCom said of it when it was last read; null: it never was.
    name          text,
    -- The userid as WeCom spells it.
    owner         text,
    -- Everybody who is in it, the corp's own people too.
    member_count  integer     CHECK (member_count >= 0),
    -- WeCom's name for what its people were then.
    member_version text,
    read_at       timestamptz,
    -- Why it could not be read the last time; null: it could.
    last_errcode  bigint,
    last_error    text,
    version       bigint      NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    PRIMARY KEY (corp_id, chat_id),
    FOREIGN KEY (corp_id, group_pool_id) REFERENCES group_pools (corp_id, group_pool_id),
    CHECK ((member_count IS NULL) = (read_at IS NULL))
);
CREATE INDEX groups_by_time ON groups (corp_id, created_at DESC, chat_id DESC);
CREATE INDEX groups_by_pool ON groups (corp_id, group_pool_id, rank, chat_id) WHERE group_pool_id IS NOT NULL;

-- A campaign fills the groups of one pool; several may fill the same.
CREATE TABLE campaigns (
    corp_id       text        NOT NULL REFERENCES corps (corp_id),
    campaign_id   text        NOT NULL,
    name          text        NOT NULL,
    group_pool_id text        NOT NULL,
    -- Names its public page. Made by us once and kept for ever; it says nothing and cannot be guessed.
    public_code   text        NOT NULL UNIQUE,
    -- How long a seat is held for a visitor who was shown its group.
    hold_seconds  integer     NOT NULL CHECK (hold_seconds BETWEEN 30 AND 86400),
    -- What the page is headed with; '' = nothing.
    title         text        NOT NULL,
    state         text        NOT NULL CHECK (state IN ('open', 'closed')),
    -- Null: since ever, and for ever.
    starts_at     timestamptz,
    ends_at       timestamptz,
    -- What inviters are rewarded for.
    rules         jsonb       NOT NULL DEFAULT '{}',
    -- Whose State the join ways carry: one for the campaign, or one for each inviter.
    ways          text        NOT NULL CHECK (ways IN ('campaign', 'inviter')),
    -- Of one join way. With 1 the visitor comes into the group that he was shown; with more WeCom chooses.
    groups_per_way integer    NOT NULL CHECK (groups_per_way BETWEEN 1 AND 5),
    version       bigint      NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    deleted_at    timestamptz,
    PRIMARY KEY (corp_id, campaign_id),
    FOREIGN KEY (corp_id, group_pool_id) REFERENCES group_pools (corp_id, group_pool_id),
    CHECK (starts_at < ends_at)
);
CREATE INDEX campaigns_by_time ON campaigns (corp_id, created_at DESC, campaign_id DESC);
CREATE INDEX campaigns_by_pool ON campaigns (corp_id, group_pool_id);
