//! The git settings of an agent type: allowed pushes, submodules and Git LFS.

use serde::{Deserialize, Serialize};

use crate::config::Bounded;
use crate::record::{Rules, record};

/// The state of a branch at the remote, from the point of view of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtRemote {
    /// The remote has no branch of this name.
    Nothing,
    /// This session created the branch.
    Own,
    /// The branch exists, and this session did not create it.
    Others,
}

record! {
    /// Pushes, submodules and Git LFS.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults GitPush as "GitSettings" {
        /// Branches that may be pushed, where `*` matches any characters. Absent for the branch
        /// that the session began on and for branches that it created.
        optional #[serde(default)] push_branches: Vec<Bounded<1, 255>>,
        /// Allow pushes that discard commits.
        default(false) #[serde(default)] allow_force_push: bool,
        /// Check out submodules.
        default(false) #[serde(default, skip_serializing_if = "core::ops::Not::not")] submodules: bool,
        /// Download Git LFS content on checkout and upload it on push.
        default(false) #[serde(default, skip_serializing_if = "core::ops::Not::not")] lfs: bool,
    }
}

impl Rules for GitPush {}

impl GitPush {
    /// Writes every field, including the ones that a journal omits, so that a config round-trips.
    pub(crate) fn serialize_whole<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { push_branches, allow_force_push, submodules, lfs } = self;
        let whole = serde_json::json!({
            "push_branches": push_branches, "allow_force_push": allow_force_push, "submodules": submodules, "lfs": lfs,
        });
        whole.serialize(serializer)
    }

    pub(crate) fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if a session that began on `began_on` may push `branch`. `there` is the owner
    /// of the remote branch of that name.
    pub fn allows(&self, branch: &str, began_on: Option<&str>, there: AtRemote) -> bool {
        match &self.push_branches {
            Some(patterns) => patterns.iter().any(|pattern| matches(pattern, branch)),
            None => began_on == Some(branch) || there != AtRemote::Others,
        }
    }
}

/// Matches the whole name. `*` matches any run of characters, including slashes.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expect) in [
            ("main", "main", true),
            ("main", "mainline", false),
            ("agent/*", "agent/x/y", true),
            ("agent/*", "my-agent/x", false),
            ("*-fix", "a-fix", true),
            ("*-fix", "a-fixed", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), expect, "{pattern} {name}");
        }
    }

    #[test]
    fn without_a_list_only_what_is_the_sessions_own() {
        let push = GitPush::default();
        assert!(push.allows("main", Some("main"), AtRemote::Others), "it was given this branch");
        assert!(!push.allows("main", Some("feature"), AtRemote::Others));
        assert!(!push.allows("main", None, AtRemote::Others));
        assert!(push.allows("new", Some("feature"), AtRemote::Nothing));
        assert!(push.allows("new", Some("feature"), AtRemote::Own));
        let none = GitPush { push_branches: Some(Vec::new()), ..GitPush::default() };
        let listed = GitPush { push_branches: Some(vec!["agent/*".to_owned()]), ..GitPush::default() };
        for there in [AtRemote::Nothing, AtRemote::Own, AtRemote::Others] {
            assert!(!none.allows("feature", Some("feature"), there));
            assert!(!listed.allows("feature", Some("feature"), there) && listed.allows("agent/x", None, there));
        }
    }
}
