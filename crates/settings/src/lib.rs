//! How a program is told what to do: files and the environment laid over its commented defaults, every value held
//! against the rule of its key, secrets found where they are, and the result shown without them.
//!
//! It knows no key of any program: each brings its defaults and its table of [`Rule`]s. It never looks at the process
//! environment, so tests need not change it.

mod check;
mod error;
mod list;
mod rule;
mod secret;
mod shown;
mod sources;

pub use check::{Keys, check};
pub use config::{Config as Merged, Value};
pub use error::{Error, Errors};
pub use list::list;
pub use rule::Rule;
pub use secret::{NO_QUERY, SecretRef, has_query, resolve};
pub use shown::{join, shown};
pub use sources::{Sources, describe};
