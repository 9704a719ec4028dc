//! The last calls and messages, in rings of bounded size. Counters live elsewhere and are exact.

use std::collections::VecDeque;

use crate::admin::{CallFilter, CallRecord, MessageRecord};
use crate::sync::Lock;

/// The last calls.
#[derive(Debug, Default)]
pub(crate) struct CallLog(Lock<VecDeque<CallRecord>>);

impl CallLog {
    pub(crate) fn push(&self, record: CallRecord, capacity: usize) {
        push(&self.0, record, capacity);
    }

    /// In order of arrival.
    pub(crate) fn list(&self, filter: &CallFilter) -> Vec<CallRecord> {
        let limit = if filter.limit == 0 {
            1_000
        } else {
            filter.limit
        };
        let mut records: Vec<_> = self
            .0
            .lock()
            .iter()
            .filter(|record| matches(record, filter))
            .cloned()
            .collect();
        // Written when answered, so a slow call stands behind its successors.
        records.sort_by_key(|record| record.seq);
        records.truncate(limit);
        records
    }
}

fn matches(record: &CallRecord, filter: &CallFilter) -> bool {
    record.seq > filter.after
        && filter
            .corp
            .as_ref()
            .is_none_or(|corp| record.corp.as_ref() == Some(corp))
        && filter.api.as_ref().is_none_or(|api| record.api == *api)
        && filter.code.is_none_or(|code| record.code == code)
}

/// The last messages.
#[derive(Debug, Default)]
pub(crate) struct MessageLog(Lock<VecDeque<MessageRecord>>);

impl MessageLog {
    pub(crate) fn push(&self, record: MessageRecord, capacity: usize) {
        push(&self.0, record, capacity);
    }

    pub(crate) fn list(&self) -> Vec<MessageRecord> {
        self.0.lock().iter().cloned().collect()
    }
}

fn push<T>(ring: &Lock<VecDeque<T>>, record: T, capacity: usize) {
    if capacity == 0 {
        return;
    }
    let mut ring = ring.lock();
    while ring.len() >= capacity {
        ring.pop_front();
    }
    ring.push_back(record);
}
