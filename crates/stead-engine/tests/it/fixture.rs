//! An engine in a temporary directory that can be stopped and started again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stead_core::identity::Tenant;
use stead_core::tool::ToolName;
use stead_core::{Actor, SessionId, State, parse};
use stead_engine::ops::{self, ToolReply};
use stead_engine::{Engine, OpError, Settings};
use stead_providers::{Images, LayerStore, MemoryProvider, NativeConfig, NativeProvider, Providers};
use stead_store::{Database, Store};

pub(crate) struct Fixture {
    home: tempfile::TempDir,
    pub(crate) engine: Engine,
}

pub(crate) fn admin() -> Actor {
    Actor::Admin { name: "test".to_owned(), token: None }
}

async fn start(home: &Path, settings: Settings) -> Engine {
    let database = Database::Sqlite(home.join("stead.db"));
    let store = Store::open(&database, &home.join("blobs")).await.unwrap();
    let ownership = store.own("test").await.unwrap().unwrap();
    let providers = Providers::default().with(MemoryProvider::new()).with(broken(home));
    Engine::start(store, ownership, providers, settings).await.unwrap()
}

/// A provider that is configured but cannot work: its `stead-init` does not exist.
fn broken(home: &Path) -> NativeProvider {
    let config = NativeConfig {
        home: home.to_owned(),
        instance: "t".to_owned(),
        former_instances: Vec::new(),
        init: home.join("no-such-program"),
    };
    let layers = Arc::new(LayerStore::open(home.join("layers")).unwrap());
    let images = Arc::new(Images::open(home.join("images"), layers.clone()).unwrap());
    NativeProvider::new(config, layers, images)
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(Settings { reap_every: Duration::from_millis(20), ..Settings::default() }).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let home = tempfile::tempdir().unwrap();
        let engine = start(home.path(), settings).await;
        Self { home, engine }
    }

    /// Stops the engine and starts another one on the same store; nothing in memory survives.
    pub(crate) async fn restart(&mut self) {
        self.engine.stop().await;
        self.engine =
            start(self.home.path(), Settings { reap_every: Duration::from_millis(20), ..Settings::default() }).await;
    }

    pub(crate) async fn agent_type(&self, id: &str, workspace: Value) {
        let declaration = parse::read(json!({"id": id, "workspace": workspace})).unwrap();
        ops::create_agent_type(&self.engine, &admin(), &Tenant::Platform, declaration, None).await.unwrap();
    }

    pub(crate) async fn try_create(&self, body: Value) -> Result<State, OpError> {
        ops::create_session(&self.engine, &admin(), parse::read(body).unwrap(), None).await
    }

    /// Creates a session of an agent type and waits until it is settled.
    pub(crate) async fn session(&self, agent_type: &str) -> SessionId {
        let id = self.try_create(json!({"agent_type": agent_type})).await.unwrap().session.unwrap().id;
        ops::wait_settled(&self.engine, id, Duration::from_secs(5)).await.unwrap();
        id
    }

    pub(crate) async fn call(&self, id: SessionId, tool: ToolName, arguments: Value) -> Result<ToolReply, OpError> {
        ops::call_tool(&self.engine, &admin(), id, tool, arguments).await
    }

    pub(crate) async fn kinds(&self, id: SessionId) -> Vec<String> {
        let events = ops::events(&self.engine, id, 0, 1000).await.unwrap().events;
        events.into_iter().map(|event| event.kind).collect()
    }
}
