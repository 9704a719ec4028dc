//! Reads columns: every failure names its column, none panics.

use std::str::FromStr;

use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row, Type};
use time::OffsetDateTime;

use crate::{Error, times};

pub(crate) trait Columns {
    fn value<'r, T: Decode<'r, Postgres> + Type<Postgres>>(
        &'r self,
        name: &'static str,
    ) -> Result<T, Error>;

    /// A text that is one of our ids or words.
    fn parsed<T: FromStr<Err: ToString>>(&self, name: &'static str) -> Result<T, Error>;

    fn parsed_option<T: FromStr<Err: ToString>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, Error>;

    /// A count or number that is never negative.
    fn number(&self, name: &'static str) -> Result<u64, Error>;

    /// An `integer` that is never negative.
    fn small(&self, name: &'static str) -> Result<u32, Error>;

    fn small_option(&self, name: &'static str) -> Result<Option<u32>, Error>;

    fn ms(&self, name: &'static str) -> Result<u64, Error>;

    fn ms_option(&self, name: &'static str) -> Result<Option<u64>, Error>;
}

impl Columns for PgRow {
    fn value<'r, T: Decode<'r, Postgres> + Type<Postgres>>(
        &'r self,
        name: &'static str,
    ) -> Result<T, Error> {
        self.try_get(name)
            .map_err(|problem| Error::unreadable(name, problem))
    }

    fn parsed<T: FromStr<Err: ToString>>(&self, name: &'static str) -> Result<T, Error> {
        self.value::<&str>(name)?
            .parse()
            .map_err(|problem: T::Err| Error::unreadable(name, problem))
    }

    fn parsed_option<T: FromStr<Err: ToString>>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, Error> {
        let text: Option<&str> = self.value(name)?;
        text.map(|text| {
            text.parse()
                .map_err(|problem: T::Err| Error::unreadable(name, problem))
        })
        .transpose()
    }

    fn number(&self, name: &'static str) -> Result<u64, Error> {
        u64::try_from(self.value::<i64>(name)?).map_err(|problem| Error::unreadable(name, problem))
    }

    fn small(&self, name: &'static str) -> Result<u32, Error> {
        u32::try_from(self.value::<i32>(name)?).map_err(|problem| Error::unreadable(name, problem))
    }

    fn small_option(&self, name: &'static str) -> Result<Option<u32>, Error> {
        let number: Option<i32> = self.value(name)?;
        number
            .map(|number| u32::try_from(number).map_err(|problem| Error::unreadable(name, problem)))
            .transpose()
    }

    fn ms(&self, name: &'static str) -> Result<u64, Error> {
        Ok(times::ms(self.value::<OffsetDateTime>(name)?))
    }

    fn ms_option(&self, name: &'static str) -> Result<Option<u64>, Error> {
        Ok(self.value::<Option<OffsetDateTime>>(name)?.map(times::ms))
    }
}

/// Numbers of ours are below 2^63.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// For an `integer`; the checks of the tables refuse what does not fit.
pub(crate) fn small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
