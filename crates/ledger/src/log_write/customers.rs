//! The customers of a batch: written first, because the other rows refer to them.

use std::collections::{BTreeSet, HashMap, HashSet};

use allocation::{CorpId, SubjectKey};
use uuid::Uuid;

use super::fold::Folded;
use super::rows::{CHUNK, column};
use crate::Error;
use crate::connection::Work;
use crate::row::Columns;
use crate::text::{clean, clean_option};

/// Surrogate ids of those whom the batch names.
#[derive(Debug, Default)]
pub(super) struct Customers {
    ids: HashMap<SubjectKey, Uuid>,
    /// Not known before.
    new: HashSet<SubjectKey>,
}

impl Customers {
    pub(super) async fn write(
        work: &mut Work,
        corp: &CorpId,
        folded: &Folded<'_>,
    ) -> Result<Customers, Error> {
        let mut customers = Customers::default();
        let named: Vec<_> = folded.customers().into_iter().collect();
        for chunk in named.chunks(CHUNK) {
            let ids = column(chunk, |_| Uuid::now_v7());
            let query = work
                .query(crate::customers::UPSERT)
                .bind(corp.as_str())
                .bind(ids.clone())
                .bind(column(chunk, |(subject, _)| subject.to_string()))
                .bind(column(chunk, |(_, customer)| clean(&customer.kind)))
                .bind(column(chunk, |(_, customer)| {
                    clean_option(customer.external_id.as_ref())
                }));
            let written = work.fetch_all(query).await?;
            let written = written
                .iter()
                .map(|row| row.value("id"))
                .collect::<Result<HashSet<Uuid>, Error>>()?;
            // A row that was there keeps its id.
            let new = chunk.iter().zip(ids).filter(|(_, id)| written.contains(id));
            for ((subject, _), id) in new {
                customers.ids.insert(*subject, id);
                customers.new.insert(*subject);
            }
        }
        customers.read_others(work, corp, folded).await?;
        Ok(customers)
    }

    async fn read_others(
        &mut self,
        work: &mut Work,
        corp: &CorpId,
        folded: &Folded<'_>,
    ) -> Result<(), Error> {
        let decided = folded.new.iter().map(|row| row.subject);
        let transferred = folded.transfers.iter().map(|transfer| transfer.new.subject);
        let confirmed = folded
            .visits
            .confirmed
            .iter()
            .map(|(_, subject, _)| *subject);
        let seated = folded.seats.customers().map(|(subject, _)| subject);
        let others: BTreeSet<SubjectKey> = decided
            .chain(seated)
            .chain(transferred)
            .chain(confirmed)
            .filter(|subject| !self.ids.contains_key(subject))
            .collect();
        let others: Vec<SubjectKey> = others.into_iter().collect();
        for chunk in others.chunks(CHUNK) {
            let query = work
                .query(crate::customers::IDS)
                .bind(corp.as_str())
                .bind(column(chunk, SubjectKey::to_string));
            for row in work.fetch_all(query).await? {
                self.ids.insert(row.parsed("subject")?, row.value("id")?);
            }
        }
        Ok(())
    }

    pub(super) fn id(&self, subject: &SubjectKey) -> Option<Uuid> {
        self.ids.get(subject).copied()
    }

    /// Before this batch.
    pub(super) fn were_known(&self, subject: &SubjectKey) -> bool {
        !self.new.contains(subject)
    }
}
