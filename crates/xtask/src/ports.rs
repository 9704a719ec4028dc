//! Free ports of the loopback.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Mutex;

/// Below the range from which the kernel takes ports for outgoing connections, so that none of those gets in between.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port that is free now and that this process has not handed out yet. Somebody else may still take it before it
/// is bound: whoever starts a server must be ready to try another.
pub(crate) fn free() -> anyhow::Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    for _ in 0..1_000 {
        let port = FIRST + rand::random_range(0..COUNT);
        let mut given = GIVEN
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if is_free(port) && given.insert(port) {
            return Ok(port);
        }
    }
    anyhow::bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}

pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn ports_are_free_and_never_given_twice() {
        let ports: std::collections::BTreeSet<u16> =
            (0..50).map(|_| super::free().unwrap()).collect();
        assert_eq!(ports.len(), 50);
    }
}
