//! Lines that say what happens, in cargo's manner: a word to the right of a column, then the rest.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};

const GREEN: &str = "32";
const RED: &str = "31";

static SAID: AtomicU64 = AtomicU64::new(0);

/// How many lines were said so far: whoever draws over his own lines must know whether something stands below them.
pub(crate) fn said() -> u64 {
    SAID.load(Ordering::Relaxed)
}

/// `   Starting Redis 7.0.15 on 127.0.0.1:24017`
pub(crate) fn say(word: &str, rest: &str) {
    line(GREEN, word, rest);
}

/// The same for what went wrong.
pub(crate) fn fail(rest: &str) {
    line(RED, "Error", rest);
}

/// A line of its own on standard output: results that may be piped on.
pub(crate) fn print(text: &str) {
    // Nobody reads any more: nothing to be done about that.
    writeln!(std::io::stdout(), "{text}").ok();
}

fn line(colour: &str, word: &str, rest: &str) {
    SAID.fetch_add(1, Ordering::Relaxed);
    let mut out = std::io::stderr();
    let done = if out.is_terminal() {
        writeln!(out, "\x1b[1;{colour}m{word:>12}\x1b[0m {rest}")
    } else {
        writeln!(out, "{word:>12} {rest}")
    };
    done.ok();
}
