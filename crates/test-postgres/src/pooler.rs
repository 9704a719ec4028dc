//! PgBouncer in transaction mode: the strictest place our SQL must live in.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;

use crate::programs;

/// Stops with the value.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    port: u16,
    options: PgConnectOptions,
    _folder: tempfile::TempDir,
}

impl Pooler {
    /// At most `pool_size` connections to the server behind any number of clients.
    pub async fn start(database: &crate::Database, pool_size: u32) -> Pooler {
        Pooler::ignoring(database, pool_size, &["extra_float_digits"]).await
    }

    /// With its own list of start-up parameters that are swallowed without a word; others are refused.
    pub async fn ignoring(
        database: &crate::Database,
        pool_size: u32,
        parameters: &[&str],
    ) -> Pooler {
        let folder = tempfile::Builder::new()
            .prefix("paidan-pgbouncer-")
            .tempdir()
            .expect("a temporary folder");
        let options = database.options();
        let port = programs::free_port();
        let configuration = format!(
            "[databases]\n{name} = host={host} port={server_port} user={user}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {pool_size}\nmax_client_conn = 500\n\
             ignore_startup_parameters = {ignored}\n",
            ignored = parameters.join(","),
            name = database.name(),
            host = options.get_host(),
            server_port = options.get_port(),
            user = options.get_username(),
        );
        let path = folder.path().join("pgbouncer.ini");
        std::fs::File::create(&path)
            .and_then(|mut file| file.write_all(configuration.as_bytes()))
            .expect("the folder is ours");
        let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(folder.path(), open(0o755)).expect("the folder is ours");
        std::fs::set_permissions(&path, open(0o644)).expect("the file is ours");
        let program = [
            "/usr/sbin/pgbouncer",
            "/usr/bin/pgbouncer",
            "/usr/local/bin/pgbouncer",
        ]
        .into_iter()
        .map(std::path::Path::new)
        .find(|path| path.exists())
        .unwrap_or_else(|| {
            panic!("no PgBouncer found: install it (Debian: apt-get install pgbouncer)")
        });
        let mut command: Command = programs::command(program, false);
        command
            .arg("-q")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/");
        let child = command.spawn().expect("setpriv (util-linux) starts");
        let pooler = Pooler {
            child,
            port,
            options,
            _folder: folder,
        };
        let began = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_err()
        {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "PgBouncer does not start"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        pooler
    }

    pub fn options(&self) -> PgConnectOptions {
        self.options.clone().host("127.0.0.1").port(self.port)
    }

    pub fn url(&self) -> String {
        sqlx::ConnectOptions::to_url_lossy(&self.options()).to_string()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        programs::send_signal(self.child.id(), "KILL");
        drop(self.child.wait());
    }
}
