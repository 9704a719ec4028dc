//! Log lines on standard output, as JSON or as text. The gateway writes ids, counts and causes; secrets, plaintext and
//! names never.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Config, Error, LogFormat};

/// Installs the process-wide logger. Call it once, in `main`.
pub fn start(config: &Config) -> Result<(), Error> {
    let filter = EnvFilter::try_new(&config.log.level)
        .map_err(|error| Error::new("log.level", format!("is no tracing filter: {error}")))?;
    let lines = match config.log.format {
        LogFormat::Json => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .boxed(),
        // Colours are for eyes: in a file or a pipe they are noise.
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_ansi(std::io::stdout().is_terminal())
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init()
        .map_err(|error| Error::new("log", error.to_string()))
}
