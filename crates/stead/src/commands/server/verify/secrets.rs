//! Checks that every stored secret opens.

use std::path::Path;

use stead_core::secret::SealedSecret;
use stead_store::{DocumentKind, SecretKeys, Store, StoreError};

const PAGE: u32 = 500;

#[derive(Default)]
pub(crate) struct SecretsReport {
    /// Number of secrets that open.
    pub(super) open: u64,
    /// Number of stored secrets.
    pub(super) stored: u64,
    /// Keys of the secrets that do not open although there is a key.
    pub(super) broken: Vec<String>,
    /// The reason why no secret can be checked.
    pub(super) no_key: Option<String>,
}

/// Opens every secret with the key of the file. Without a key nothing is wrong with the database,
/// and the report says what is missing.
pub(super) async fn check(store: &Store, path: &Path) -> Result<SecretsReport, StoreError> {
    let mut report = SecretsReport::default();
    let keys = match SecretKeys::read(path) {
        Ok(Some(keys)) => Some(keys),
        Ok(None) => {
            report.no_key = Some(format!("there is no key at {}", path.display()));
            None
        }
        Err(error) => {
            report.no_key = Some(error.to_string());
            None
        }
    };
    let mut after: Option<String> = None;
    loop {
        let page = store.documents(DocumentKind::Secret, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(report) };
        after = Some(last.id.clone());
        for document in page {
            report.stored += 1;
            let Some(keys) = &keys else { continue };
            let secret: Option<SealedSecret> = serde_json::from_str(&document.body).ok();
            // The seal holds for the name and the project of the body, which must be those of the
            // record.
            let own = secret.filter(|secret| secret.tenant().key(&secret.name) == document.id);
            match own.is_some_and(|secret| keys.open(&secret).is_ok()) {
                true => report.open += 1,
                false => report.broken.push(document.id),
            }
        }
    }
}
