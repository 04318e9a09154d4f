//! Submodules, on request: other repositories whose URLs the first one chose.
//!
//! Such a URL is untrusted, and the server has credentials and network access that its author
//! lacks. So it may only lead to the host of the first repository, by the same protocol. Apart from
//! that a submodule is a repository like any other, checked and fetched by the same rules, with its
//! own mirror. One failed submodule fails the checkout, because the caller needs all of them.

use std::collections::HashMap;
use std::fmt::Write as _;

use stead_core::remote::Address;
use stead_core::repository::RepositoryUrl;

use crate::checkout::Checkout;
use crate::error::{GitError, harmless};
use crate::mirror::{Mirrors, Resolved, Source};
use crate::remote::Watch;
use crate::remote::refs::Target;

/// Maximum depth of nested submodules.
const MOST_DEEP: usize = 4;
/// Maximum number of submodules per session.
const MOST: usize = 100;

/// A submodule and its path in the checkout.
#[derive(Clone)]
pub(crate) struct Submodule {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) checkout: Checkout,
}

/// A submodule as a commit describes it.
struct Named {
    name: String,
    path: String,
    commit: String,
    url: String,
}

impl Mirrors {
    /// Fetches a checkout's submodules recursively and returns the checkout with them.
    pub async fn with_submodules(
        &self,
        source: &Source,
        resolved: &Resolved,
        watch: &dyn Watch,
    ) -> Result<Checkout, GitError> {
        let mut left = MOST;
        self.gather(source, resolved, watch, MOST_DEEP, &mut left).await
    }

    async fn gather(
        &self,
        source: &Source,
        resolved: &Resolved,
        watch: &dyn Watch,
        deep: usize,
        left: &mut usize,
    ) -> Result<Checkout, GitError> {
        let mut checkout = self.checkout(source, resolved);
        for Named { name, path, commit, url } in self.named(resolved).await? {
            let failed = |reason: String| GitError::Submodule { path: harmless(&path, 200), reason };
            *left = left.checked_sub(1).ok_or_else(|| failed(format!("there are more than {MOST}")))?;
            let deeper = deep.checked_sub(1).ok_or_else(|| failed(format!("they are more than {MOST_DEEP} deep")))?;
            let url = lead(&source.url, &url).map_err(failed)?;
            let inner = Source { url, reference: None, pull_request: None, ..source.clone() };
            let target = Target { commit, branch: None, default_branch: None };
            let fetched = match self.fetch_commit(&inner, target, watch).await {
                Ok(resolved) => Box::pin(self.gather(&inner, &resolved, watch, deeper, left)).await,
                Err(error) => Err(error),
            };
            let within = |error: GitError| match error {
                GitError::Submodule { path: inner, reason } => {
                    GitError::Submodule { path: format!("{}/{inner}", harmless(&path, 200)), reason }
                }
                other => failed(other.sentence()),
            };
            let inner = fetched.map_err(within)?;
            checkout.add(Submodule { name, path: path.clone(), checkout: inner });
        }
        Ok(checkout)
    }

    /// Lists the submodules in a commit's tree that have a URL in `.gitmodules`. The checkout warns
    /// about the others.
    async fn named(&self, resolved: &Resolved) -> Result<Vec<Named>, GitError> {
        let limit = self.settings().timeout;
        let git = || self.git().on(&resolved.mirror);
        let modules = git().args(["config", "--no-includes", "-z", "--list", "--blob"]);
        let modules = modules.arg(format!("{}:.gitmodules", resolved.commit));
        // A commit without a valid `.gitmodules` has no submodules.
        let Ok(listed) = modules.run(limit, |_| ()).await else { return Ok(Vec::new()) };
        let known = read_modules(&String::from_utf8_lossy(&listed));
        let tree = git().args(["ls-tree", "-r", "-z", "--full-tree", "--end-of-options", &resolved.commit]);
        let tree = tree.local("list the submodules", limit).await?;
        let mut named = Vec::new();
        for entry in String::from_utf8_lossy(&tree).split('\0') {
            let Some((object, path)) = entry.split_once('\t') else { continue };
            if let (Some(commit), Some((name, url))) = (object.strip_prefix("160000 commit "), known.get(path)) {
                let [name, path, commit, url] = [name, path, commit, url].map(str::to_owned);
                named.push(Named { name, path, commit, url });
            }
        }
        Ok(named)
    }
}

