//! The configuration file of each process, and the process that reads it.

use std::path::Path;

use super::{AES_KEY, AGENT, COOKIE_KEY, CORP, Node, Programs, SECRET, START, TOKEN, Wishes};
use crate::ports;
use crate::process::{Process, Spec};
use crate::services::Redis;

pub(super) fn start_sim(
    programs: &Programs,
    folder: &Path,
    port: u16,
    gateway_ports: &[u16],
    wishes: &Wishes,
    seed: u64,
) -> anyhow::Result<Process> {
    let members: Vec<String> = std::iter::once("desk")
        .chain(wishes.members.iter().map(|(member, _)| member.as_str()))
        .chain(wishes.others.iter().map(String::as_str))
        .map(|member| format!("{{ userid = \"{member}\", customer_limit = 0 }}"))
        .collect();
    let urls: Vec<String> = gateway_ports
        .iter()
        .map(|port| format!("http://127.0.0.1:{port}/callback/sales"))
        .collect();
    let text = format!(
        "seed = {seed}\n[clock]\nmode = \"real\"\n{}\n[[corps]]\nid = \"{CORP}\"\nmembers = [{}]\n\
         [[corps.apps]]\nagent_id = {AGENT}\nsecret = \"{SECRET}\"\n[corps.apps.callback]\nurls = {urls:?}\n\
         token = \"{TOKEN}\"\naes_key = \"{AES_KEY}\"\n",
        wishes.sim,
        members.join(", "),
    );
    let config = folder.join("wecom-sim.toml");
    std::fs::write(&config, text)?;
    let spec = Spec::new(
        "wecom-sim",
        programs.path("wecom-sim"),
        &folder.join("wecom-sim.log"),
    )
    .args(["--listen", &format!("127.0.0.1:{port}")])
    .arg("--config")
    .arg(config);
    let mut process = Process::start(spec)?;
    process.wait_until(START, || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    })?;
    Ok(process)
}

pub(super) fn gateway(
    programs: &Programs,
    folder: &Path,
    n: usize,
    port: u16,
    redis: &Redis,
) -> anyhow::Result<Node> {
    let name = format!("gateway-{n}");
    let admin = ports::free()?;
    let text = format!(
        "[http]\nlisten = \"127.0.0.1:{port}\"\nadmin_listen = \"127.0.0.1:{admin}\"\nworkers = 1\n[redis]\nurl = \"{}\"\n\
         [log]\nlevel = \"warn\"\n[endpoints.sales]\ncorp_id = \"{CORP}\"\nkind = \"app\"\n\
         keys = [{{ token = \"env:CALLBACK_TOKEN\", aes_key = \"env:CALLBACK_KEY\" }}]\n",
        redis.url(),
    );
    let config = folder.join(format!("{name}.toml"));
    std::fs::write(&config, text)?;
    let spec = Spec::new(
        &name,
        programs.path("gateway"),
        &folder.join(format!("{name}.log")),
    )
    .arg("--config")
    .arg(config)
    .env("CALLBACK_TOKEN", TOKEN)
    .env("CALLBACK_KEY", AES_KEY);
    let url = format!("http://127.0.0.1:{port}/callback/sales");
    Ok(Node {
        name,
        spec,
        url,
        pages: String::new(),
        process: None,
    })
}

pub(super) fn allocator(
    programs: &Programs,
    folder: &Path,
    n: usize,
    redis: &Redis,
    postgres_url: &str,
    sim_url: &str,
    wishes: &Wishes,
) -> anyhow::Result<Node> {
    let name = format!("allocator-{n}");
    let (api, admin, public) = (ports::free()?, ports::free()?, ports::free()?);
    let pages = format!("http://127.0.0.1:{public}");
    let text = format!(
        "{}\n[http]\nlisten = \"127.0.0.1:{api}\"\nadmin_listen = \"127.0.0.1:{admin}\"\n\
         [public]\nlisten = \"127.0.0.1:{public}\"\nbase_url = \"{pages}\"\ncookie_key = \"env:COOKIE_KEY\"\n[redis]\nurl = \"{}\"\n\
         [wecom]\nbase_url = \"{sim_url}\"\n[corps.{CORP}]\nagent_id = {AGENT}\nsecret = \"env:APP_SECRET\"\n\
         default_pool = \"sales\"\n",
        wishes.allocator,
        redis.url(),
    );
    let config = folder.join(format!("{name}.toml"));
    std::fs::write(&config, text)?;
    let spec = Spec::new(
        &name,
        programs.path("allocator"),
        &folder.join(format!("{name}.log")),
    )
    .arg("--config")
    .arg(config)
    .env("APP_SECRET", SECRET)
    .env("COOKIE_KEY", COOKIE_KEY)
    .env("PAIDAN_POSTGRES_URL", postgres_url)
    .env("RUST_LOG", "warn");
    Ok(Node {
        name,
        spec,
        url: format!("http://127.0.0.1:{api}"),
        pages,
        process: None,
    })
}
