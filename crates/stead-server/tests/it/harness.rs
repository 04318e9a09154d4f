//! A server for one test, which is removed with its files on drop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stead_engine::{Engine, Settings};
use stead_providers::{Images, LayerStore, MemoryProvider, NativeConfig, NativeProvider, Providers};
use stead_server::ServerConfig;
use stead_store::{Database, Store};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Answer, Connection};

pub(crate) const TOKEN: &str = "an-admin-token-for-tests";

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<std::io::Result<()>>,
    _files: tempfile::TempDir,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(ServerConfig::default(), Settings::default()).await
    }

    pub(crate) async fn start_with(config: ServerConfig, settings: Settings) -> Self {
        let files = tempfile::tempdir().unwrap();
        Self::start_at(files, config, settings, Providers::default().with(MemoryProvider::new())).await
    }

    /// A server that also has native boxes and an image store.
    pub(crate) async fn start_with_boxes() -> Self {
        let files = tempfile::tempdir().unwrap();
        let home = files.path().to_owned();
        let layers = Arc::new(LayerStore::open(home.join("layers")).unwrap());
        let images = Arc::new(Images::open(home.join("images"), layers.clone()).unwrap());
        let instance = format!("s{}", std::process::id());
        let native = NativeConfig { home, instance, former_instances: Vec::new(), init: init() };
        let native = NativeProvider::new(native, layers, images.clone());
        let providers = Providers::default().with(MemoryProvider::new()).with(native);
        let settings = Settings { images: Some(images), ..Settings::default() };
        Self::start_at(files, ServerConfig::default(), settings, providers).await
    }

    async fn start_at(
        files: tempfile::TempDir,
        config: ServerConfig,
        settings: Settings,
        providers: Providers,
    ) -> Self {
        let settings = Settings { secret_key: Some(files.path().join("secret.key")), ..settings };
        let database = Database::Sqlite(files.path().join("stead.db"));
        let store = Store::open(&database, &files.path().join("blobs")).await.unwrap();
        let ownership = store.own("test").await.unwrap().unwrap();
        let engine = Engine::start(store, ownership, providers, settings).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { stopped.await.unwrap_or(()) };
        let config = config.with_admin_token("tests", TOKEN);
        let serving = tokio::spawn(stead_server::serve(listener, engine.clone(), config, shutdown));
        Self { address, engine, stop: Some(stop), serving, _files: files }
    }

    /// Starts the shutdown and waits for its end.
    pub(crate) async fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).unwrap();
        }
        tokio::time::timeout(Duration::from_secs(15), &mut self.serving).await.unwrap().unwrap().unwrap();
        self.engine.stop().await;
    }

    pub(crate) fn ask<'a>(&'a self, method: &'a str, path: &'a str) -> Ask<'a> {
        let authorization = Some(format!("Bearer {TOKEN}"));
        Ask {
            server: self,
            method,
            path,
            host: self.address.to_string(),
            authorization,
            headers: Vec::new(),
            body: None,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).send().await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask("POST", path).json(body).send().await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.ask("PUT", path).json(body).send().await
    }

    /// Declares an agent type with a memory workspace and every tool.
    pub(crate) async fn declare(&self, id: &str) {
        let body = json!({"id": id, "workspace": {"enabled": true, "provider": "memory"}});
        let answer = self.post("/api/v1/agent-types", body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Creates an active session of this agent type.
    pub(crate) async fn session(&self, agent_type: &str) -> Value {
        let answer = self.post("/api/v1/sessions?wait=10", json!({"agent_type": agent_type})).await;
        assert_eq!((answer.status, answer.json()["status"].as_str()), (201, Some("active")), "{answer:?}");
        answer.json()
    }
}

/// Builds `stead-init`, the program of native boxes, and returns its path.
fn init() -> PathBuf {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = std::process::Command::new(cargo).args(["build", "--quiet", "-p", "stead-box", "--bins"]).status();
    assert!(built.unwrap().success(), "stead-init does not build");
    // target/debug/deps/it-… → target/debug/stead-init
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("stead-init")
}

/// A request under construction.
pub(crate) struct Ask<'a> {
    server: &'a TestServer,
    method: &'a str,
    path: &'a str,
    host: String,
    authorization: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Ask<'_> {
    pub(crate) fn token(mut self, token: Option<&str>) -> Self {
        self.authorization = token.map(|token| format!("Bearer {token}"));
        self
    }

    pub(crate) fn host(mut self, host: &str) -> Self {
        self.host = host.to_owned();
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(self, body: Value) -> Self {
        self.header("Content-Type", "application/json").bytes(body.to_string().into_bytes())
    }

    pub(crate) fn bytes(mut self, body: Vec<u8>) -> Self {
        self.body = Some(body);
        self
    }

    /// Sends the request and returns the connection before the answer.
    pub(crate) async fn begin(self) -> Connection {
        let mut text = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.path, self.host);
        let authorization = self.authorization.map(|value| ("Authorization".to_owned(), value));
        for (name, value) in authorization.into_iter().chain(self.headers) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &self.body {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let mut connection = Connection::open(self.server.address).await;
        connection.send(format!("{text}\r\n").as_bytes()).await;
        connection.send(&self.body.unwrap_or_default()).await;
        connection
    }

    pub(crate) async fn send(self) -> Answer {
        let empty = self.method == "HEAD";
        let mut connection = self.begin().await;
        let answer = if empty { connection.head().await } else { connection.answer().await };
        answer.expect("the server should have answered")
    }
}
