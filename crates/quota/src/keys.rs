//! The keys of this crate. All keys of one corp carry its id as hash tag; those of an egress address carry the address.

/// The keys behind one API's budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetKeys {
    pub budget: String,
    pub flight: String,
    pub index: String,
    /// Present for a corp's budget: absent in Redis means that the corp is closed.
    pub fence: Option<String>,
}

impl BudgetKeys {
    /// Of one corp and API.
    pub fn corp(corp: &str, api: &str) -> Self {
        Self {
            fence: Some(key(corp, "fence")),
            ..Self::new(corp, api)
        }
    }

    /// Of what one member may be sent by an API; told apart from the APIs' own budgets, which people look at.
    pub fn member(corp: &str, api: &str, member: &str) -> Self {
        Self {
            index: key(corp, "budgets:members"),
            ..Self::corp(corp, &format!("{api}:{member}"))
        }
    }

    /// Of one egress address and API, shared by all corps.
    pub fn egress(address: &str, api: &str) -> Self {
        Self::new(&format!("egress:{address}"), api)
    }

    fn new(tag: &str, api: &str) -> Self {
        Self {
            budget: key(tag, &format!("budget:{api}")),
            flight: key(tag, &format!("flight:{api}")),
            index: key(tag, "budgets"),
            fence: None,
        }
    }
}

/// The fence and some locks of one corp; the names are sorted and each is there once, so that two callers who want
/// the same names always ask in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockKeys {
    pub fence: String,
    pub locks: Vec<String>,
}

impl LockKeys {
    pub fn new(corp: &str, names: &[&str]) -> Self {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        Self {
            fence: key(corp, "fence"),
            locks: names
                .iter()
                .map(|name| key(corp, &format!("lock:{name}")))
                .collect(),
        }
    }
}

/// The shared token of one app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenKeys {
    pub token: String,
    pub lease: String,
}

impl TokenKeys {
    pub fn new(corp: &str, app: &str) -> Self {
        Self {
            token: key(corp, &format!("token:{app}")),
            lease: key(corp, &format!("tokenlease:{app}")),
        }
    }
}

fn key(tag: &str, name: &str) -> String {
    format!("{{{tag}}}:v1:{name}")
}
