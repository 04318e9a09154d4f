//! Roles: named sets of permissions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::permission::Permission;
use crate::Name;
use crate::parse::{FieldPath, Read, words};

words!(
    /// A role that every server has.
    Role, "role", {
        /// Everything, in every project.
        Admin = "admin",
        /// A developer who also manages the settings and tokens of the project and reads its audit
        /// log.
        Owner = "owner",
        /// Sessions, agent types, content and images of a project.
        Developer = "developer",
        /// Reads a project, changes nothing.
        Viewer = "viewer",
        /// Reads the metrics of the server, nothing else.
        Metrics = "metrics",
    }
);

impl Role {
    pub fn allows(self, permission: Permission) -> bool {
        use Permission as P;
        let viewer = matches!(
            permission,
            P::SessionsRead
                | P::AgentTypesRead
                | P::ContentRead
                | P::ImagesRead
                | P::ProjectsRead
                | P::UsageRead
                | P::ServerRead
        );
        let developer = viewer
            || matches!(
                permission,
                P::SessionsCreate
                    | P::SessionsUse
                    | P::SessionsManage
                    | P::AgentTypesWrite
                    | P::ContentWrite
                    | P::ImagesWrite
                    | P::BlobsRead
                    | P::BlobsWrite
                    | P::SecretsRead
            );
        match self {
            Self::Admin => true,
            Self::Owner => {
                developer
                    || matches!(
                        permission,
                        P::ProjectsWrite | P::SecretsWrite | P::TokensRead | P::TokensWrite | P::AuditRead
                    )
            }
            Self::Developer => developer,
            Self::Viewer => viewer,
            Self::Metrics => permission == P::MetricsRead,
        }
    }

    pub fn permissions(self) -> BTreeSet<Permission> {
        Permission::ALL.iter().copied().filter(|permission| self.allows(*permission)).collect()
    }
}

/// The name of a role: one of [`Role`], or one that the platform defines.
pub type RoleName = Name;

/// The roles that the platform defines, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Roles(pub BTreeMap<Name, BTreeSet<Permission>>);

impl Read for Roles {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let given = BTreeMap::<String, Vec<Permission>>::read(value, at)?;
        let mut roles = BTreeMap::new();
        for (text, permissions) in given {
            if text.parse::<Role>().is_ok() {
                return at.child(&text).fail("is a role of every server and cannot be defined again");
            }
            match text.parse::<Name>() {
                Ok(name) => roles.insert(name, permissions.into_iter().collect()),
                Err(error) => return at.fail(error.to_string()),
            };
        }
        Some(Self(roles))
    }
}

impl Roles {
    pub fn json_schema() -> Value {
        let permissions = crate::schema::list(crate::schema::named("Permission"));
        json!({
            "type": "object", "additionalProperties": permissions, "propertyNames": {"pattern": Name::PATTERN},
            "description": "Roles by name, each with its permissions. The roles of every server cannot be defined again.",
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the permissions of a role. `None` if there is no such role. A custom role cannot
    /// replace one that every server has.
    pub fn permissions(&self, role: &RoleName) -> Option<BTreeSet<Permission>> {
        match role.as_str().parse::<Role>() {
            Ok(role) => Some(role.permissions()),
            Err(_) => self.0.get(role).cloned(),
        }
    }

    /// Returns the names of all roles, for error messages.
    pub fn names(&self) -> String {
        let own = self.0.keys().map(Name::as_str);
        Role::ALL.iter().map(|role| role.as_str()).chain(own).collect::<Vec<_>>().join(", ")
    }
}
