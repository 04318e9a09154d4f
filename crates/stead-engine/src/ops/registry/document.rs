//! The storage of agent types, projects and the platform: a JSON document under a name, written
//! together with its audit record.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stead_core::identity::Tenant;
use stead_core::{Actor, Name, Resource};
use stead_store::{Document, DocumentKind, DocumentWrite, IdempotencyClaim, WriteError, WriteMode};

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

/// A page of a tenant's own documents, then one of the platform's. Together they have the page of
/// both.
pub(in crate::ops) async fn visible(
    engine: &Engine,
    kind: DocumentKind,
    tenant: &Tenant,
    page: &Page,
) -> Result<Vec<Document>, OpError> {
    // A cursor that is no name is after no name that begins like it.
    let after = page.after.as_deref().and_then(|text| text.parse::<Name>().ok());
    let mut found = Vec::new();
    for tenant in [tenant, &Tenant::Platform].into_iter().take(if *tenant == Tenant::Platform { 1 } else { 2 }) {
        found.extend(engine.store().documents_of(kind, tenant, after.as_ref(), page.limit).await?);
    }
    Ok(found)
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

    /// The documents that a tenant can use, sorted by name: its own, and those of the platform
    /// whose names it has not taken.
    pub(in crate::ops) async fn list_visible<T: DeserializeOwned>(
        &self,
        engine: &Engine,
        tenant: &Tenant,
        page: &Page,
        name: impl Fn(&T) -> Name + Send,
    ) -> Result<Vec<T>, OpError> {
        let documents = visible(engine, self.kind, tenant, page).await?;
        let mut found: BTreeMap<Name, T> = BTreeMap::new();
        for document in &documents {
            let one = self.parse(&document.id, &document.body)?;
            found.entry(name(&one)).or_insert(one);
        }
        Ok(found.into_values().take(usize::try_from(page.limit).unwrap_or(usize::MAX)).collect())
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
