//! Free ports of the loopback.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Mutex;

use crate::root;
use crate::runs::Lock;

/// Below the range from which the kernel takes ports for outgoing connections, so that none of those gets in between.
const FIRST: u16 = 20_000;
/// A process takes its ports from a block that is its own, so that two which start at once do not find the same ones.
const BLOCKS: u16 = 120;
const BLOCK: u16 = 100;

/// A port that is free now, that this process has not handed out yet and no other of this checkout does. Somebody
/// else may still take it before it is bound: whoever starts a server must be ready to try another.
pub(crate) fn free() -> anyhow::Result<u16> {
    static OURS: Mutex<Ours> = Mutex::new(Ours {
        blocks: Vec::new(),
        given: BTreeSet::new(),
    });
    let locks = root::folder("ports")?;
    OURS.lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .free(&locks)
}

pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// What this process has.
#[derive(Debug)]
struct Ours {
    blocks: Vec<(u16, Lock)>,
    given: BTreeSet<u16>,
}

impl Ours {
    fn free(&mut self, locks: &Path) -> anyhow::Result<u16> {
        loop {
            let ports = self
                .blocks
                .iter()
                .flat_map(|(block, _)| (0..BLOCK).map(move |n| FIRST + block * BLOCK + n));
            let port = ports
                .filter(|port| !self.given.contains(port))
                .find(|port| is_free(*port));
            if let Some(port) = port {
                self.given.insert(port);
                return Ok(port);
            }
            let another = self.another_block(locks)?;
            self.blocks.push(another);
        }
    }

    fn another_block(&self, locks: &Path) -> anyhow::Result<(u16, Lock)> {
        // Not always the same first: other checkouts have locks of their own.
        let begin = rand::random_range(0..BLOCKS);
        for block in (0..BLOCKS).map(|n| (begin + n) % BLOCKS) {
            if let Some(lock) = Lock::take(&locks.join(block.to_string()))? {
                return Ok((block, lock));
            }
        }
        anyhow::bail!(
            "no free port between {FIRST} and {}",
            FIRST + BLOCKS * BLOCK
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_never_given_twice() {
        let ports: BTreeSet<u16> = (0..150).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 150);
    }

    #[test]
    fn two_processes_never_get_the_same() {
        let locks = tempfile::tempdir().unwrap();
        let ours = || Ours {
            blocks: Vec::new(),
            given: BTreeSet::new(),
        };
        let (mut one, mut two) = (ours(), ours());
        let mut seen = BTreeSet::new();
        for _ in 0..150 {
            assert!(seen.insert(one.free(locks.path()).unwrap()));
            assert!(seen.insert(two.free(locks.path()).unwrap()));
        }
    }
}
