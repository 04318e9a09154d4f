//! The storage of agent types, projects and the platform: a JSON document under a name, written
//! together with its audit record.

use serde::Serialize;
use serde::de::DeserializeOwned;
use stead_core::{Actor, Resource};
use stead_store::{DocumentKind, DocumentWrite, IdempotencyClaim, WriteError, WriteMode};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;

/// A page of a list, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub after: Option<String>,
    pub limit: u32,
}

pub(in crate::ops) struct Shelf {
    pub(in crate::ops) kind: DocumentKind,
    pub(in crate::ops) what: Resource,
}

impl Shelf {
    pub(in crate::ops) async fn find<T: DeserializeOwned>(
        &self,
        engine: &Engine,
        id: &str,
    ) -> Result<Option<T>, OpError> {
        let document = engine.store().document(self.kind, id).await?;
        document.map(|document| self.parse(id, &document.body)).transpose()
    }

    pub(in crate::ops) async fn get<T: DeserializeOwned>(&self, engine: &Engine, id: &str) -> Result<T, OpError> {
        self.find(engine, id).await?.ok_or_else(|| OpError::NotFound { what: self.what, id: id.to_owned() })
    }

    pub(in crate::ops) async fn list<T: DeserializeOwned>(
        &self,
        engine: &Engine,
        page: &Page,
    ) -> Result<Vec<T>, OpError> {
        let documents = engine.store().documents(self.kind, page.after.as_deref(), page.limit).await?;
        documents.iter().map(|document| self.parse(&document.id, &document.body)).collect()
    }

    pub(in crate::ops) async fn put<T: Serialize>(
        &self,
        engine: &Engine,
        actor: &Actor,
        id: &str,
        value: &T,
        mode: WriteMode,
    ) -> Result<(), OpError> {
        self.put_claimed(engine, actor, id, value, mode, None).await.map(|_| ())
    }

    /// The same with an idempotency claim. Returns the target of an earlier equal request instead
    /// of writing again.
    pub(in crate::ops) async fn put_claimed<T: Serialize>(
        &self,
        engine: &Engine,
        actor: &Actor,
        id: &str,
        value: &T,
        mode: WriteMode,
        idempotency: Option<IdempotencyClaim>,
    ) -> Result<Option<String>, OpError> {
        let key = idempotency.as_ref().map(|claim| claim.key.key.clone()).unwrap_or_default();
        let corrupt = |source| OpError::CorruptDocument { what: self.what, id: id.to_owned(), source };
        let body = serde_json::to_string(value).map_err(corrupt)?;
        let at = clock::now();
        let audit = vec![audit::admin_change(actor, self.what.noun(), id, &body, at)];
        let write = DocumentWrite {
            kind: self.kind,
            id: id.to_owned(),
            body,
            mode,
            expected_revision: None,
            at,
            audit,
            idempotency,
        };
        match engine.store().write_document(write).await {
            Ok(_) => Ok(None),
            Err(WriteError::IdempotencyReplay(row)) => Ok(Some(row.target)),
            Err(WriteError::IdempotencyMismatch(_)) => Err(OpError::IdempotencyMismatch { key }),
            Err(WriteError::Exists { .. }) => Err(OpError::Exists { what: self.what, id: id.to_owned() }),
            Err(WriteError::Missing) => Err(OpError::NotFound { what: self.what, id: id.to_owned() }),
            Err(WriteError::Stale { .. }) => Err(OpError::Contended),
            Err(WriteError::Store(error)) => Err(error.into()),
        }
    }

    pub(in crate::ops) async fn delete(&self, engine: &Engine, actor: &Actor, id: &str) -> Result<(), OpError> {
        let audit = vec![audit::admin_change(actor, self.what.noun(), id, "null", clock::now())];
        match engine.store().delete_document(self.kind, id, audit).await? {
            true => Ok(()),
            false => Err(OpError::NotFound { what: self.what, id: id.to_owned() }),
        }
    }

    fn parse<T: DeserializeOwned>(&self, id: &str, body: &str) -> Result<T, OpError> {
        let corrupt = |source| OpError::CorruptDocument { what: self.what, id: id.to_owned(), source };
        serde_json::from_str(body).map_err(corrupt)
    }
}
