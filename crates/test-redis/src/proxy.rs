//! A TCP proxy that misbehaves on request. It knows no protocol: Redis, Postgres and HTTP all pass.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Pass,
    Cut,
    Pause,
    DropReplies,
}

#[derive(Clone, Copy, Debug)]
struct State {
    mode: Mode,
    latency: Duration,
    target: SocketAddr,
    /// Connections to an earlier target stay as they are.
    keep: bool,
}

/// Stands between a client and a server. Runs in a thread of its own, so a test may block.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    state: watch::Sender<State>,
}

impl Proxy {
    /// Listens on a free loopback port and passes everything on to `target`.
    ///
    /// # Panics
    /// When the target is no address or no port is free.
    pub fn to(target: impl ToSocketAddrs) -> Proxy {
        let target = target
            .to_socket_addrs()
            .expect("an address")
            .next()
            .expect("an address");
        let (state, watcher) = watch::channel(State {
            mode: Mode::Pass,
            latency: Duration::ZERO,
            target,
            keep: false,
        });
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener
            .set_nonblocking(true)
            .expect("a non-blocking socket");
        let addr = listener.local_addr().expect("a bound socket");
        std::thread::Builder::new()
            .name("test-proxy".into())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(accept(listener, watcher));
            })
            .expect("a thread for the proxy");
        Proxy { addr, state }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `redis://` and the address.
    pub fn redis_url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Resets every connection and every new one.
    pub fn cut(&self) {
        self.mode(Mode::Cut);
    }

    /// Silence: connections are accepted and stay open, nothing passes in either direction. What was sent
    /// meanwhile arrives after [`restore`](Self::restore), as with lost packets that TCP sends again.
    pub fn pause(&self) {
        self.mode(Mode::Pause);
    }

    /// Requests arrive, answers are lost: the effect happened and the caller cannot know. Connections that
    /// lost an answer are reset by [`restore`](Self::restore) or [`cut`](Self::cut).
    pub fn drop_replies(&self) {
        self.mode(Mode::DropReplies);
    }

    /// Delays every chunk in both directions by this much, on top of any mode.
    pub fn latency(&self, latency: Duration) {
        self.state.send_modify(|state| state.latency = latency);
    }

    /// New connections go to another server; the existing ones are reset. As after a failover behind one address.
    pub fn retarget(&self, target: SocketAddr) {
        self.set_target(target, false);
    }

    /// New connections go to another server; the existing ones stay with the old one.
    pub fn retarget_new(&self, target: SocketAddr) {
        self.set_target(target, true);
    }

    fn set_target(&self, target: SocketAddr, keep: bool) {
        self.state.send_modify(|state| {
            state.target = target;
            state.keep = keep;
        });
    }

    /// Everything passes again, without latency.
    pub fn restore(&self) {
        self.state.send_modify(|state| {
            state.mode = Mode::Pass;
            state.latency = Duration::ZERO;
        });
    }

    fn mode(&self, mode: Mode) {
        self.state.send_modify(|state| state.mode = mode);
    }
}

async fn accept(listener: std::net::TcpListener, watcher: watch::Receiver<State>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    let mut ended = watcher.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    tokio::spawn(connection(client, watcher.clone()));
                }
            }
            // The Proxy was dropped: the runtime and with it all connections end.
            () = closed(&mut ended) => return,
        }
    }
}

async fn closed(watcher: &mut watch::Receiver<State>) {
    while watcher.changed().await.is_ok() {}
}

async fn connection(client: TcpStream, mut watcher: watch::Receiver<State>) {
    let start = *watcher.borrow_and_update();
    // A closed socket with linger 0 sends RST instead of an orderly end.
    client.set_zero_linger().ok();
    if start.mode == Mode::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(start.target).await else {
        return;
    };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = pump(from_client, to_server, watcher.clone(), false);
    let replies = pump(from_server, to_client, watcher.clone(), true);
    let stop = async {
        let mut lossy = start.mode == Mode::DropReplies;
        loop {
            let now = *watcher.borrow_and_update();
            let lost = lossy && now.mode == Mode::Pass;
            let moved = now.target != start.target && !now.keep;
            if now.mode == Mode::Cut || moved || lost {
                return;
            }
            lossy |= now.mode == Mode::DropReplies;
            if watcher.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = replies => {}
        () = stop => {}
    }
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut watcher: watch::Receiver<State>,
    replies: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(n) = from.read(&mut buffer).await {
        if n == 0 {
            return;
        }
        let latency = watcher.borrow().latency;
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let Ok(state) = watcher
            .wait_for(|state| state.mode != Mode::Pause)
            .await
            .map(|state| *state)
        else {
            return;
        };
        if replies && state.mode == Mode::DropReplies {
            continue;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
