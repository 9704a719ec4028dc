//! The text form: fields joined by 0x1f. No id can hold that character.

use std::str::FromStr;

use crate::error::Error;

pub(crate) const FIELD: char = '\u{1f}';

pub(crate) fn join<T: AsRef<str>>(fields: &[T]) -> String {
    let mut text = String::with_capacity(fields.iter().map(|field| field.as_ref().len() + 1).sum());
    for (i, field) in fields.iter().enumerate() {
        if i > 0 {
            text.push(FIELD);
        }
        text.push_str(field.as_ref());
    }
    text
}

/// Reads fields one after the other and says what was missing.
pub(crate) struct Fields<'a> {
    what: &'static str,
    rest: Option<&'a str>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(what: &'static str, text: &'a str) -> Self {
        Fields {
            what,
            rest: (!text.is_empty()).then_some(text),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_none()
    }

    pub(crate) fn next(&mut self) -> Result<&'a str, Error> {
        let text = self
            .rest
            .ok_or_else(|| Error::unreadable(self.what, "it ends too early"))?;
        let (field, rest) = match text.split_once(FIELD) {
            Some((field, rest)) => (field, Some(rest)),
            None => (text, None),
        };
        self.rest = rest;
        Ok(field)
    }

    pub(crate) fn parse<T: FromStr>(&mut self) -> Result<T, Error> {
        let field = self.next()?;
        field
            .parse()
            .map_err(|_| Error::unreadable(self.what, format!("unexpected {field:?}")))
    }

    /// An empty field is None.
    pub(crate) fn optional<T: FromStr>(&mut self) -> Result<Option<T>, Error> {
        match self.next()? {
            "" => Ok(None),
            field => field
                .parse()
                .map(Some)
                .map_err(|_| Error::unreadable(self.what, format!("unexpected {field:?}"))),
        }
    }

    pub(crate) fn end(&self) -> Result<(), Error> {
        match self.rest {
            None => Ok(()),
            Some(_) => Err(Error::unreadable(self.what, "it goes on after its end")),
        }
    }
}

pub(crate) fn optional<T: ToString>(value: Option<&T>) -> String {
    value.map(T::to_string).unwrap_or_default()
}
