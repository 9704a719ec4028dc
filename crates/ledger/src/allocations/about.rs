//! What is known about a customer or a member: for comparing the ledger with what WeCom says.

use std::collections::HashSet;

use allocation::{CorpId, MemberId, SubjectKey};

use super::{Allocation, Allocations, Place, columns, read_all};
use crate::customers::KnownCustomer;
use crate::log_write::column;
use crate::row::Columns;
use crate::times::at_option;
use crate::{Error, customers};

impl Allocations {
    /// All there ever were of a subject, the latest first, at most 100.
    pub async fn of_subject(
        &self,
        corp: &CorpId,
        subject: &SubjectKey,
    ) -> Result<Vec<Allocation>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM allocations AS a WHERE a.corp_id = $1 AND a.subject = $2
                 ORDER BY a.decided_at DESC, a.id DESC LIMIT 100"
            ))
            .bind(corp.as_str())
            .bind(subject.to_string());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// Which of these subjects an open allocation ties to the member: he has the customer, gets him or gives him.
    pub async fn tied_to(
        &self,
        corp: &CorpId,
        member: &MemberId,
        subjects: &[SubjectKey],
    ) -> Result<HashSet<SubjectKey>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT DISTINCT subject FROM allocations
                 WHERE corp_id = $1 AND subject = ANY($2) AND (member = $3 OR holder = $3) AND closed_at IS NULL",
            )
            .bind(corp.as_str())
            .bind(column(subjects, SubjectKey::to_string))
            .bind(member.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(|row| row.parsed("subject")).collect()
    }

    /// What stands of each subject and this member: the open allocation if there is one, else the last that was
    /// closed; in no particular order. A subject that never had to do with him is left out.
    pub async fn latest_about(
        &self,
        corp: &CorpId,
        member: &MemberId,
        subjects: &[SubjectKey],
    ) -> Result<Vec<Allocation>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(concat!(
                "SELECT ",
                columns!(),
                " FROM unnest($3::text[]) AS s(subject), LATERAL (
                    SELECT * FROM allocations AS one
                    WHERE one.corp_id = $1 AND one.subject = s.subject AND (one.member = $2 OR one.holder = $2)
                    ORDER BY one.closed_at IS NULL DESC, one.decided_at DESC, one.id DESC LIMIT 1
                 ) AS a"
            ))
            .bind(corp.as_str())
            .bind(member.as_str())
            .bind(column(subjects, SubjectKey::to_string));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// The member's open allocations, the latest first, those decided before a place.
    pub async fn open_of_member(
        &self,
        corp: &CorpId,
        member: &MemberId,
        before: Option<Place>,
        limit: u32,
    ) -> Result<Vec<Allocation>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query_once(concat!(
                "SELECT ",
                columns!(),
                " FROM allocations AS a WHERE a.corp_id = $1 AND a.member = $2 AND a.closed_at IS NULL
                    AND ($3::timestamptz IS NULL OR (a.decided_at, a.id) < ($3, $4))
                 ORDER BY a.decided_at DESC, a.id DESC LIMIT $5"
            ))
            .bind(corp.as_str())
            .bind(member.as_str())
            .bind(at_option(before.map(|(decided_ms, _)| decided_ms)))
            .bind(before.map(|(_, id)| id.0))
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        read_all(&rows)
    }

    /// Customers whom the member has by a settled allocation: WeCom should list them.
    pub async fn settled_customers_of(
        &self,
        corp: &CorpId,
        member: &MemberId,
    ) -> Result<Vec<KnownCustomer>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(
                "SELECT DISTINCT c.id, c.subject, c.kind, c.external_id, c.deleted_at FROM allocations AS a
                 JOIN customers AS c ON c.id = a.customer_id
                 WHERE a.corp_id = $1 AND a.member = $2 AND a.closed_at IS NULL AND a.settled_at IS NOT NULL
                    AND c.kind = 'wecom'",
            )
            .bind(corp.as_str())
            .bind(member.as_str());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(customers::read).collect()
    }
}
