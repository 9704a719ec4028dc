-- Why the plan of an allocation prefers whom: {"member": "asked_for" | "earlier_owner" | "rendezvous"}. Null: it prefers nobody,
-- or it was made before this was kept. Read only to explain; a state that is made of rows needs the plan alone.
ALTER TABLE allocations ADD COLUMN preferred jsonb;
