//! Customers who left while they waited, or while a member was asked about them. A waiting entry has no member, only whom the
//! customer came to, and an offered one is not its member's yet: a closing by member passes both over.

use std::collections::HashSet;

use allocation::{Closing, SubjectKey};

use crate::app::CorpApp;

/// Ends what still waits of these subjects, of those whom the closing's member had; answers whose that was. Whoever is
/// given to somebody between the look and the end has left as well.
pub(super) async fn end(
    corp: &CorpApp,
    closings: impl Iterator<Item = &Closing>,
) -> Result<HashSet<SubjectKey>, roster::Error> {
    let mut waiting = Vec::new();
    for closing in closings {
        let open = corp.roster.allocations_of(&closing.subject).await?;
        let left = open
            .into_iter()
            .filter(|one| one.member.is_none() || one.offer_until_ms.is_some())
            .filter(|one| one.holder == closing.member);
        waiting.extend(left.map(|one| Closing {
            subject: closing.subject,
            pool: Some(one.pool),
            member: None,
            allocation: Some(one.allocation),
            reason: closing.reason.clone(),
        }));
    }
    if waiting.is_empty() {
        return Ok(HashSet::new());
    }
    let applied = corp.roster.close(waiting, "", None).await?;
    Ok(applied.answer.iter().map(|closed| closed.subject).collect())
}
