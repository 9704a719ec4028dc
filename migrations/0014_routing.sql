-- Who can do what, and where customers go whom a pool alone cannot serve.

-- What an open allocation is served by: `allocation::Plan` as text, as the log has it. Null: its pool alone.
ALTER TABLE allocations ADD COLUMN plan text;
-- Who had a customer last: allocations and visits of few subjects at a time. (allocations_by_subject is there already.)
CREATE INDEX visits_by_visitor ON visits (corp_id, visitor, began_at DESC);
-- Who waits longest, pool by pool.
CREATE INDEX allocations_waiting ON allocations (corp_id, pool_id, decided_at)
    WHERE closed_at IS NULL AND member IS NULL AND offer IS NULL;

-- What a member can do, in small letters.
ALTER TABLE members ADD COLUMN skills text[] NOT NULL DEFAULT '{}';

-- What a member must be able to do to get this channel's customers.
ALTER TABLE channels ADD COLUMN needs text[] NOT NULL DEFAULT '{}';

-- Other pools, skills that are done without after a while, former members, and when somebody is told; null: nothing of it.
-- {"fallbacks": [{"pool": …, "after_seconds": …, "without": […]}], "relax": [{"skill": …, "after_seconds": …}],
--  "sticky": {"days": …, "otherwise": "next" | "rendezvous"}, "drip_seconds": …, "alert_after_seconds": …,
--  "person_after_seconds": …}
ALTER TABLE pools ADD COLUMN routing jsonb;
