-- When the member first answered the customer, as whoever can see the chat reports it.
ALTER TABLE allocations ADD COLUMN first_response_at timestamptz;
