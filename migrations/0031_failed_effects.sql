-- What WeCom refused for good is listed, the latest first.
CREATE INDEX outbox_failed ON outbox (corp_id, settled_at DESC, id DESC) WHERE state = 'failed';
