//! Secrets, without their values.

use serde::{Deserialize, Serialize};
use stead_core::secret::{SealedSecret, SecretHost};
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::schema;

/// A secret. Its value is sealed in the database, and no response contains it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    /// Name of the secret.
    #[schema(value_type = schema::Name)]
    pub name: Name,
    /// Project that owns the secret; `null` for the platform.
    #[schema(value_type = Option<schema::Name>, required = true)]
    pub project: Option<Name>,
    /// Hosts that may receive the secret.
    #[schema(value_type = Vec<String>)]
    pub hosts: Vec<SecretHost>,
    /// Request header that carries the secret.
    pub header: String,
    /// Text of the header, with `{}` in the place of the value.
    #[serde(rename = "as")]
    pub written_as: String,
    /// Agent types whose sessions may use the secret; `*` for every one. Empty for none.
    pub agent_types: Vec<String>,
    /// True if a service may send the secret over plain HTTP.
    pub over_http: bool,
    /// Number of times that the secret was set.
    pub version: u64,
    /// False if the value cannot be opened, because the key is missing or the record was changed.
    pub usable: bool,
    /// Time at which the secret was set first.
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    /// Time at which the secret was set last.
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
}

impl Secret {
    pub fn new(secret: SealedSecret, usable: bool) -> Self {
        let SealedSecret { name, project, version, binding, created_at, updated_at, .. } = secret;
        let (before, after) = binding.around();
        Self {
            name,
            project,
            header: binding.header_name(),
            written_as: format!("{before}{{}}{after}"),
            version,
            usable,
            created_at,
            updated_at,
            hosts: binding.hosts,
            agent_types: binding.agent_types.unwrap_or_default(),
            over_http: binding.over_http,
        }
    }
}

/// The outcome of a change of keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rekeyed {
    /// Number of secrets that are sealed under the new key.
    pub secrets: u64,
}
