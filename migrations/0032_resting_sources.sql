-- A source rests after its task was called off, too.
DROP INDEX supply_tasks_resting;
CREATE INDEX supply_tasks_resting ON supply_tasks (corp_id, group_pool_id, source, next_try_at)
    WHERE state IN ('failed', 'overdue', 'cancelled');
