//! The owner of agent types, content, images, git credentials and blobs: a project, or the
//! platform.

use crate::Name;

/// A project, or the platform.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Tenant {
    #[default]
    Platform,
    Project(Name),
}

impl Tenant {
    pub fn of(project: Option<&Name>) -> Self {
        project.map_or(Self::Platform, |project| Self::Project(project.clone()))
    }

    pub fn project(&self) -> Option<&Name> {
        match self {
            Self::Platform => None,
            Self::Project(project) => Some(project),
        }
    }

    /// Returns the key of a name that belongs to this tenant. A name contains no `/`, so keys of
    /// two tenants never meet.
    pub fn key(&self, name: &Name) -> String {
        match self {
            Self::Platform => name.to_string(),
            Self::Project(project) => format!("{project}/{name}"),
        }
    }

    /// Returns the name in a key of this tenant. `None` for the key of another tenant.
    pub fn name(&self, key: &str) -> Option<Name> {
        match self {
            Self::Platform => key.parse().ok(),
            Self::Project(project) => key.strip_prefix(project.as_str())?.strip_prefix('/')?.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_belongs_to_one_tenant() {
        let name: Name = "coder".parse().unwrap();
        let tenants =
            [Tenant::Platform, Tenant::Project("web".parse().unwrap()), Tenant::Project("we".parse().unwrap())];
        for (position, tenant) in tenants.iter().enumerate() {
            for (other, reader) in tenants.iter().enumerate() {
                let expected = (position == other).then(|| name.clone());
                assert_eq!(reader.name(&tenant.key(&name)), expected, "{tenant:?} {reader:?}");
            }
        }
    }
}
