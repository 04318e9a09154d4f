//! What an agent may push, and where to.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Bounded;
use crate::parse::{Fields, Place, Read};

/// What a remote has under a branch's name, as far as a session is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtRemote {
    /// Nothing yet.
    Nothing,
    /// What this session has put there.
    Own,
    /// Somebody's.
    Others,
}

/// What an agent type says of repositories: whether submodules and Git LFS files come along, and what may be pushed. The remote is always the session's
/// own repository.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GitPush {
    /// Branch names, `*` for any run of characters. Empty: none. `None`: what belongs to the session alone, and nothing of anybody
    /// else's: the branch it was given to begin on, and branches that nobody had before it made them.
    #[serde(default)]
    pub push_branches: Option<Vec<String>>,
    #[serde(default)]
    pub allow_force_push: bool,
    /// Whether the repository's submodules are checked out too.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub submodules: bool,
    /// Whether Git LFS files come with their content, and new ones go with a push.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub lfs: bool,
}

impl Read for GitPush {
    fn read(value: Value, at: &mut Place<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let push = Self {
            push_branches: fields
                .optional::<Vec<Bounded<1, 255>>>("push_branches")
                .map(|names| names.into_iter().map(|name| name.0).collect()),
            allow_force_push: fields.or("allow_force_push", false),
            submodules: fields.or("submodules", false),
            lfs: fields.or("lfs", false),
        };
        fields.done();
        Some(push)
    }
}

impl GitPush {
    /// Writes every field, also those that a journal leaves out, so that a config reads back whole.
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

    /// Whether a branch may be pushed by a session that began on `began_on`, to a remote that has `there` under its name.
    pub fn allows(&self, branch: &str, began_on: Option<&str>, there: AtRemote) -> bool {
        match &self.push_branches {
            Some(patterns) => patterns.iter().any(|pattern| matches(pattern, branch)),
            None => began_on == Some(branch) || there != AtRemote::Others,
        }
    }
}

/// `*` stands for any run of characters, slashes too.
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
