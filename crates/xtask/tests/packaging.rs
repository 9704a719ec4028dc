//! `Dockerfile`, `docker-compose.yml` and what they mount. No Docker engine is needed: what can be read is read.
#![expect(clippy::unwrap_used, reason = "all of this binary is tests")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_yaml_ng::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The services with their anchors resolved.
fn services() -> BTreeMap<String, Value> {
    let mut compose: Value = serde_yaml_ng::from_str(&read("docker-compose.yml")).unwrap();
    compose.apply_merge().unwrap();
    serde_yaml_ng::from_value(compose["services"].clone()).unwrap()
}

fn words(value: &Value) -> Vec<&str> {
    value
        .as_sequence()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect()
}

/// `${NAME}`, `${NAME:-default}`, `${NAME:?error}` of a text.
fn variables(text: &str) -> BTreeSet<&str> {
    text.split("${")
        .skip(1)
        .map(|rest| rest.split([':', '}']).next().unwrap())
        .collect()
}

#[test]
fn redis_keeps_what_it_acknowledged_and_evicts_nothing() {
    let redis = &services()["redis"];
    let command = words(&redis["command"]);
    for pair in [
        ["--appendonly", "yes"],
        ["--appendfsync", "always"],
        ["--maxmemory-policy", "noeviction"],
        // Refused, should the entrypoint not have mended it.
        ["--aof-load-truncated", "no"],
    ] {
        assert!(command.windows(2).any(|words| words == pair), "{pair:?}");
    }
    assert_eq!(redis["volumes"][0].as_str(), Some("redis-data:/data"));
}

/// What runs before Redis, on a file that a crash left in the middle of a script call: the whole call is cut off, and
/// Redis gets the arguments it would have got. Without a file it is just started. A file whose damage is not at its end is
/// left as it is, and Redis is not started.
#[test]
fn redis_starts_from_a_mended_file() {
    let redis = &services()["redis"];
    let entrypoint = words(&redis["entrypoint"]);
    let [shell, "-c", script, name] = entrypoint[..] else {
        panic!("{entrypoint:?}")
    };
    let folder = tempfile::tempdir().unwrap();
    let stub = folder.path().join("docker-entrypoint.sh");
    std::fs::write(&stub, "#!/bin/sh\nprintf '<%s>' \"$@\"\n").unwrap();
    std::fs::set_permissions(&stub, std::fs::Permissions::from_mode(0o755)).unwrap();
    let data = folder.path().to_str().unwrap();
    let run = || {
        let path = std::env::var("PATH").unwrap();
        let script = script
            .replace("$$", "$")
            .replace("/data/", &format!("{data}/"));
        std::process::Command::new(shell)
            .args(["-c", &script, name, "redis-server", "--save", "", "a b"])
            .env("PATH", format!("{data}:{path}"))
            .output()
            .unwrap()
    };
    let start = || {
        let output = run();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        text
    };
    let started = "<redis-server><--save><><a b>";
    assert_eq!(start(), started);

    let server = test_redis::Server::start(test_redis::Options {
        appendonly: test_redis::AppendOnly::Always,
        ..test_redis::Options::default()
    });
    let call = "for n = 1, 3 do redis.call('SET', n, ARGV[1]) end";
    for n in ["1", "2"] {
        server.cli(&["EVAL", call, "0", n]);
    }
    server.kill();
    let kept = folder.path().join("appendonlydir");
    std::fs::create_dir(&kept).unwrap();
    for file in std::fs::read_dir(server.dir().join("appendonlydir")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), kept.join(file.file_name())).unwrap();
    }
    let file = kept.join("appendonly.aof.1.incr.aof");
    let whole = std::fs::read(&file).unwrap();
    let begins = |at: &usize| whole[*at..].starts_with(b"*1\r\n$5\r\nMULTI\r\n");
    let second = (0..whole.len()).rfind(begins).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 20]).unwrap();
    assert!(start().ends_with(started));
    assert_eq!(std::fs::read(&file).unwrap(), whole[..second]);
    // What is in order is left alone.
    assert_eq!(start(), started);
    assert_eq!(std::fs::read(&file).unwrap(), whole[..second]);

    let mut damaged = whole[..second].to_vec();
    damaged.extend_from_slice(&[0; 16]);
    damaged.resize(second + 1024 * 1024 + 1, b'x');
    std::fs::write(&file, &damaged).unwrap();
    let output = run();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("cut off 1048577 bytes"),
        "{said}"
    );
    assert!(output.stdout.is_empty(), "Redis was started");
    assert_eq!(std::fs::read(&file).unwrap(), damaged);
    damaged.pop();
    std::fs::write(&file, &damaged).unwrap();
    assert!(start().ends_with(started));
    assert_eq!(std::fs::read(&file).unwrap(), whole[..second]);
}