/// Maps each `submodule.NAME.path` to its name and `submodule.NAME.url`.
fn read_modules(listed: &str) -> HashMap<String, (String, String)> {
    let (mut paths, mut urls) = (HashMap::new(), HashMap::new());
    for (key, value) in listed.split('\0').filter_map(|entry| entry.split_once('\n')) {
        let Some((name, field)) = key.strip_prefix("submodule.").and_then(|rest| rest.rsplit_once('.')) else {
            continue;
        };
        match field {
            "path" => paths.insert(name.to_owned(), value.to_owned()),
            "url" => urls.insert(name.to_owned(), value.to_owned()),
            _ => None,
        };
    }
    let both = paths.into_iter().filter_map(|(name, path)| Some((path, (name.clone(), urls.remove(&name)?))));
    both.collect()
}

/// Resolves a submodule's URL from its repository's, if it has the same host and protocol.
fn lead(from: &RepositoryUrl, url: &str) -> Result<RepositoryUrl, String> {
    let text =
        if url.starts_with("./") || url.starts_with("../") { relative(from.as_str(), url)? } else { url.to_owned() };
    let to: RepositoryUrl = text.parse().map_err(|error| format!("its URL cannot be used: {error}"))?;
    let same = match (Address::of(from), Address::of(&to)) {
        (Some(Address::Http { scheme, host }), Some(Address::Http { scheme: other, host: there })) => {
            scheme == other && host == there
        }
        (Some(Address::Ssh { host, user, .. }), Some(Address::Ssh { host: there, user: other, .. })) => {
            host == there && user == other
        }
        (Some(Address::Local { .. }), Some(Address::Local { .. })) => true,
        _ => false,
    };
    if same { Ok(to) } else { Err("its URL leads to another host than its repository's, or another way".to_owned()) }
}

/// Resolves a relative URL like git: each `../` removes the last part of the repository's URL.
fn relative(from: &str, url: &str) -> Result<String, String> {
    let mut base = from.trim_end_matches('/').to_owned();
    let mut rest = url;
    loop {
        if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("../") {
            let end = base.rfind(['/', ':']).ok_or("its URL leads out of its host")?;
            base.truncate(end);
            rest = after;
        } else {
            break;
        }
    }
    let mut joined = base;
    let _ = write!(joined, "/{rest}");
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submodule_is_on_its_repositorys_own_host() {
        let check = |from: &str, url: &str, expected: Option<&str>| {
            let led = lead(&from.parse().unwrap(), url);
            assert_eq!(led.as_ref().ok().map(RepositoryUrl::as_str), expected, "{from} {url}: {led:?}");
        };
        check("https://h.example/a/b.git", "../c.git", Some("https://h.example/a/c.git"));
        check("https://h.example/a/b", "./c", Some("https://h.example/a/b/c"));
        check("https://h.example/a/b", "https://h.example/x/y", Some("https://h.example/x/y"));
        check("git@h.example:a/b", "../c", Some("git@h.example:a/c"));
        check("/srv/a", "../b", Some("/srv/b"));
        check("https://h.example/a/b", "https://other.example/x", None);
        check("https://h.example/a/b", "http://h.example/x", None);
        check("https://h.example/a/b", "https://h.example:8443/x", None);
        check("https://h.example/a/b", "https://token@h.example/x", None);
        check("https://h.example/a/b", "../../../evil.example/x", None);
        check("https://h.example/a/b", "ssh://git@h.example/x", None);
        check("git@h.example:a/b", "root@h.example:x", None);
        for url in ["/etc", "file:///etc", "ext::sh -c true", "--upload-pack=x", "", "-x", "../\n"] {
            check("https://h.example/a/b", url, None);
        }
    }

    #[test]
    fn names_may_have_dots() {
        let listed = "submodule.a.b.path\nsub\0submodule.a.b.url\n../x\0submodule.c.path\nnourl\0core.x\ny\0";
        let known = read_modules(listed);
        assert_eq!(known.get("sub"), Some(&("a.b".to_owned(), "../x".to_owned())));
        assert_eq!(known.len(), 1);
    }
}
