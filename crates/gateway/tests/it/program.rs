//! The program itself: arguments, environment, signals, log lines, exit status.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::harness::{
    App, PATIENCE, Setup,
    cases::Suite,
    get, post,
    setup::{AES_KEY, TOKEN, event},
    stored, wait_until,
};

/// A second, on a machine that builds something else at the same time.
const AT_ONCE: Duration = Duration::from_secs(5);

struct Program {
    child: Child,
    addr: SocketAddr,
    admin: SocketAddr,
    printed: JoinHandle<String>,
    stderr: PathBuf,
}

impl Program {
    /// Starts it on free ports and waits until it says which.
    fn start(setup: &Setup, env: &[(&str, &str)]) -> Self {
        setup.write();
        let stderr = setup.dir.path().join("stderr");
        let mut child = command(&setup.file())
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (found, listening) = mpsc::channel();
        let printed = thread::spawn(move || {
            let mut text = String::new();
            for line in stdout.lines().map_while(Result::ok) {
                if line.contains("\"listening\"") {
                    found.send(line.clone()).unwrap();
                }
                text.push_str(&line);
                text.push('\n');
            }
            text
        });
        let line = listening.recv_timeout(PATIENCE).expect("does not start");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let addr = |name: &str| line[name].as_str().unwrap().parse().unwrap();
        Self {
            child,
            addr: addr("callbacks"),
            admin: addr("admin"),
            stderr,
            printed,
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([&format!("-{name}"), &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Ends it with SIGTERM: its exit status and everything it printed.
    fn end(mut self) -> (ExitStatus, String) {
        self.signal("TERM");
        let status = self.child.wait().unwrap();
        let printed = self.printed.join().unwrap();
        (status, printed + &fs::read_to_string(self.stderr).unwrap())
    }
}

fn command(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    command.env_clear().arg("--config").arg(config);
    command
}

/// Cases 5 and 24: one line for each refusal, with the check that failed.
#[tokio::test]
async fn each_refusal_is_one_line_with_its_check() {
    let redis = test_redis::shared();
    let suite = Suite::load("crypto-receive-id");
    let app = suite.case("rid-exact").app();
    let setup = Setup::new(&redis.url()).endpoint("sales", &app);
    let program = Program::start(&setup, &[]);
    let mut expected = Vec::new();
    for (id, check) in [
        ("wrong-key", "frame"),
        ("flip-last-byte-oldsig", "signature"),
        ("truncated-base64", "frame"),
        ("rid-other-corp", "receive id"),
    ] {
        for _ in 0..25 {
            assert_eq!(suite.case(id).send(program.addr, "sales").await.status, 403);
            expected.push(check.to_owned());
        }
    }
    let (status, text) = program.end();
    assert!(status.success(), "{text}");
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let refused: Vec<_> = lines
        .iter()
        .filter(|line| line["message"] == "callback refused")
        .collect();
    let checks: Vec<_> = refused
        .iter()
        .map(|line| line["check"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(checks, expected);
    assert!(
        refused
            .iter()
            .all(|line| line["endpoint"] == "sales" && line["status"] == 403),
        "{text}"
    );
}

/// A flood of refusals is not a flood of lines.
#[tokio::test]
async fn a_flood_of_refusals_is_summed_up() {
    let redis = test_redis::shared();
    let setup = Setup::new(&redis.url()).endpoint("sales", &App::new());
    let env = [
        ("PAIDAN__LOG__REFUSALS_BURST", "10"),
        ("PAIDAN__LOG__REFUSALS_PER_SECOND", "1"),
    ];
    let program = Program::start(&setup, &env);
    for _ in 0..200 {
        assert_eq!(
            get(
                program.addr,
                "/callback/sales?msg_signature=x&timestamp=1&nonce=2&echostr=z"
            )
            .await
            .status,
            403
        );
    }
    let metrics = get(program.admin, "/metrics").await;
    assert!(
        metrics
            .text()
            .contains("gateway_refused_total{endpoint=\"sales\",check=\"signature\"} 200")
    );
    let (_, text) = program.end();
    let lines = text
        .lines()
        .filter(|line| line.contains("callback refused"))
        .count();
    assert!((10..100).contains(&lines), "{lines} lines");
}

/// Cases 136 and 138: at the chattiest level, with everything going wrong, no secret, no message and no customer is
/// printed, in any encoding.
#[tokio::test]
async fn no_secret_is_ever_printed() {
    let redis = test_redis::Server::start(test_redis::Options::default());
    redis.cli(&["CONFIG", "SET", "requirepass", "r3disPassw0rd"]);
    let proxy = test_redis::Proxy::to(redis.addr());
    let url = format!("redis://:r3disPassw0rd@{}", proxy.addr());
    let app = App::new();
    let broken = App::new().with_keys(&[("br0kenTokenValue!", "br0kenAesKeyValue")]);
    let setup = Setup::new("env:REDIS_URL")
        .endpoint("sales", &app)
        .endpoint("broken", &broken);
    let env = [
        ("REDIS_URL", url.as_str()),
        ("PAIDAN__LOG__LEVEL", "trace"),
        ("PAIDAN__STORE__TIMEOUT_MS", "300"),
        ("PAIDAN__REDIS__RESPONSE_TIMEOUT_MS", "100"),
        ("RUST_BACKTRACE", "1"),
    ];
    let program = Program::start(&setup, &env);
    let plaintext = event(&app.corp, "wmSecretCustomer")
        .replace("</xml>", "<WelcomeCode>w3lcomeC0de</WelcomeCode></xml>");
    let (query, body) = app.seal(&plaintext, "n");
    let target = format!("/callback/sales?{query}");
    assert_eq!(post(program.addr, &target, &body).await.status, 200);
    assert_eq!(post(program.addr, &target, &body).await.status, 200);
    assert_eq!(
        post(program.addr, &target.replace("sales", "broken"), &body)
            .await
            .status,
        503
    );
    for case in Suite::load("crypto-receive-id").cases() {
        case.send(program.addr, "sales").await;
    }
    for case in Suite::load("xml-envelope").cases() {
        case.send(program.addr, "sales").await;
    }
    for broken in [
        "",
        "x",
        "<xml>",
        "<xml><Encrypt>w3lcomeC0de</Encrypt></xml>",
    ] {
        post(program.addr, &target, broken).await;
    }
    proxy.cut();
    assert_eq!(post(program.addr, &target, &body).await.status, 503);
    proxy.pause();
    assert_eq!(post(program.addr, &target, &body).await.status, 503);
    proxy.restore();
    fs::write(setup.secret("sales", 0, "aes_key"), "an0therBrokenKey").unwrap();
    program.signal("HUP");
    wait_until("the reload", async || {
        get(program.admin, "/metrics")
            .await
            .text()
            .contains("result=\"refused\"} 1")
    })
    .await;
    let shown = [
        get(program.admin, "/readyz").await,
        get(program.admin, "/metrics").await,
    ];
    let (status, mut text) = program.end();
    assert!(status.success());
    let check = command(&setup.file())
        .arg("--check-config")
        .envs(env)
        .output()
        .unwrap();
    assert!(!check.status.success(), "one endpoint is broken");
    for more in [&shown[0].body, &shown[1].body, &check.stdout, &check.stderr] {
        text.push_str(std::str::from_utf8(more).unwrap());
    }
    assert!(
        text.lines().count() > 50 && text.contains("TRACE"),
        "the test saw the log"
    );

    let key_bytes = STANDARD.decode(format!("{}A=", &AES_KEY[..42])).unwrap();
    let secrets = [
        TOKEN,
        AES_KEY,
        &AES_KEY[..20],
        "br0kenTokenValue",
        "br0kenAesKeyValue",
        "an0therBrokenKey",
        "r3disPassw0rd",
        "wmSecretCustomer",
        "w3lcomeC0de",
        &hex::encode(TOKEN),
        &hex::encode(&key_bytes[..16]),
        &format!("{:?}", &key_bytes[..8]).replace(['[', ']'], ""),
        &STANDARD.encode(TOKEN),
    ];
    for secret in secrets {
        assert!(
            !text.contains(secret),
            "{secret} was printed: {:?}",
            text.lines().find(|line| line.contains(secret))
        );
    }
}

/// Case 138: with its only endpoint broken it does not start, says so at once, and says which field.
#[tokio::test]
async fn a_broken_configuration_is_refused_at_once() {
    let redis = test_redis::shared();
    let quoted = format!("\"{AES_KEY}\"");
    let bad_keys = [
        &AES_KEY[1..],
        "BbrSK29CZTux1KMoBFeJDPYhgFy5pbnAnknyD7PmcAkA",
        " ",
        &quoted,
        "a\nb",
    ];
    let mut broken: Vec<(App, &str)> = Vec::new();
    for key in bad_keys {
        broken.push((
            App::new().with_keys(&[(TOKEN, key)]),
            "endpoints.sales.keys[0].aes_key",
        ));
    }
    for token in ["", "with space", "with-dash", "中文"] {
        broken.push((
            App::new().with_keys(&[(token, AES_KEY)]),
            "endpoints.sales.keys[0].token",
        ));
    }
    let mut no_corp = App::new();
    no_corp.corp = String::new();
    broken.push((no_corp, "endpoints.sales.corp_id"));
    for (app, field) in broken {
        let setup = Setup::new(&redis.url()).endpoint("sales", &app);
        setup.write();
        let begun = Instant::now();
        let output = command(&setup.file()).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!output.status.success(), "{field}");
        assert!(begun.elapsed() < AT_ONCE, "{field}: {:?}", begun.elapsed());
        assert!(text.contains(field), "{field}: {text}");
        let (token, key) = &app.keys[0];
        assert!(
            !text.contains(&AES_KEY[1..20]) && (token.len() < 3 || !text.contains(token.as_str())),
            "{text}"
        );
        assert!(
            key.trim().len() < 4 || !text.contains(key.as_str()),
            "{text}"
        );
    }
}

/// Text has colours on a terminal only.
#[test]
fn text_in_a_pipe_has_no_colours() {
    let setup = Setup::new("redis://127.0.0.1:1").endpoint("sales", &App::new());
    setup.write();
    let mut child = command(&setup.file())
        .env("PAIDAN__LOG__FORMAT", "text")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines
        .map_while(Result::ok)
        .find(|line| line.contains("listening"));
    child.kill().unwrap();
    child.wait().unwrap();
    let line = line.expect("it does not start");
    assert!(
        line.contains("INFO") && !line.contains('\u{1b}'),
        "{line:?}"
    );
}

/// Settings from the environment alone, lists included; unknown ones are refused by name.
#[tokio::test]
async fn the_environment_is_enough() {
    let setup = Setup::new("redis://127.0.0.1:1");
    setup.write();
    let env = [
        ("PAIDAN__ENDPOINTS__SALES__CORP_ID", "ww1"),
        ("PAIDAN__ENDPOINTS__SALES__KIND", "suite"),
        ("PAIDAN__ENDPOINTS__SALES__RECEIVE_IDS", "ww1, dk1"),
        (
            "PAIDAN__ENDPOINTS__SALES__KEYS__0__TOKEN",
            "env:SALES_TOKEN",
        ),
        (
            "PAIDAN__ENDPOINTS__SALES__KEYS__0__AES_KEY",
            "env:SALES_AES_KEY",
        ),
        ("SALES_TOKEN", TOKEN),
        ("SALES_AES_KEY", AES_KEY),
    ];
    let check = |more: &[(&str, &str)]| {
        let output = command(&setup.file())
            .arg("--check-config")
            .envs(env)
            .envs(more.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.success(), text)
    };
    let (good, text) = check(&[]);
    assert!(good, "{text}");
    assert!(
        text.contains("endpoints.sales.keys.0.token = \"env:SALES_TOKEN\""),
        "{text}"
    );
    let (good, text) = check(&[("PAIDAN__REDIS__SENTINEL_PASSWORD", "env:NOWHERE")]);
    assert!(
        !good && text.contains("redis.sentinel_password") && text.contains("NOWHERE"),
        "{text}"
    );
    for password in ["hush", "987654321"] {
        let (good, text) = check(&[("PAIDAN__REDIS__SENTINEL_PASSWORD", password)]);
        assert!(
            good && text.contains("redis.sentinel_password = \"[redacted]\""),
            "{text}"
        );
    }
    let (good, text) = check(&[("PAIDAN__REDIS__URL", "")]);
    assert!(!good && text.contains("redis.url: must be"), "{text}");
    let unknown = check(&[("PAIDAN__STORE__TIMEOUT", "1")]);
    assert!(
        !unknown.0 && unknown.1.contains("store") && unknown.1.contains("timeout"),
        "{}",
        unknown.1
    );
    let wrong = check(&[("PAIDAN__STORE__TIMEOUT_MS", "soon")]);
    assert!(
        !wrong.0
            && wrong
                .1
                .contains("store.timeout_ms: must be a whole number from 1 to 4500, not \"soon\""),
        "{}",
        wrong.1
    );
    let in_endpoint = check(&[("PAIDAN__ENDPOINTS__SALES__AGENTID", "1")]);
    assert!(
        !in_endpoint.0
            && in_endpoint.1.contains("endpoints.sales")
            && in_endpoint.1.contains("agentid")
    );
}

/// SIGHUP puts a new endpoint in force, SIGTERM ends with status 0, and what was acknowledged is there.
#[tokio::test]
async fn signals_reload_and_end() {
    let redis = test_redis::shared();
    let (sales, other) = (App::new(), App::new());
    let mut setup = Setup::new(&redis.url()).endpoint("sales", &sales);
    let program = Program::start(&setup, &[]);
    let (query, body) = other.seal(&event(&other.corp, "wm1"), "n");
    let target = format!("/callback/other?{query}");
    assert_eq!(post(program.addr, &target, &body).await.status, 404);
    setup.replace("other", &other);
    program.signal("HUP");
    wait_until("the new endpoint", async || {
        post(program.addr, &target, &body).await.status == 200
    })
    .await;
    let (status, text) = program.end();
    assert!(status.success(), "{text}");
    assert_eq!(stored::plaintexts(redis, &other.corp).await.len(), 1);
}
