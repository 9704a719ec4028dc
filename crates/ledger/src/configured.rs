//! How configuration that can be deleted is written: locked, compared with the version that the caller saw and with what
//! else is configured, written, and audited, in one transaction. What the kinds do not share they say by [`Configured`].

mod listed;

use std::fmt::Display;

use allocation::CorpId;
use serde_json::Value;

use crate::Error;
use crate::audit::{Trail, write};
use crate::connection::{Db, Work};
use crate::error::retry;
use crate::put::{Deleted, Precondition, Put};

pub(crate) use listed::{Listed, all, get, list};

/// A row of the kind, deleted or not: its version goes on when it comes back.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub(crate) row: T,
    pub(crate) deleted: bool,
}

/// One kind of configuration. Every function works inside the transaction of its caller.
pub(crate) trait Configured: Clone {
    type Id: Display;
    /// What a caller wants it to be.
    type New;
    /// Why it cannot be like this.
    type Misfit;
    /// Why it cannot go.
    type Use;
    /// In the audit.
    const KIND: &'static str;

    fn version(&self) -> u64;
    /// As the audit shows it.
    fn json(&self) -> Value;
    fn is(&self, new: &Self::New) -> bool;

    /// The row, for as long as the transaction lasts.
    async fn lock(
        work: &mut Work,
        corp: &CorpId,
        id: &Self::Id,
    ) -> Result<Option<Found<Self>>, Error>;

    async fn misfit(
        work: &mut Work,
        corp: &CorpId,
        id: &Self::Id,
        new: &Self::New,
    ) -> Result<Option<Self::Misfit>, Error>;

    /// False: somebody else has just made the row, or taken what it needs.
    async fn save(
        work: &mut Work,
        corp: &CorpId,
        id: &Self::Id,
        new: &Self::New,
        found: Option<&Found<Self>>,
        now_ms: u64,
    ) -> Result<bool, Error>;

    async fn in_use(
        work: &mut Work,
        corp: &CorpId,
        id: &Self::Id,
    ) -> Result<Option<Self::Use>, Error>;

    async fn remove(
        work: &mut Work,
        corp: &CorpId,
        id: &Self::Id,
        now_ms: u64,
    ) -> Result<(), Error>;

    /// Keeps more of a change than its audit does; `after` is None when it was deleted.
    async fn keep(
        _work: &mut Work,
        _corp: &CorpId,
        _id: &Self::Id,
        _version: u64,
        _after: Option<&Self>,
        _trail: &Trail,
    ) -> Result<(), Error> {
        Ok(())
    }
}

pub(crate) async fn put<T: Configured>(
    db: &Db,
    corp: &CorpId,
    id: &T::Id,
    new: &T::New,
    precondition: Precondition,
    trail: &Trail,
) -> Result<Put<T, T::Misfit>, Error> {
    loop {
        let put = retry(|| try_put(db, corp, id, new, precondition, trail)).await?;
        if let Some(put) = put {
            return Ok(put);
        }
    }
}

/// None: somebody else was quicker; what he made is to be looked at first.
async fn try_put<T: Configured>(
    db: &Db,
    corp: &CorpId,
    id: &T::Id,
    new: &T::New,
    precondition: Precondition,
    trail: &Trail,
) -> Result<Option<Put<T, T::Misfit>>, Error> {
    let mut work = db.transaction().await?;
    let put = put_in(&mut work, corp, id, new, precondition, trail).await?;
    match put {
        Some(Put::Created(_) | Put::Changed(_)) => work.commit().await?,
        _ => work.roll_back().await?,
    }
    Ok(put)
}

/// As [`put`], inside a transaction that its caller ends; nothing was written unless it says `Created` or `Changed`. None:
/// somebody else was quicker.
pub(crate) async fn put_in<T: Configured>(
    work: &mut Work,
    corp: &CorpId,
    id: &T::Id,
    new: &T::New,
    precondition: Precondition,
    trail: &Trail,
) -> Result<Option<Put<T, T::Misfit>>, Error> {
    let found = T::lock(work, corp, id).await?;
    let before = found.as_ref().filter(|found| !found.deleted);
    let before = before.map(|found| found.row.clone());
    if !precondition.holds(before.as_ref().map(T::version)) {
        return Ok(Some(Put::Stale(before)));
    }
    if let Some(misfit) = T::misfit(work, corp, id, new).await? {
        return Ok(Some(Put::Refused(misfit)));
    }
    if let Some(same) = before.as_ref().filter(|before| before.is(new)) {
        return Ok(Some(Put::Same(same.clone())));
    }
    if !T::save(work, corp, id, new, found.as_ref(), trail.now_ms).await? {
        return Ok(None);
    }
    let after = T::lock(work, corp, id).await?.map(|found| found.row);
    let after = after.ok_or_else(|| Error::unreadable(T::KIND, "it is gone"))?;
    T::keep(work, corp, id, after.version(), Some(&after), trail).await?;
    let record = trail.record(
        &format!("{}.put", T::KIND),
        entity::<T>(id),
        before.as_ref().map(T::json),
        Some(after.json()),
    );
    write(work, corp, &[&record]).await?;
    Ok(Some(match before {
        Some(_) => Put::Changed(after),
        None => Put::Created(after),
    }))
}

pub(crate) async fn delete<T: Configured>(
    db: &Db,
    corp: &CorpId,
    id: &T::Id,
    precondition: Precondition,
    trail: &Trail,
) -> Result<Deleted<T, T::Use>, Error> {
    retry(|| try_delete(db, corp, id, precondition, trail)).await
}

async fn try_delete<T: Configured>(
    db: &Db,
    corp: &CorpId,
    id: &T::Id,
    precondition: Precondition,
    trail: &Trail,
) -> Result<Deleted<T, T::Use>, Error> {
    let mut work = db.transaction().await?;
    let found = T::lock(&mut work, corp, id).await?;
    let Some(before) = found.filter(|found| !found.deleted) else {
        work.roll_back().await?;
        return Ok(Deleted::Absent);
    };
    let before = before.row;
    if !precondition.holds(Some(before.version())) {
        work.roll_back().await?;
        return Ok(Deleted::Stale(before));
    }
    if let Some(users) = T::in_use(&mut work, corp, id).await? {
        work.roll_back().await?;
        return Ok(Deleted::Refused(users));
    }
    T::remove(&mut work, corp, id, trail.now_ms).await?;
    T::keep(&mut work, corp, id, before.version() + 1, None, trail).await?;
    let action = format!("{}.delete", T::KIND);
    let record = trail.record(&action, entity::<T>(id), Some(before.json()), None);
    write(&mut work, corp, &[&record]).await?;
    work.commit().await?;
    Ok(Deleted::Deleted(before))
}

fn entity<T: Configured>(id: &T::Id) -> String {
    format!("{}s/{id}", T::KIND)
}
