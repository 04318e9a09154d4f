//! Parses a remote's list of references and selects the requested one.

use stead_core::repository::GitRef;

use crate::error::GitError;
use crate::mirror::Source;

/// A commit, by its full hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub commit: String,
    /// The branch it was found under; `None` for a tag or a commit.
    pub branch: Option<String>,
    pub default_branch: Option<String>,
}

pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_short_commit(text: &str) -> bool {
    (7..40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The part of a repository that a session asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    /// The remote's default branch.
    Default,
    Reference(String),
    PullRequest(u64),
}

impl Wanted {
    pub(crate) fn of(source: &Source) -> Self {
        match (&source.reference, source.pull_request) {
            (Some(reference), _) => Self::Reference(reference.to_string()),
            (None, Some(number)) => Self::PullRequest(number),
            (None, None) => Self::Default,
        }
    }
}

/// The refs of a pull request: at GitHub, Gitea and Forgejo, and at GitLab.
fn pull_request_names(number: u64) -> [String; 2] {
    [format!("refs/pull/{number}/head"), format!("refs/merge-requests/{number}/head")]
}

/// The patterns for `ls-remote`.
pub(crate) fn patterns(wanted: &Wanted) -> Vec<String> {
    let mut patterns = vec!["HEAD".to_owned()];
    match wanted {
        Wanted::Default => {}
        Wanted::PullRequest(number) => patterns.extend(pull_request_names(*number)),
        Wanted::Reference(reference) => {
            patterns.push(format!("refs/heads/{reference}"));
            patterns.push(format!("refs/tags/{reference}"));
            patterns.push(format!("refs/tags/{reference}^{{}}"));
            if reference.starts_with("refs/") {
                patterns.push(reference.clone());
            }
        }
    }
    patterns
}

/// Reads the answer of `ls-remote --symref`. A branch takes precedence over a tag, and a tag over
/// any other name.
pub(crate) fn choose(listing: &str, wanted: &Wanted) -> Result<Target, GitError> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    let mut default_branch = None;
    for line in listing.lines() {
        match line.split_once('\t') {
            Some((symbolic, "HEAD")) if symbolic.starts_with("ref: ") => {
                default_branch = symbolic.strip_prefix("ref: refs/heads/").map(str::to_owned);
            }
            Some((commit, name)) if is_commit(commit) => found.push((commit, name)),
            _ => {}
        }
    }
    let named = |name: &str| found.iter().find(|(_, known)| *known == name).map(|(commit, _)| (*commit).to_owned());
    let text = match wanted {
        Wanted::Default => {
            let commit = named("HEAD").ok_or(GitError::Empty)?;
            // The remote chose this name. Ignore it if it is invalid.
            let branch = default_branch.filter(|name| name.parse::<GitRef>().is_ok());
            return Ok(Target { commit, default_branch: branch.clone(), branch });
        }
        Wanted::PullRequest(number) => {
            let commit = pull_request_names(*number).iter().find_map(|name| named(name));
            let commit = commit.ok_or(GitError::MissingPullRequest { number: *number })?;
            return Ok(Target { commit, branch: None, default_branch });
        }
        Wanted::Reference(reference) => reference.as_str(),
    };
    let (branch, tag) = (named(&format!("refs/heads/{text}")), format!("refs/tags/{text}"));
    if let Some(commit) = branch {
        return Ok(Target { commit, branch: Some(text.to_owned()), default_branch });
    }
    let other = named(&format!("{tag}^{{}}"))
        .or_else(|| named(&tag))
        .or_else(|| named(text).filter(|_| text.starts_with("refs/")));
    match other {
        Some(commit) => Ok(Target { commit, branch: None, default_branch }),
        None if is_short_commit(text) => Err(GitError::ShortCommit { reference: text.to_owned() }),
        None => Err(GitError::MissingRef { reference: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_before_a_tag_and_the_default_without_a_name() {
        let (a, b, c) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
        let listing = format!(
            "ref: refs/heads/trunk\tHEAD\n{a}\tHEAD\n{a}\trefs/heads/x\n{b}\trefs/tags/x\n{b}\trefs/tags/v1\n{c}\trefs/tags/v1^{{}}\n{b}\tother/refs/heads/x\n"
        );
        let chosen = |name: &str| {
            choose(&listing, &Wanted::Reference(name.to_owned())).map(|target| (target.commit, target.branch))
        };
        assert_eq!(chosen("x").unwrap(), (a.clone(), Some("x".to_owned())));
        assert_eq!(chosen("v1").unwrap(), (c, None));
        assert_eq!(chosen("nope").unwrap_err().code(), "git_ref_missing");
        assert!(matches!(chosen("abcdef1"), Err(GitError::ShortCommit { .. })));
        let default = choose(&listing, &Wanted::Default).unwrap();
        assert_eq!((default.commit, default.branch.as_deref()), (a, Some("trunk")));
        assert!(matches!(choose("", &Wanted::Default), Err(GitError::Empty)));
        let hostile = choose(&format!("ref: refs/heads/--x\tHEAD\n{b}\tHEAD\n"), &Wanted::Default).unwrap();
        assert_eq!(hostile.branch, None);
    }

    #[test]
    fn a_pull_request_is_found_under_the_names_of_either_kind_of_host() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        for name in ["refs/pull/7/head", "refs/merge-requests/7/head"] {
            assert!(patterns(&Wanted::PullRequest(7)).contains(&name.to_owned()));
            let listing = format!("ref: refs/heads/main\tHEAD\n{a}\tHEAD\n{b}\t{name}\n");
            let target = choose(&listing, &Wanted::PullRequest(7)).unwrap();
            assert_eq!((target.commit, target.branch), (b.clone(), None), "{name}");
            assert_eq!(choose(&listing, &Wanted::PullRequest(8)).unwrap_err().code(), "git_ref_missing");
        }
    }
}
