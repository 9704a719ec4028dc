//! How configuration is read: one, all of it, and page by page. What the kinds do not share they say by [`Listed`].

use allocation::CorpId;
use sqlx::postgres::PgRow;

use super::Configured;
use crate::Error;
use crate::connection::{Db, Work};
use crate::cursor::{Page, PageRequest, Window};
use crate::times::at;

/// Statements of a kind; $1 is the corp.
pub(crate) trait Listed: Configured {
    /// Names the cursors of its list.
    const LIST: &'static str;
    /// $2 the id.
    const ONE: &'static str;
    /// Those that are not deleted, by id.
    const ALL: &'static str;
    /// The latest first: $2 time and $3 id of the last one that was seen, $4 how many.
    const FORWARD: &'static str;
    const BACKWARD: &'static str;
    /// `read` needs more statements.
    const IN_PARTS: bool = false;

    async fn read(work: &mut Work, corp: &CorpId, rows: &[PgRow]) -> Result<Vec<Self>, Error>;

    /// When it was made, and its id.
    fn place(&self) -> (u64, &str);
}

async fn begin<T: Listed>(db: &Db) -> Result<Work, Error> {
    match T::IN_PARTS {
        true => db.transaction().await,
        false => db.single().await,
    }
}

async fn end<T: Listed>(mut work: Work, corp: &CorpId, rows: &[PgRow]) -> Result<Vec<T>, Error> {
    let read = T::read(&mut work, corp, rows).await?;
    match T::IN_PARTS {
        true => work.commit().await?,
        false => work.end().await?,
    }
    Ok(read)
}

pub(crate) async fn get<T: Listed>(db: &Db, corp: &CorpId, id: &T::Id) -> Result<Option<T>, Error> {
    let mut work = begin::<T>(db).await?;
    let query = work.query(T::ONE).bind(corp.as_str()).bind(id.to_string());
    let rows = work.fetch_all(query).await?;
    Ok(end::<T>(work, corp, &rows).await?.into_iter().next())
}

pub(crate) async fn all<T: Listed>(db: &Db, corp: &CorpId) -> Result<Vec<T>, Error> {
    let mut work = begin::<T>(db).await?;
    let query = work.query(T::ALL).bind(corp.as_str());
    let rows = work.fetch_all(query).await?;
    end(work, corp, &rows).await
}

pub(crate) async fn list<T: Listed>(
    db: &Db,
    corp: &CorpId,
    page: &PageRequest,
) -> Result<Page<T>, Error> {
    let window = Window::read(page, T::LIST)?;
    let mut work = begin::<T>(db).await?;
    let query = work
        .query_once(match window.is_backward() {
            true => T::BACKWARD,
            false => T::FORWARD,
        })
        .bind(corp.as_str())
        .bind(window.time())
        .bind(window.id().map(str::to_owned))
        .bind(window.fetch());
    let rows = work.fetch_all(query).await?;
    let read = end(work, corp, &rows).await?;
    Ok(window.page(T::LIST, read, |one: &T| {
        let (created_ms, id) = one.place();
        (at(created_ms), id.to_owned())
    }))
}
