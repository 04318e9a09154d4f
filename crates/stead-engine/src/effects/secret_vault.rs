//! The keys of the secrets in memory, and the values that sessions may use.

use std::path::PathBuf;
use std::sync::Arc;

use stead_core::identity::Tenant;
use stead_core::secret::{Placeholder, PlaceholderKey, SealedSecret, SecretValue};
use stead_core::{Name, SessionId};
use stead_store::{DocumentKind, SecretKeyError, SecretKeys};
use tokio::sync::Mutex;

use crate::engine::Engine;
use crate::error::OpError;

/// The keys that open secrets. They are read when the first secret is used.
pub(crate) struct SecretVault {
    /// `None` on a server that has no place for a key.
    path: Option<PathBuf>,
    /// Held also while secrets are written, so that a change of keys sees all of them.
    keys: Mutex<Option<Arc<SecretKeys>>>,
    placeholders: PlaceholderKey,
}

impl SecretVault {
    pub(crate) fn new(path: Option<PathBuf>, placeholders: PlaceholderKey) -> Self {
        Self { path, keys: Mutex::new(None), placeholders }
    }

    /// Returns the text that a session's box gets in the place of a secret.
    pub(crate) fn placeholder(&self, session: SessionId, name: &Name) -> Placeholder {
        self.placeholders.placeholder(session, name)
    }

    /// Locks the keys, for a write of secrets.
    pub(crate) async fn change(&self) -> tokio::sync::MutexGuard<'_, Option<Arc<SecretKeys>>> {
        self.keys.lock().await
    }

    /// Returns the keys. An error says why no secret can be used.
    pub(crate) async fn keys(&self) -> Result<Arc<SecretKeys>, OpError> {
        let mut held = self.keys.lock().await;
        self.read(&mut held).await?.ok_or_else(|| self.missing())
    }

    fn path(&self) -> Result<PathBuf, OpError> {
        self.path.clone().ok_or(OpError::NoSecrets)
    }

    fn missing(&self) -> OpError {
        match self.path() {
            Ok(path) => SecretKeyError::Missing { path }.into(),
            Err(error) => error,
        }
    }

    async fn read(&self, held: &mut Option<Arc<SecretKeys>>) -> Result<Option<Arc<SecretKeys>>, OpError> {
        if held.is_none() {
            let path = self.path()?;
            *held = off_thread(move || SecretKeys::read(&path)).await?.map(Arc::new);
        }
        Ok(held.clone())
    }

    /// Returns the keys for a new value. The first secret creates the key. A server that has
    /// secrets and no key gets no new one: the operator must know that the values are lost.
    pub(crate) async fn keys_for_writing(
        &self,
        engine: &Engine,
        held: &mut Option<Arc<SecretKeys>>,
    ) -> Result<Arc<SecretKeys>, OpError> {
        if let Some(keys) = self.read(held).await? {
            return Ok(keys);
        }
        if !engine.store().documents(DocumentKind::Secret, None, 1).await?.is_empty() {
            return Err(self.missing());
        }
        let path = self.path()?;
        let keys = Arc::new(off_thread(move || SecretKeys::read_or_create(&path)).await?);
        *held = Some(Arc::clone(&keys));
        Ok(keys)
    }

    /// Reads the keys again and adds a next one, to which all secrets move.
    pub(crate) async fn begin_rekey(&self, held: &mut Option<Arc<SecretKeys>>) -> Result<Arc<SecretKeys>, OpError> {
        let path = self.path()?;
        let missing = self.missing();
        let read = off_thread(move || SecretKeys::read(&path)?.map(SecretKeys::with_next).transpose()).await?;
        let keys = Arc::new(read.ok_or(missing)?);
        *held = Some(Arc::clone(&keys));
        Ok(keys)
    }

    /// Makes the next key the only one.
    pub(crate) async fn finish_rekey(&self, held: &mut Option<Arc<SecretKeys>>) -> Result<(), OpError> {
        let path = self.path()?;
        let read = off_thread(move || SecretKeys::read(&path)?.map(SecretKeys::finish).transpose()).await?;
        *held = Some(Arc::new(read.ok_or_else(|| self.missing())?));
        Ok(())
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SecretKeyError> + Send + 'static,
) -> Result<T, OpError> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(|_| OpError::ShuttingDown)??)
}

/// The session that wants to use a secret.
pub(crate) struct SecretUser<'a> {
    pub(crate) project: Option<&'a Name>,
    pub(crate) agent_type: &'a Name,
    /// The owner of the agent type.
    pub(crate) agent_type_tenant: &'a Tenant,
}

/// Finds the secret that a session means by a name: the project's own, else the platform's. `None`
/// if there is none or the session's agent type is not among those of the secret, so that an agent
/// cannot tell the two apart.
pub(crate) async fn find_usable(
    engine: &Engine,
    user: &SecretUser<'_>,
    name: &Name,
) -> Result<Option<SealedSecret>, OpError> {
    let own = Tenant::of(user.project);
    let tenants = if own == Tenant::Platform { vec![own] } else { vec![own, Tenant::Platform] };
    for tenant in tenants {
        let Some(found) = crate::ops::stored_secret(engine, &tenant, name).await? else { continue };
        // A secret of the platform names agent types of the platform. A project could otherwise use
        // it with an agent type of its own that has the same name.
        let named = tenant != Tenant::Platform || *user.agent_type_tenant == Tenant::Platform;
        return Ok((named && found.binding.allows_agent_type(user.agent_type)).then_some(found));
    }
    Ok(None)
}

/// Opens a secret.
pub(crate) async fn open(engine: &Engine, sealed: &SealedSecret) -> Result<SecretValue, OpError> {
    Ok(engine.secrets().keys().await?.open(sealed)?)
}
