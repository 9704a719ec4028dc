//! Tests over the fixtures of the workspace; they are not part of the published package.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod callback_cases;
mod fixtures;
mod vectors;