#[test]
fn there_are_two_of_each_behind_the_proxy_and_a_migration_before_the_allocators() {
    let services = services();
    for (name, port) in [
        ("gateway1", "8001"),
        ("gateway2", "8001"),
        ("allocator1", "8081"),
        ("allocator2", "8081"),
    ] {
        let service = &services[name];
        assert_eq!(
            words(&service["healthcheck"]["test"]),
            ["CMD", "livez", port],
            "{name}"
        );
        assert_eq!(
            service["restart"].as_str(),
            Some("unless-stopped"),
            "{name}"
        );
        assert_eq!(service["read_only"].as_bool(), Some(true), "{name}");
        assert!(
            service["ports"].is_null(),
            "{name} is reached through the proxy only"
        );
    }
    assert_eq!(
        words(&services["migrate"]["command"]),
        ["allocator", "migrate"]
    );
    for name in ["allocator1", "allocator2"] {
        let condition = &services[name]["depends_on"]["migrate"]["condition"];
        assert_eq!(condition.as_str(), Some("service_completed_successfully"));
    }
    // URL verification works with Redis down, so no gateway waits for a healthy one.
    let condition = &services["gateway1"]["depends_on"]["redis"]["condition"];
    assert_eq!(condition.as_str(), Some("service_started"));

    let proxy = read("config/haproxy.cfg");
    for name in [
        "gateway1:8000",
        "gateway2:8000",
        "allocator1:8080",
        "allocator2:8080",
        "allocator1:8090",
        "allocator2:8090",
    ] {
        let server = format!("    server {} {name}", name.split(':').next().unwrap());
        assert!(proxy.lines().any(|line| line == server), "{server}");
    }
    for port in ["8001", "8081"] {
        assert!(proxy.contains(&format!("check port {port}")));
        assert!(!proxy.contains(&format!("1:{port}")), "metrics stay inside");
    }
}

#[test]
fn only_the_proxy_is_reached_from_outside_and_the_stores_have_no_way_out() {
    for (name, service) in services() {
        match name.as_str() {
            "proxy" => assert!(!service["ports"].is_null()),
            // On this machine alone, and nobody starts it by accident.
            "wecom-sim" => {
                let ports = words(&service["ports"]);
                assert!(ports.iter().all(|port| port.starts_with("127.0.0.1:")));
                assert_eq!(words(&service["profiles"]), ["sim"]);
            }
            _ => assert!(service["ports"].is_null(), "{name}"),
        }
        let networks = words(&service["networks"]);
        if ["redis", "postgres"].contains(&name.as_str()) {
            assert_eq!(networks, ["stores"], "{name}");
        }
    }
    let compose: Value = serde_yaml_ng::from_str(&read("docker-compose.yml")).unwrap();
    assert_eq!(
        compose["networks"]["stores"]["internal"].as_bool(),
        Some(true)
    );
    let volumes = compose["volumes"].as_mapping().unwrap();
    for name in ["redis-data", "postgres-data"] {
        assert!(volumes.contains_key(name), "{name}");
    }
}

#[test]
fn secrets_come_from_the_env_file_and_every_variable_is_explained_there() {
    let example = read(".env.example");
    let explained: BTreeSet<&str> = example
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('=').map(|(name, _)| name))
        .collect();
    assert_eq!(variables(&read("docker-compose.yml")), explained);
    for line in example.lines().filter(|line| !line.starts_with('#')) {
        let secret = ["PASSWORD", "SECRET", "TOKEN", "AES_KEY"]
            .iter()
            .any(|word| line.contains(word));
        assert!(
            !secret || line.ends_with('='),
            "no secret is given away: {line}"
        );
    }
    for (name, service) in services() {
        for (variable, value) in service["environment"].as_mapping().into_iter().flatten() {
            let (variable, value) = (variable.as_str().unwrap(), value.as_str().unwrap());
            let secret = ["PASSWORD", "SECRET", "TOKEN", "KEY", "AUTH", "URL"]
                .iter()
                .any(|word| variable.contains(word));
            let required = value.contains(":?") || variable == "PAIDAN__WECOM__BASE_URL";
            assert!(!secret || required, "{name}: {variable}");
        }
    }
    for (file, entry) in [(".gitignore", "/.env"), (".dockerignore", ".env")] {
        assert!(
            read(file).lines().any(|line| line == entry),
            "{file} leaves out .env"
        );
    }
}

