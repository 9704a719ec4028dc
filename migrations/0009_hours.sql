-- When people work: schedules, the days that calendars make special, leaves, and what was said about one member's presence.

-- Special days of a whole corp, holidays above all; schedules refer to them.
CREATE TABLE calendars (
    corp_id     text        NOT NULL REFERENCES corps (corp_id),
    calendar_id text        NOT NULL,
    name        text        NOT NULL,
    -- [{"date": "2026-10-01", "hours": [{"from": "09:00", "to": "12:00", "next_day": false}], "name": …}]; no hours = closed.
    days        jsonb       NOT NULL,
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    deleted_at  timestamptz,
    PRIMARY KEY (corp_id, calendar_id)
);
CREATE INDEX calendars_by_time ON calendars (corp_id, created_at DESC, calendar_id DESC);

CREATE TABLE schedules (
    corp_id     text        NOT NULL REFERENCES corps (corp_id),
    schedule_id text        NOT NULL,
    name        text        NOT NULL,
    -- IANA name: hours are those of the clocks there.
    zone        text        NOT NULL,
    -- [{"day": "monday", "from": "09:00", "to": "18:00", "next_day": false}]
    weekly      jsonb       NOT NULL,
    -- As in calendars, and before them.
    days        jsonb       NOT NULL,
    version     bigint      NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    deleted_at  timestamptz,
    PRIMARY KEY (corp_id, schedule_id)
);
CREATE INDEX schedules_by_time ON schedules (corp_id, created_at DESC, schedule_id DESC);

CREATE TABLE schedule_calendars (
    corp_id     text        NOT NULL,
    schedule_id text        NOT NULL,
    calendar_id text        NOT NULL,
    -- Of two calendars that know a date the earlier one counts.
    position    integer     NOT NULL,
    PRIMARY KEY (corp_id, schedule_id, calendar_id),
    FOREIGN KEY (corp_id, schedule_id) REFERENCES schedules (corp_id, schedule_id),
    FOREIGN KEY (corp_id, calendar_id) REFERENCES calendars (corp_id, calendar_id)
);
CREATE INDEX schedule_calendars_by_calendar ON schedule_calendars (corp_id, calendar_id);

-- Null = there when a heartbeat says so.
ALTER TABLE members
    ADD COLUMN schedule_id text,
    -- Within his hours: on by himself, or when he says so.
    ADD COLUMN presence_mode text NOT NULL DEFAULT 'auto' CHECK (presence_mode IN ('auto', 'manual')),
    ADD FOREIGN KEY (corp_id, schedule_id) REFERENCES schedules (corp_id, schedule_id);
CREATE INDEX members_by_schedule ON members (corp_id, schedule_id) WHERE schedule_id IS NOT NULL;

-- What was last said of a member. The row stays when nothing stands any more: its version is what processes compare, and
-- it rises with his leaves too.
CREATE TABLE member_presence (
    corp_id     text        NOT NULL,
    member      text        NOT NULL,
    -- `override` is an operator's `on`, which counts outside his hours too.
    said        text        CHECK (said IN ('on', 'off', 'override')),
    -- Null = until something else is said.
    said_until  timestamptz,
    said_reason text,
    said_by     text,
    said_at     timestamptz,
    version     bigint      NOT NULL DEFAULT 1,
    PRIMARY KEY (corp_id, member),
    FOREIGN KEY (corp_id, member) REFERENCES members (corp_id, member),
    CHECK (said <> 'override' OR said_until IS NOT NULL)
);

CREATE TABLE leaves (
    id           uuid        PRIMARY KEY,
    corp_id      text        NOT NULL,
    member       text        NOT NULL,
    from_at      timestamptz NOT NULL,
    to_at        timestamptz NOT NULL,
    reason       text        NOT NULL,
    created_at   timestamptz NOT NULL,
    cancelled_at timestamptz,
    FOREIGN KEY (corp_id, member) REFERENCES members (corp_id, member),
    CHECK (from_at < to_at)
);
CREATE INDEX leaves_to_come ON leaves (corp_id, to_at, member) WHERE cancelled_at IS NULL;
CREATE INDEX leaves_by_member ON leaves (corp_id, member, to_at) WHERE cancelled_at IS NULL;
