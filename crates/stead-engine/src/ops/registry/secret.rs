//! Stores, lists and removes secrets. No operation returns a value.

use serde_json::json;
use stead_core::identity::Tenant;
use stead_core::secret::{SealedSecret, SecretRequest};
use stead_core::{Actor, Name, Resource};
use stead_store::{DocumentKind, DocumentWrite, SecretKeyError, WriteError, WriteMode};

use crate::clock;
use crate::effects::inspection;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
use crate::ops::boxed;
use crate::ops::registry::agent_type::writable;
use crate::ops::registry::document::{Page, Shelf};

const SHELF: Shelf = Shelf { kind: DocumentKind::Secret, what: Resource::Secret };
const PAGE: u32 = 100;

/// A secret without its value.
#[derive(Debug, Clone)]
pub struct SecretView {
    pub secret: SealedSecret,
    /// False if the value cannot be opened, such as without the key.
    pub usable: bool,
}

/// Stores a secret of a tenant, or replaces it. Returns true with a new name.
#[boxed]
pub async fn set_secret(
    engine: &Engine,
    actor: &Actor,
    tenant: &Tenant,
    name: &Name,
    request: SecretRequest,
) -> Result<(SecretView, bool), OpError> {
    let (work, actor, tenant, name) = (engine.clone(), actor.clone(), tenant.clone(), name.clone());
    engine.to_its_end(async move { set(&work, &actor, tenant, name, request).await }).await
}

async fn set(
    engine: &Engine,
    actor: &Actor,
    tenant: Tenant,
    name: Name,
    request: SecretRequest,
) -> Result<(SecretView, bool), OpError> {
    writable(engine, &tenant).await?;
    let mut held = engine.secrets().change().await;
    let keys = engine.secrets().keys_for_writing(engine, &mut held).await?;
    let before = stored_secret(engine, &tenant, &name).await?;
    let now = clock::now();
    let record = SealedSecret {
        project: tenant.project().cloned(),
        version: before.as_ref().map_or(1, |before| before.version + 1),
        binding: request.binding,
        created_at: before.as_ref().map_or(now, |before| before.created_at),
        updated_at: now,
        key: String::new(),
        sealed: String::new(),
        name,
    };
    let secret = keys.seal(record, &request.value)?;
    let mode = if before.is_some() { WriteMode::Replace } else { WriteMode::Create };
    write(engine, actor, &secret, mode).await?;
    Ok((SecretView { secret, usable: true }, before.is_none()))
}

async fn write(engine: &Engine, actor: &Actor, secret: &SealedSecret, mode: WriteMode) -> Result<(), OpError> {
    let (id, at) = (secret.tenant().key(&secret.name), clock::now());
    let corrupt = |source| OpError::CorruptDocument { what: Resource::Secret, id: id.clone(), source };
    let body = serde_json::to_string(secret).map_err(corrupt)?;
    // The audit log outlives the secret, so it has no sealed value either.
    let after = json!({"version": secret.version, "binding": secret.binding});
    let audit = vec![audit::secret_change(actor, secret, &after, at)];
    let kind = DocumentKind::Secret;
    let write =
        DocumentWrite { kind, id: id.clone(), body, mode, expected_revision: None, at, audit, idempotency: None };
    match engine.store().write_document(write).await {
        Ok(_) => Ok(()),
        Err(WriteError::Store(error)) => Err(error.into()),
        Err(_) => Err(OpError::Contended),
    }
}

/// Returns a tenant's own secret as it is stored.
pub(crate) async fn stored_secret(
    engine: &Engine,
    tenant: &Tenant,
    name: &Name,
) -> Result<Option<SealedSecret>, OpError> {
    let key = tenant.key(name);
    let found: Option<SealedSecret> = SHELF.find(engine, &key).await?;
    // A row that something moved under another id does not open. It is not even the secret that
    // was asked for.
    Ok(found.filter(|found| found.tenant().key(&found.name) == key))
}

/// Returns a tenant's own secret. Those of the platform are not shown to projects.
#[boxed]
pub async fn secret(engine: &Engine, tenant: &Tenant, name: &Name) -> Result<SecretView, OpError> {
    let found = stored_secret(engine, tenant, name).await?.ok_or_else(|| not_found(name))?;
    Ok(view(engine, found).await)
}

