//! Tokens that administrators and owners create.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::permission::Permission;
use super::role::{Role, RoleName};
use crate::parse::Fields;
use crate::record::{Rules, Whole, record};
use crate::{Name, Timestamp, TokenId};

/// A token as stored. It has the hash of the secret, never the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: TokenId,
    pub name: Name,
    pub user: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Name>,
    pub role: RoleName,
    /// The only permissions of the role that the token has. `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Vec<Permission>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_types: Option<Vec<Name>>,
    pub created_at: Timestamp,
    /// The actor that created it, as text.
    pub created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// BLAKE3 hash of the secret, as hexadecimal digits.
    pub hash: String,
    /// The secret before the last rotation, which is valid for a limited time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousSecret>,
}

/// A rotated secret that is still valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    pub hash: String,
    pub until: Timestamp,
}

/// Longest life of a token: ten years.
const MAX_SECONDS: u64 = 10 * 366 * 24 * 3600;

record! {
    /// A token to create.
    [Debug, Clone, PartialEq, Eq]
    TokenRequest as "TokenRequest" {
        /// Name of the token, such as `alice-laptop`.
        required name: Name,
        /// Person or service that holds the token. Absent for the token's name.
        optional user: Name,
        /// Project that the token belongs to. Absent for the project of the caller. The roles
        /// `admin` and `metrics` have no project.
        optional project: Name,
        /// Role: `admin`, `owner`, `developer`, `viewer`, `metrics`, or one that the platform
        /// defines.
        required role: Name,
        /// Life of the token in seconds. Absent for a token that does not expire.
        optional expires_in: Whole<1, MAX_SECONDS>,
        /// Agent types that the token is limited to. Absent for all, an empty list for none.
        optional agent_types: Vec<Name>,
        /// Permissions of the role that the token is limited to. Absent for all, an empty list for
        /// none.
        optional operations: Vec<Permission>,
    }
}

impl Rules for TokenRequest {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        let of_platform = |role: Role| self.role.as_str() == role.as_str();
        if self.project.is_some() && (of_platform(Role::Admin) || of_platform(Role::Metrics)) {
            fields.fail("project", format!("the role {} is one of the whole platform: leave project out", self.role));
        }
    }

    fn restrict(_: &mut Value) {}
}

record! {
    /// The replacement of a token's secret.
    [Debug, Clone, PartialEq, Eq]
    defaults TokenRotation as "TokenRotation" {
        /// Seconds for which the old secret stays valid. 0 ends it at once.
        default(0) overlap_seconds: Whole<0, 86400>,
    }
}

impl Rules for TokenRotation {}
