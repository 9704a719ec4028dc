-- Who has no contact way because WeCom refuses one is not shown to visitors, who could not add him.

-- WeCom's last word about this way was no: 'member' to its member, 'corp' to whatever the corp asks for. An answer that says
-- nothing (a rate, no answer at all) leaves it; null once the way can be shown.
ALTER TABLE contact_ways ADD COLUMN passes_over text CHECK (passes_over IN ('member', 'corp'));
UPDATE contact_ways SET passes_over = 'member' WHERE state = 'failed';
UPDATE contact_ways SET passes_over = 'corp' WHERE state = 'wanted' AND pauses_corp_until IS NOT NULL AND last_errcode = 41045;
CREATE INDEX contact_ways_passed_over ON contact_ways (corp_id, channel_id, member)
    WHERE passes_over IS NOT NULL AND state IN ('wanted', 'asked', 'failed');