#[test]
fn images_are_pinned_and_mounted_files_exist() {
    for (name, service) in services() {
        let image = service["image"].as_str().unwrap();
        let tag = image.split_once(':').map_or("", |(_, tag)| tag);
        assert!(!["", "latest"].contains(&tag), "{name}: {image}");
        for volume in service["volumes"].as_sequence().into_iter().flatten() {
            if let Some(file) = volume.as_str().unwrap().strip_prefix("./") {
                let (file, target) = file.split_once(':').unwrap();
                assert!(root().join(file).is_file(), "{name}: {file}");
                assert!(target.ends_with(":ro"), "{name}: {target}");
            }
        }
    }
}

/// The environment of a service, with something for each variable.
fn environment(service: &str) -> HashMap<String, String> {
    let value = |name: &str| match name {
        "WECOM_CALLBACK_AES_KEY" => "IJUiXNpvGbODwKEBSEsAeOAPAhkqHqNCF6g19t9wfg2",
        "PAIDAN_COOKIE_KEY" => "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "PAIDAN_PUBLIC_URL" => "https://go.example.com",
        "WECOM_BASE_URL" => "https://qyapi.weixin.qq.com",
        _ => "xyz123",
    };
    let services = services();
    let environment = services[service]["environment"].as_mapping().unwrap();
    environment
        .iter()
        .map(|(name, text)| {
            let mut text = text.as_str().unwrap().to_owned();
            while let Some((start, rest)) = text.split_once("${") {
                let (variable, rest) = rest.split_once('}').unwrap();
                let name = variable.split(':').next().unwrap();
                text = format!("{start}{}{rest}", value(name));
            }
            (name.as_str().unwrap().to_owned(), text)
        })
        .collect()
}

#[test]
fn the_gateways_file_is_one_that_the_gateway_accepts() {
    let sources = gateway::Sources {
        files: vec![root().join("config/compose/gateway.toml")],
        env: environment("gateway1"),
    };
    let config = gateway::Config::load(&sources).unwrap();
    let problems: Vec<String> = gateway::check_endpoints(&config)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(config.http.listen.to_string(), "0.0.0.0:8000");
}

#[test]
fn the_allocators_file_is_one_that_the_allocator_accepts() {
    let files = [root().join("config/compose/allocator.toml")];
    let environment = environment("allocator1");
    let config = allocator::config::Config::load(&files, &environment).unwrap();
    assert_eq!(config.http.admin_listen.to_string(), "0.0.0.0:8081");
    assert_eq!(config.wecom.base_url, "https://qyapi.weixin.qq.com");
    assert_eq!(config.corps.len(), 1);
    let public = config.public.listen.unwrap();
    assert_eq!(public.to_string(), "0.0.0.0:8090");
    assert_eq!(config.check_secrets(&environment), []);
    // The proxy's address in a network of Docker's; a visitor's own is not believed.
    let proxies = &config.public.trusted_proxies;
    let trusted = |address: &str| {
        let address = address.parse().unwrap();
        proxies.iter().any(|network| network.contains(address))
    };
    assert!(trusted("172.18.0.2") && trusted("192.168.16.2") && !trusted("203.0.113.5"));
    config
        .postgres
        .url
        .read("postgres.url", &environment)
        .unwrap();
    for (name, corp) in &config.corps {
        corp.secret.read(name, &environment).unwrap();
    }
}

