//! Private Redis servers for tests: one per test process, or a fresh one to break.
//!
//! It knows how to start, kill and disturb a `redis-server`. It knows no key, no script and no crate of ours.
//!
//! ```no_run
//! # async fn example() {
//! let redis = test_redis::shared();
//! let connection = redis.connection_manager().await;
//! let corp = test_redis::corp(); // keys of this test alone: never FLUSHDB on the shared server
//! # }
//! ```

mod keeper;
mod launch;
mod lua_header;
mod proxy;
mod server;

use std::sync::OnceLock;

pub use lua_header::{check_lua_header, lua_header_problems};
pub use proxy::Proxy;
pub use server::{AppendOnly, Options, Server};

/// The server of this test process, started at the first call (about 15 ms) and stopped when the process ends,
/// however it ends. It keeps nothing on disk.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::start(Options::default()))
}

/// A clustered server of this test process with one node that holds all slots. Redis makes a new cluster
/// wait 2 s before it takes writes, so ask for it only in tests about clusters.
pub fn shared_cluster() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| {
        Server::start(Options {
            cluster: true,
            ..Options::default()
        })
    })
}

/// A corp id nobody used before: the namespace of one test.
pub fn corp() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("ww{}", &random[..16])
}
