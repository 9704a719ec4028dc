//! `token_load`, `token_store`, `token_lease`, `token_release`.

/// The shared token of one app. Values are plain text here: the model never meets a real one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct App {
    pub token: Option<(String, i64)>,
    pub lease: Option<(String, i64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    Stored(String, i64),
    Kept(String, i64),
    Expired,
}

impl App {
    pub fn load(&self, now: i64) -> Option<(String, i64)> {
        self.token.clone().filter(|(_, end)| *end > now)
    }

    pub fn store(&mut self, failed: Option<&str>, value: &str, end: i64, now: i64) -> Stored {
        if let Some((old, end)) = self
            .load(now)
            .filter(|(old, _)| Some(old.as_str()) != failed)
        {
            return Stored::Kept(old, end);
        }
        let end = end.min(now + 7_140_000);
        if end <= now {
            return Stored::Expired;
        }
        self.token = Some((value.to_owned(), end));
        Stored::Stored(value.to_owned(), end)
    }

    pub fn lease(&mut self, owner: &str, lease_ms: i64, now: i64) -> bool {
        let busy = self
            .lease
            .as_ref()
            .is_some_and(|(held_by, end)| held_by != owner && *end > now);
        if !busy {
            self.lease = Some((owner.to_owned(), now + lease_ms));
        }
        !busy
    }

    pub fn release(&mut self, owner: &str) -> bool {
        self.lease
            .take_if(|(held_by, _)| held_by == owner)
            .is_some()
    }
}
