//! A real PostgreSQL for the tests: the server in `STEAD_TEST_POSTGRES_URL`, or a private cluster
//! of this process.
//!
//! A missing PostgreSQL fails the test and never skips it, because half of the guarantees would
//! stay untested.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use stead_store::Database;

struct Cluster {
    /// URL with `{}` in place of the database name.
    url: String,
    /// The private cluster stops when the pipe to it closes, at the end of this process.
    _private: Option<Child>,
}

static CLUSTER: OnceLock<Cluster> = OnceLock::new();
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Makes an empty database. Also returns its name, for [`drop_database`].
pub async fn create_database() -> (Database, String) {
    let name = format!("stead_test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    admin(format!("CREATE DATABASE {name} TEMPLATE template0")).await;
    (Database::Postgres(cluster().url.replace("{}", &name)), name)
}

/// Makes a copy of a database that no connection uses.
pub async fn copy_database(template: &str) -> (Database, String) {
    let name = format!("stead_test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    admin(format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
    (Database::Postgres(cluster().url.replace("{}", &name)), name)
}

pub async fn drop_database(name: &str) {
    admin(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
}

async fn admin(sql: String) {
    let mut connection = PgConnection::connect(&cluster().url.replace("{}", "postgres")).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

fn cluster() -> &'static Cluster {
    CLUSTER.get_or_init(|| match std::env::var("STEAD_TEST_POSTGRES_URL") {
        Ok(url) => {
            let options = PgConnectOptions::from_str(&url).expect("STEAD_TEST_POSTGRES_URL is a postgres:// URL");
            let url = options.database("STEAD_DATABASE").to_url_lossy().to_string();
            Cluster { url: url.replace("STEAD_DATABASE", "{}"), _private: None }
        }
        Err(_) => start(),
    })
}

fn start() -> Cluster {
    let bin = binaries().expect("no PostgreSQL in /usr/lib/postgresql: cargo xtask test installs it");
    let script = include_str!("postgres.sh");
    let mut command = if rustix::process::geteuid().is_root() {
        // initdb refuses to run as root.
        let user = if has_user("postgres") { "postgres" } else { "nobody" };
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={user}"), "--clear-groups", "--", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    command.args(["-c", script, "postgres.sh"]).arg(bin).current_dir("/tmp");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut socket = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut socket).unwrap();
    assert!(!socket.is_empty(), "the private PostgreSQL did not start; its log is above");
    let url = format!("postgres://stead@{}/{{}}", socket.trim().replace('/', "%2F"));
    Cluster { url, _private: Some(child) }
}

/// Returns the directory of the newest installed version.
fn binaries() -> Option<PathBuf> {
    let versions = Path::new("/usr/lib/postgresql").read_dir().ok()?;
    let installed = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    installed.filter(|bin| bin.join("initdb").is_file()).max()
}

fn has_user(name: &str) -> bool {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| line.split(':').next() == Some(name))
}