/// The fake knows the corp, the app and the secrets that the programs get when .env is as .env.example says.
#[test]
fn the_fakes_file_goes_with_those_of_the_programs() {
    let sim = wecom_sim::Config::load(&root().join("config/compose/wecom-sim.toml")).unwrap();
    let [corp] = sim.corps.as_slice() else {
        panic!("{:?}", sim.corps)
    };
    let [app] = corp.apps.as_slice() else {
        panic!("{:?}", corp.apps)
    };
    let parsed = |name: &str| -> toml::Table { toml::from_str(&read(name)).unwrap() };
    let allocator = parsed("config/compose/allocator.toml");
    let gateway = parsed("config/compose/gateway.toml");
    let agent = Some(i64::from(app.agent_id));
    assert_eq!(allocator["corps"][&corp.id]["agent_id"].as_integer(), agent);
    let endpoint = &gateway["endpoints"]["main"];
    assert_eq!(endpoint["corp_id"].as_str(), Some(corp.id.as_str()));
    assert_eq!(endpoint["agent_id"].as_integer(), agent);

    let callback = app.callback.as_ref().unwrap();
    assert_eq!(callback.urls, ["http://proxy:8080/callback/main"]);
    let example = read(".env.example");
    for (name, value) in [
        ("WECOM_BASE_URL", "http://wecom-sim:9000"),
        ("WECOM_APP_SECRET", &app.secret.0),
        ("WECOM_CALLBACK_TOKEN", &callback.token.0),
        ("WECOM_CALLBACK_AES_KEY", &callback.aes_key.0),
    ] {
        let line = format!("# {name}={value}");
        assert!(example.lines().any(|known| known == line), "{line}");
    }
    let service = &services()["wecom-sim"];
    let mounted = service["environment"]["WECOM_SIM_CONFIG"].as_str().unwrap();
    let volume = format!("./config/compose/wecom-sim.toml:{mounted}:ro");
    assert_eq!(words(&service["volumes"]), [volume]);
}

/// `doctor` wants the URL of an endpoint; a base URL is not one.
#[test]
fn the_doctor_is_given_an_endpoint() {
    for name in ["README.md", "README.zh-CN.md", "docker-compose.yml"] {
        let text = read(name);
        let mut urls = text
            .split("--callback https://")
            .skip(1)
            .map(|rest| rest.split_whitespace().next().unwrap())
            .peekable();
        assert!(urls.peek().is_some(), "{name}");
        assert!(urls.all(|url| url.ends_with("/callback/main")), "{name}");
    }
}

#[test]
fn the_dockerfile_builds_in_stages_and_runs_as_nobody_special() {
    let dockerfile = read("Dockerfile");
    let lines: Vec<&str> = dockerfile.lines().map(str::trim).collect();
    let stages: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("FROM "))
        .collect();
    let names: Vec<&str> = stages
        .iter()
        .filter_map(|stage| stage.split(" AS ").nth(1))
        .collect();
    assert_eq!(
        names,
        ["build", "base", "wecom-sim", "paidan"],
        "the last one is the default"
    );
    assert!(stages.iter().all(|stage| !stage.contains("latest")));
    assert!(dockerfile.contains("cargo build --locked --release"));
    let users: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("USER "))
        .collect();
    assert_eq!(users, ["10001:10001"]);
    assert!(
        lines.iter().all(|line| !line.starts_with("ADD ")),
        "COPY says what it does"
    );
    // The Rust of the image is one that may build us.
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let least = manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .unwrap();
    assert!(lines.contains(&format!("ARG RUST={least}").as_str()));
    for program in ["gateway", "allocator", "wecom-sim"] {
        assert!(dockerfile.contains(&format!("target/release/{program}")));
    }
}

/// The health check of the image, against a server that is alive, one that is not, and none.
#[test]
fn livez_tells_alive_from_dead() {
    let dockerfile = read("Dockerfile");
    let script = dockerfile
        .split_once("<<'SCRIPT' /usr/local/bin/livez\n")
        .unwrap()
        .1;
    let script = script.split_once("\nSCRIPT\n").unwrap().0.to_owned();
    for (status, alive) in [("200 OK", true), ("503 Service Unavailable", false)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            // All of it: closing with unread bytes would reset the connection.
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            let request: Vec<String> = head.take_while(|line| !line.is_empty()).collect();
            write!(&stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
            request[0].clone()
        });
        assert_eq!(livez(&script, port), alive, "{status}");
        assert_eq!(server.join().unwrap(), "GET /livez HTTP/1.1");
        assert!(!livez(&script, port), "nobody listens any more");
    }
}

fn livez(script: &str, port: u16) -> bool {
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", script, "livez", &port.to_string()]);
    bash.stderr(std::process::Stdio::null())
        .status()
        .unwrap()
        .success()
}
