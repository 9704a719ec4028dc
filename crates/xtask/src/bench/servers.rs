//! Starting what is measured: the gateway, and the servers of [`stand`](super::stand), on free ports.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::callbacks::{AES_KEY, CORP, ENDPOINT, TOKEN};
use super::cpu;
use super::programs::Programs;
use crate::ports;
use crate::process::{Process, Spec};

const START_LIMIT: Duration = Duration::from_secs(60);
/// More than any row opens: whoever is over it would wait for others to leave.
const MOST_CONNECTIONS: usize = 16_000;

/// Where files and logs of a run are, and which programs it starts.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) programs: Programs,
}

/// When a server has started.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ready {
    Listens,
    /// `/readyz` of its admin address answers 200.
    SaysSo,
}

/// A server that is ready.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Bare axum.
    pub(crate) fn bare(place: &Place) -> anyhow::Result<Self> {
        Self::start(place, "bare-axum", Ready::Listens, |address, _| {
            let args = vec![
                "bench-bare-axum".into(),
                "--listen".into(),
                address.to_string(),
            ];
            Ok((place.programs.path("xtask"), args))
        })
    }

    /// A gateway that stores nothing.
    pub(crate) fn unstored(place: &Place) -> anyhow::Result<Self> {
        // It never looks for this Redis.
        let nowhere = "redis://127.0.0.1:1";
        Self::start(place, "unstored", Ready::Listens, |address, admin| {
            let config = gateway_config(place, "unstored", address, admin, nowhere)?;
            let args = vec!["bench-unstored".into(), "--config".into(), config];
            Ok((place.programs.path("xtask"), args))
        })
    }

    /// The gateway, as it is shipped.
    pub(crate) fn gateway(place: &Place, redis_url: &str) -> anyhow::Result<Self> {
        Self::start(place, "gateway", Ready::SaysSo, |address, admin| {
            let config = gateway_config(place, "gateway", address, admin, redis_url)?;
            Ok((
                place.programs.path("gateway"),
                vec!["--config".into(), config],
            ))
        })
    }

    /// Any program; `command` is told where it is to listen, for its work and for its probes.
    pub(crate) fn start(
        place: &Place,
        name: &str,
        ready: Ready,
        command: impl Fn(SocketAddr, SocketAddr) -> anyhow::Result<(PathBuf, Vec<String>)>,
    ) -> anyhow::Result<Self> {
        let mut last = None;
        // A port may have been taken since it was found free.
        for _ in 0..3 {
            let (address, admin) = (free()?, free()?);
            let (program, args) = command(address, admin)?;
            let spec = Spec::new(name, program, &place.folder.join(format!("{name}.log")));
            let mut process = Process::start(spec.args(args).env("RUST_LOG", "warn"))?;
            let is_ready = || match ready {
                Ready::Listens => listens(address),
                Ready::SaysSo => says_ready(admin),
            };
            match process.wait_until(START_LIMIT, is_ready) {
                Ok(()) => return Ok(Self { process, address }),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("not tried")))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// CPU used so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        cpu::used(self.pid())
    }

    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.process.stop().map(drop)
    }
}

fn free() -> anyhow::Result<SocketAddr> {
    Ok(SocketAddr::from(([127, 0, 0, 1], ports::free()?)))
}

fn listens(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

/// `/readyz` answers 200.
fn says_ready(admin: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&admin, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = [0; 16];
        stream.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

fn gateway_config(
    place: &Place,
    name: &str,
    address: SocketAddr,
    admin: SocketAddr,
    redis_url: &str,
) -> anyhow::Result<String> {
    let token = secret(&place.folder, "token", TOKEN)?;
    let aes_key = secret(&place.folder, "aes_key", AES_KEY)?;
    let text = format!(
        "[http]\nlisten = \"{address}\"\nadmin_listen = \"{admin}\"\nmax_connections = {MOST_CONNECTIONS}\n\
         drain_ms = 0\n[log]\nlevel = \"warn\"\n[redis]\nurl = \"{redis_url}\"\n\
         [endpoints.{ENDPOINT}]\ncorp_id = \"{CORP}\"\n\
         keys = [{{ token = \"{token}\", aes_key = \"{aes_key}\" }}]\n"
    );
    let file = place.folder.join(format!("{name}.toml"));
    std::fs::write(&file, text)?;
    Ok(file.display().to_string())
}

/// A secret as configurations refer to it.
pub(crate) fn secret(folder: &Path, name: &str, value: &str) -> anyhow::Result<String> {
    let file = folder.join(name);
    std::fs::write(&file, value)?;
    Ok(format!("file:{}", file.display()))
}
