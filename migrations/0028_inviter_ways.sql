-- Join ways of inviters: who comes by one was brought by him, whether or not a seat was held.

-- Each leads into one group, and nobody has two into the same, whoever asks for it at the same time.
CREATE UNIQUE INDEX join_ways_of_inviter ON join_ways (corp_id, campaign_id, inviter_id, (chats[1]))
    WHERE inviter_id IS NOT NULL AND state IN ('wanted', 'asked', 'ready', 'failed');
-- All that count for the limit of the corp, and those that rest.
CREATE INDEX join_ways_of_inviters ON join_ways (corp_id, state) WHERE inviter_id IS NOT NULL AND state <> 'gone';
