//! The program itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const CONFIG: &str = r#"
seed = 7
[limits]
in_flight = 0
[[corps]]
id = "ww1"
apps = [{ agent_id = 1000002, secret = "s" }]
generate = [{ prefix = "m", count = 3 }]
[[faults]]
api = "externalcontact/get"
act = { errcode = -1 }
times = 1
"#;

fn start(config: &str) -> (Child, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(config.as_bytes()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_wecom-sim"))
        .args(["--listen", "127.0.0.1:0", "--config"])
        .arg(file.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    // The file may go: it is read at the start only.
    (child, line.trim().to_owned())
}

#[tokio::test]
async fn prints_its_address_and_stops_on_sigterm() {
    let (mut child, url) = start(CONFIG);
    let config: Value = reqwest::get(format!("{url}/sim/config"))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(config["seed"], 7);
    assert_eq!(config["corps"][0]["members"].as_array().unwrap().len(), 3);
    assert_eq!(config["faults"][0]["act"]["errcode"], -1);
    let killed = Command::new("sh")
        .args(["-c", &format!("kill -TERM {}", child.id())])
        .status()
        .unwrap();
    assert!(killed.success());
    assert!(child.wait().unwrap().success());
}

#[test]
fn bad_file_is_refused_with_its_field() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"[callbacks]\nconnections = 0\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_wecom-sim"))
        .arg("--config")
        .arg(file.path())
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("callbacks.connections: must be at least 1")
    );
}

#[test]
fn printed_configuration_can_be_read_back() {
    let output = Command::new(env!("CARGO_BIN_EXE_wecom-sim"))
        .arg("--check-config")
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        wecom_sim::Config::parse(&text).unwrap(),
        wecom_sim::Config::default()
    );
}

/// The example of the README works as it stands.
#[test]
fn example_configuration_is_valid() {
    let config = wecom_sim::Config::parse(include_str!("../../example.toml")).unwrap();
    assert_eq!(config.corps[0].all_members().len(), 102);
}

/// Every admin route and every API is in the README.
#[tokio::test]
async fn readme_names_every_route() {
    let readme = include_str!("../../README.md");
    let client = crate::harness::Client::start(wecom_sim::Config::default()).await;
    let help = client
        .http
        .get(client.url("/sim"))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    for route in help
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
    {
        let path = route.split('?').next().unwrap();
        assert!(readme.contains(path), "{path}");
    }
    let apis: Vec<String> = client
        .http
        .get(client.url("/sim/apis"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    for api in apis {
        let short = api.trim_start_matches("externalcontact/");
        let stem = short.split_once('_').map_or(short, |(_, rest)| rest);
        assert!(
            readme.contains(short) || readme.contains(&format!("_{stem}")),
            "{api}"
        );
    }
}
