//! Every value against the rule of its key.

use config::{Map, Value, ValueKind};

use crate::{Error, Errors, Rule, shown};

/// The keys of a program and what each accepts: `outbox.workers`. `*` stands for a name that the user chooses, `#` for the
/// place in a list.
pub type Keys = &'static [(&'static str, Rule)];

/// Everything that is wrong with the values, in the order of their keys.
pub fn check(merged: &config::Config, keys: Keys) -> Vec<Error> {
    let mut errors = Vec::new();
    let rules: Vec<Pattern> = keys
        .iter()
        .map(|(key, rule)| (key.split('.').collect(), *rule))
        .collect();
    let root = Place {
        key: String::new(),
        depth: 0,
        rules,
    };
    root.check("", &merged.cache, &mut errors);
    errors
}

impl Errors {
    /// As [`check`], and what a file says that is none of the program's keys is an error too.
    pub fn check(merged: &config::Config, keys: Keys) -> Result<(), Self> {
        Self::none_of(check(merged, keys))
    }
}

type Pattern = (Vec<&'static str>, Rule);

/// Where we are, and the rules of what may be there and below.
struct Place {
    key: String,
    depth: usize,
    rules: Vec<Pattern>,
}

impl Place {
    fn check(&self, name: &str, value: &Value, errors: &mut Vec<Error>) {
        let own = self.rules.iter().find(|(path, _)| path.len() == self.depth);
        if let Some((_, rule)) = own {
            let problem = rule.refuse_name(name).or_else(|| rule.refuse(name, value));
            if let Some(problem) = problem {
                errors.push(Error::new(self.key.as_str(), problem));
                return;
            }
            if !rule.is_container() {
                return;
            }
        }
        match &value.kind {
            ValueKind::Table(table) => self.check_table(table, errors),
            ValueKind::Array(items) if own.is_some() => {
                for (index, item) in items.iter().enumerate() {
                    let place = self.below(&index.to_string(), format!("{}[{index}]", self.key));
                    place.check("", item, errors);
                }
            }
            _ => {
                let names = self.names();
                let problem = if names == "*" {
                    "must be a table, with a table of its own for each name".to_owned()
                } else {
                    format!("must be a table with the keys {names}")
                };
                errors.push(Error::new(self.key.as_str(), problem));
            }
        }
    }

    fn check_table(&self, table: &Map<String, Value>, errors: &mut Vec<Error>) {
        let mut names: Vec<&String> = table.keys().collect();
        names.sort();
        for name in names {
            let place = self.below(name, shown::join(&self.key, name));
            if place.rules.is_empty() {
                let within = if self.key.is_empty() {
                    "the keys at the top are".to_owned()
                } else {
                    format!("{} has", self.key)
                };
                let problem = format!("unknown key: {within} {}", self.names());
                errors.push(Error::new(place.key, problem));
                continue;
            }
            place.check(name, &table[name], errors);
        }
        for (path, rule) in &self.rules {
            if let [.., name] = path.as_slice()
                && path.len() == self.depth + 1
                && rule.required
                && !table.contains_key(*name)
            {
                let key = shown::join(&self.key, name);
                errors.push(Error::new(key, format!("is missing: {}", rule.accepted())));
            }
        }
    }

    fn below(&self, name: &str, key: String) -> Self {
        let fits = |word: &str| match word {
            "*" => true,
            "#" => name.parse::<usize>().is_ok(),
            word => word == name,
        };
        let rules = self
            .rules
            .iter()
            .filter(|(path, _)| path.get(self.depth).is_some_and(|word| fits(word)));
        Self {
            key,
            depth: self.depth + 1,
            rules: rules.cloned().collect(),
        }
    }

    /// What may be directly below.
    fn names(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for (path, _) in &self.rules {
            if let Some(name) = path.get(self.depth)
                && !names.contains(name)
            {
                names.push(name);
            }
        }
        names.join(", ")
    }
}