fn not_found(name: &Name) -> OpError {
    OpError::NotFound { what: Resource::Secret, id: name.to_string() }
}

async fn view(engine: &Engine, secret: SealedSecret) -> SecretView {
    let usable = crate::effects::secret_vault::open(engine, &secret).await.is_ok();
    SecretView { secret, usable }
}

/// The secrets of a tenant, sorted by name.
#[boxed]
pub async fn secrets(engine: &Engine, tenant: &Tenant, page: &Page) -> Result<Vec<SecretView>, OpError> {
    let after = page.after.as_deref().and_then(|text| text.parse::<Name>().ok());
    let documents = engine.store().documents_of(DocumentKind::Secret, tenant, after.as_ref(), page.limit).await?;
    let mut found = Vec::with_capacity(documents.len());
    for document in documents {
        let corrupt = |source| OpError::CorruptDocument { what: Resource::Secret, id: document.id.clone(), source };
        let secret: SealedSecret = serde_json::from_str(&document.body).map_err(corrupt)?;
        // The id is the truth about the owner. A moved row shows under its id and is not usable.
        let name = tenant.name(&document.id).unwrap_or_else(|| secret.name.clone());
        let moved = secret.tenant().key(&secret.name) != document.id;
        let shown = view(engine, secret).await;
        let secret = SealedSecret { name, project: tenant.project().cloned(), ..shown.secret };
        found.push(SecretView { secret, usable: shown.usable && !moved });
    }
    Ok(found)
}

/// Removes a tenant's own secret. The next request that needs it is refused.
#[boxed]
pub async fn remove_secret(engine: &Engine, actor: &Actor, tenant: &Tenant, name: &Name) -> Result<(), OpError> {
    let (work, actor, tenant, name) = (engine.clone(), actor.clone(), tenant.clone(), name.clone());
    engine.to_its_end(async move { remove(&work, &actor, &tenant, &name).await }).await
}

async fn remove(engine: &Engine, actor: &Actor, tenant: &Tenant, name: &Name) -> Result<(), OpError> {
    let _changing = engine.secrets().change().await;
    let key = tenant.key(name);
    // The body is not read: a damaged secret must be removable.
    let entry = audit::secret_removal(actor, tenant, name, clock::now());
    match engine.store().delete_document(DocumentKind::Secret, &key, vec![entry]).await? {
        true => Ok(()),
        false => Err(not_found(name)),
    }
}

/// Seals every secret under a new key and replaces the key. Returns the number of secrets. After a
/// crash in the middle, secrets of both keys open, and the same operation continues.
#[boxed]
pub async fn rekey_secrets(engine: &Engine, actor: &Actor) -> Result<u64, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.to_its_end(async move { rekey(&work, &actor).await }).await
}

async fn rekey(engine: &Engine, actor: &Actor) -> Result<u64, OpError> {
    let mut held = engine.secrets().change().await;
    let keys = engine.secrets().begin_rekey(&mut held).await?;
    let (mut after, mut moved) = (None::<String>, 0);
    loop {
        let page = engine.store().documents(DocumentKind::Secret, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id.clone());
        for document in page {
            let corrupt = |source| OpError::CorruptDocument { what: Resource::Secret, id: document.id.clone(), source };
            let secret: SealedSecret = serde_json::from_str(&document.body).map_err(corrupt)?;
            if secret.tenant().key(&secret.name) != document.id {
                return Err(SecretKeyError::DoesNotOpen { name: document.id }.into());
            }
            if secret.key != keys.sealing_id() {
                let value = keys.open(&secret)?;
                write(engine, actor, &keys.seal(secret, &value)?, WriteMode::Replace).await?;
            }
            moved += 1;
        }
    }
    inspection::reseal(engine, &keys).await?;
    engine.secrets().finish_rekey(&mut held).await?;
    Ok(moved)
}

impl From<SecretKeyError> for OpError {
    fn from(error: SecretKeyError) -> Self {
        Self::SecretKey(error)
    }
}
