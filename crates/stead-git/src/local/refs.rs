//! The references of a repository on this machine, parsed without git.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use stead_core::repository::GitRef;

use super::{Directory, LocalRepository};
use crate::error::{GitError, disk};
use crate::remote::refs::is_commit;

const MOST_PACKED_BYTES: u64 = 128 << 20;
const MOST_REFS: usize = 1_000_000;
const MOST_DEEP: usize = 32;
/// A loose reference holds one object name or one reference name.
const MOST_LOOSE_BYTES: u64 = 1024;

/// Names and the objects they point to. Names that git would not accept are left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalRefs {
    head: Option<Head>,
    refs: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Head {
    Branch(String),
    Detached(String),
}

impl LocalRepository {
    pub(crate) fn refs(&self) -> Result<LocalRefs, GitError> {
        let failed = |error: io::Error| disk(&self.git_dir.path)(error);
        let mut found = LocalRefs::default();
        if let Some(packed) = self.git_dir.text("packed-refs", MOST_PACKED_BYTES).map_err(failed)? {
            found.read_packed(&packed);
        }
        if let Ok(refs) = self.git_dir.directory("refs") {
            found.read_loose(&refs, "refs", MOST_DEEP).map_err(failed)?;
        }
        let head = self.git_dir.text("HEAD", MOST_LOOSE_BYTES).map_err(failed)?;
        found.head = head.as_deref().and_then(read_head);
        Ok(found)
    }
}

impl LocalRefs {
    fn read_packed(&mut self, text: &str) {
        for line in text.lines().take(2 * MOST_REFS) {
            // Headers begin with `#`, peeled tags with `^`.
            if let Some((object, name)) = line.split_once(' ') {
                self.add(name, object);
            }
        }
    }

    fn read_loose(&mut self, directory: &Directory, prefix: &str, deep: usize) -> io::Result<()> {
        for (name, is_directory) in directory.entries()? {
            let full = format!("{prefix}/{name}");
            if is_directory {
                // A directory that disappears meanwhile has no references.
                if let (Some(deeper), Ok(inner)) = (deep.checked_sub(1), directory.directory(&name)) {
                    self.read_loose(&inner, &full, deeper)?;
                }
            } else if let Ok(Some(text)) = directory.text(&name, MOST_LOOSE_BYTES) {
                self.add(&full, text.trim_end());
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, object: &str) {
        let named = name.starts_with("refs/") && name.parse::<GitRef>().is_ok();
        if named && is_commit(object) && self.refs.len() < MOST_REFS {
            self.refs.insert(name.to_owned(), object.to_owned());
        }
    }

    fn head(&self) -> Option<&str> {
        match self.head.as_ref()? {
            Head::Branch(name) => self.refs.get(name).map(String::as_str),
            Head::Detached(commit) => Some(commit),
        }
    }

    /// The answer of `ls-remote --symref` for these exact names. `None` if names are found and none
    /// is a branch: one may be an annotated tag, and only git can tell the commit of a tag.
    pub(crate) fn listing(&self, names: &[String]) -> Option<String> {
        let found: Vec<(&String, &String)> = names.iter().filter_map(|name| self.refs.get_key_value(name)).collect();
        let is_branch = |(name, _): &(&String, &String)| name.starts_with("refs/heads/");
        if !found.is_empty() && !found.iter().any(is_branch) {
            return None;
        }
        let mut listing = String::new();
        if let (true, Some(head)) = (names.iter().any(|name| name == "HEAD"), self.head()) {
            if let Some(Head::Branch(branch)) = &self.head {
                // Writing to a String cannot fail.
                let _ = writeln!(listing, "ref: {branch}\tHEAD");
            }
            let _ = writeln!(listing, "{head}\tHEAD");
        }
        for (name, object) in found.into_iter().filter(is_branch) {
            let _ = writeln!(listing, "{object}\t{name}");
        }
        Some(listing)
    }

    /// The text of a `packed-refs` file.
    pub(super) fn packed(&self) -> String {
        let mut text = "# pack-refs with: sorted\n".to_owned();
        for (name, object) in &self.refs {
            let _ = writeln!(text, "{object} {name}");
        }
        text
    }

    /// The text of a `HEAD` file. It names a branch that does not exist if the repository has no
    /// HEAD.
    pub(super) fn head_text(&self) -> String {
        match &self.head {
            Some(Head::Branch(name)) => format!("ref: {name}\n"),
            Some(Head::Detached(commit)) => format!("{commit}\n"),
            None => "ref: refs/heads/none\n".to_owned(),
        }
    }
}

fn read_head(text: &str) -> Option<Head> {
    let text = text.trim_end();
    match text.strip_prefix("ref:").map(str::trim) {
        Some(name) if name.starts_with("refs/heads/") && name.parse::<GitRef>().is_ok() => {
            Some(Head::Branch(name.to_owned()))
        }
        Some(_) => None,
        None => is_commit(text).then(|| Head::Detached(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_references_are_left_out() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let mut refs = LocalRefs { head: read_head("ref: refs/heads/main\n"), ..LocalRefs::default() };
        refs.read_packed(&format!(
            "# pack-refs with: peeled\n{a} refs/heads/main\n{b} refs/tags/v1\n^{a}\n{a} refs/heads/../../x\n\
             {a} refs/heads/--x y\n{a} ../x\nshort refs/heads/s\n"
        ));
        assert_eq!(refs.refs.keys().collect::<Vec<_>>(), ["refs/heads/main", "refs/tags/v1"]);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let listing = refs.listing(&names(&["HEAD", "refs/heads/main", "refs/tags/main"])).unwrap();
        assert_eq!(listing, format!("ref: refs/heads/main\tHEAD\n{a}\tHEAD\n{a}\trefs/heads/main\n"));
        assert_eq!(refs.listing(&names(&["HEAD", "refs/heads/v1", "refs/tags/v1"])), None);
        assert_eq!(refs.listing(&names(&["refs/heads/none"])).unwrap(), "");
        for head in ["ref: ../../etc/passwd", "ref: refs/heads/-x..", "/etc/passwd", ""] {
            assert_eq!(read_head(head), None, "{head}");
        }
    }
}
