-- Seats of customer groups and who is in these groups, as the corps' logs say. Of a visitor and of whoever is in a group only the
-- key is here; `customers` has the visitor's id, where there is one. No foreign keys: the one writer of a corp keeps them whole.

-- One row for each seat, a place in the waiting room included. There is one open row for each campaign and visitor.
CREATE TABLE seats (
    seat_id       uuid        PRIMARY KEY,
    corp_id       text        NOT NULL,
    campaign_id   text        NOT NULL,
    group_pool_id text        NOT NULL,
    customer_id   uuid        NOT NULL,
    subject       text        NOT NULL,
    -- Nothing at WeCom will tell who it was that joined.
    anonymous     boolean     NOT NULL,
    -- State of the join way that he was shown.
    via           text,
    -- Tags that his group is chosen by, as the log has them: joined by 0x1a, the last one empty where any group is right.
    tags          text        NOT NULL,
    hold_ms       bigint      NOT NULL,
    -- waiting: in the waiting room. held: he was shown the group. confirmed: he is in it. late: the same, and the seat had been given
    -- back before. expired: nobody came in time. cancelled: given back for another reason. lapsed: he waited, and asked no more.
    -- left: he was in the group and is not any more.
    state         text        NOT NULL CHECK (state IN
        ('waiting', 'held', 'confirmed', 'late', 'expired', 'cancelled', 'lapsed', 'left')),
    -- The group that he was shown, then the one that he came into; null: none.
    chat_id       text,
    -- The group that he was shown, where he came into another one.
    moved_from    text,
    -- How he was known when he came: by a name, by his State (the oldest who was shown it), by count (a guess).
    matched       text        CHECK (matched IN ('unionid', 'external_id', 'state', 'count')),
    asked_at      timestamptz NOT NULL,
    -- Since when he was shown the group.
    held_at       timestamptz,
    -- The hold ends then; while he waits, his place.
    held_until    timestamptz NOT NULL,
    confirmed_at  timestamptz,
    ended_at      timestamptz,
    -- Why it ended.
    reason        text,
    -- It is remembered until then that he had it: he may still come.
    memory_until  timestamptz,
    -- Who brought him.
    inviter       text,
    -- Log entry that made it, and its turn among those who hold or wait: the entry in which that began, and its place there.
    asked_seq     bigint      NOT NULL,
    turn_seq      bigint      NOT NULL,
    turn_place    integer     NOT NULL,
    CHECK ((ended_at IS NULL) = (state IN ('waiting', 'held', 'confirmed', 'late'))),
    CHECK (chat_id IS NOT NULL OR state IN ('waiting', 'cancelled', 'lapsed')),
    CHECK ((confirmed_at IS NULL) = (matched IS NULL))
) WITH (fillfactor = 85);
CREATE INDEX seats_by_time ON seats (corp_id, campaign_id, asked_at DESC, seat_id DESC);
CREATE INDEX seats_by_state ON seats (corp_id, campaign_id, state, asked_at DESC, seat_id DESC);
CREATE INDEX seats_by_subject ON seats (corp_id, subject, asked_at DESC, seat_id DESC);
CREATE INDEX seats_of_group ON seats (corp_id, chat_id, state) WHERE ended_at IS NULL AND chat_id IS NOT NULL;
CREATE INDEX seats_waiting ON seats (corp_id, seat_id) WHERE state = 'waiting' AND ended_at IS NULL;
-- The open one of a visitor, and all that are open.
CREATE INDEX seats_open ON seats (corp_id, campaign_id, subject) WHERE ended_at IS NULL;
CREATE INDEX seats_remembered ON seats (corp_id, memory_until) WHERE memory_until IS NOT NULL;

-- Who is in a group, and who was: one row for each time that somebody came in.
CREATE TABLE group_people (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    corp_id       text        NOT NULL,
    chat_id       text        NOT NULL,
    -- A hash, as of subjects; a customer's is his subject.
    person        text        NOT NULL,
    -- The log entry, and when it was known.
    joined_seq    bigint      NOT NULL,
    joined_at     timestamptz NOT NULL,
    left_at       timestamptz,
    -- seat: it is somebody's seat. already: his seat is somewhere else. direct: no seat explains him. Null: a read of the group is to
    -- say who it is.
    came_as       text        CHECK (came_as IN ('seat', 'already', 'direct')),
    seat_id       uuid,
    -- He scanned a code of the group, and the State of its way.
    scanned       boolean     NOT NULL,
    via           text,
    CHECK ((came_as IS NOT DISTINCT FROM 'seat') = (seat_id IS NOT NULL))
);
CREATE UNIQUE INDEX group_people_in ON group_people (corp_id, chat_id, person) WHERE left_at IS NULL;
CREATE INDEX group_people_by_person ON group_people (corp_id, person, joined_at DESC);
CREATE INDEX group_people_by_seat ON group_people (seat_id) WHERE seat_id IS NOT NULL;

-- What the last change of a group's people left. A group that is in no pool any more has none.
CREATE TABLE group_counts (
    corp_id       text        NOT NULL,
    chat_id       text        NOT NULL,
    -- WeCom's name for what its people are.
    seen          text        NOT NULL,
    people        integer     NOT NULL CHECK (people >= 0),
    -- So many who are in it or were shown it may not be able to scan their way in.
    oversold      integer     NOT NULL CHECK (oversold >= 0),
    changed_at    timestamptz NOT NULL,
    PRIMARY KEY (corp_id, chat_id)
);

-- What a group's people should not have done, or our numbers of them.
CREATE TABLE group_changes (
    id            uuid        PRIMARY KEY,
    corp_id       text        NOT NULL,
    chat_id       text        NOT NULL,
    at            timestamptz NOT NULL,
    -- oversold: more people came in past us than the group has room for. mended: what we had was not what is.
    kind          text        NOT NULL CHECK (kind IN ('oversold', 'mended')),
    people_before integer     NOT NULL,
    people        integer     NOT NULL,
    -- By how many the group is too full.
    excess        integer     CHECK (excess > 0),
    -- What was mended.
    reason        text,
    CHECK ((kind = 'oversold') = (excess IS NOT NULL) AND (kind = 'mended') = (reason IS NOT NULL))
);
CREATE INDEX group_changes_by_group ON group_changes (corp_id, chat_id, at DESC, id DESC);
CREATE INDEX group_changes_by_time ON group_changes (corp_id, at DESC, id DESC);
