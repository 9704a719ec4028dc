//! The sockets. Made before the workers start, so that a taken port stops the program at once and a test can pass
//! its own.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::config::Config;

/// What the gateway listens on. One worker thread serves each socket in `callback`.
#[derive(Debug)]
pub struct Listeners {
    /// `/callback/{endpoint}`.
    pub callback: Vec<TcpListener>,
    /// `/livez`, `/readyz`, `/metrics`.
    pub admin: TcpListener,
}

impl Listeners {
    /// One socket per worker on the configured address. They share the port (`SO_REUSEPORT`): the kernel spreads
    /// connections over them and no worker waits for another's lock.
    pub fn bind(config: &Config) -> io::Result<Self> {
        let http = &config.http;
        let named = |what: &str, addr: SocketAddr, error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("http.{what}: cannot listen on {addr}: {error}"),
            )
        };
        let first =
            bind(http.listen, http.backlog).map_err(|error| named("listen", http.listen, error))?;
        // Port 0 is settled by the first.
        let addr = first.local_addr()?;
        let mut callback = vec![first];
        while callback.len() < config.workers() {
            callback.push(bind(addr, http.backlog).map_err(|error| named("listen", addr, error))?);
        }
        let admin = TcpListener::bind(http.admin_listen)
            .map_err(|error| named("admin_listen", http.admin_listen, error))?;
        Ok(Self { callback, admin })
    }

    /// Where callbacks are received.
    pub fn callback_addr(&self) -> io::Result<SocketAddr> {
        self.callback
            .first()
            .ok_or(io::ErrorKind::AddrNotAvailable)?
            .local_addr()
    }

    /// Where the probes are.
    pub fn admin_addr(&self) -> io::Result<SocketAddr> {
        self.admin.local_addr()
    }
}

fn bind(addr: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&addr.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// For the runtime that accepts. Accepted connections inherit TCP_NODELAY, which saves a call each.
pub(crate) fn into_tokio(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    SockRef::from(&listener).set_tcp_nodelay(true)?;
    tokio::net::TcpListener::from_std(listener)
}
