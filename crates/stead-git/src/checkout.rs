//! A commit as a directory: the files, and a repository for the agent.
//!
//! The directory belongs to the server until it is complete. It contains no git templates and no
//! data of the server: the remote URL has no credential. The mirror's packs are hard-linked where
//! possible.

mod index;
mod missing_content;
pub(crate) mod submodules;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stead_core::repository::RepositoryUrl;
use stead_core::session::warning::WarningCode;

use crate::checkout::submodules::Submodule;
use crate::error::{GitError, disk};
use crate::lfs::{self, Files};
use crate::mirror::{Depth, Mirrors, Resolved};

/// The author of the agent's commits, unless the agent sets another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub name: String,
    pub email: String,
}

impl Default for Author {
    fn default() -> Self {
        Self { name: "Stead agent".to_owned(), email: "agent@stead.invalid".to_owned() }
    }
}

/// Memory for a git that only lists a commit's files: a base amount, and an amount per file.
const LIST_MEMORY: u64 = 64 << 20;
const FILE_MEMORY: u64 = 512;

pub(crate) fn list_memory(most_files: u64) -> u64 {
    most_files.saturating_mul(FILE_MEMORY).saturating_add(LIST_MEMORY)
}

/// A prepared checkout, not written yet.
#[derive(Clone)]
pub struct Checkout {
    mirrors: Mirrors,
    pub(crate) url: RepositoryUrl,
    pub(crate) resolved: Resolved,
    pub(crate) submodules: Vec<Submodule>,
    /// The Git LFS files with their contents, if they were asked for.
    pub(crate) lfs: Option<Files>,
}

/// The result of writing a checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Paths of the repositories below the checkout; the first is the checkout itself.
    pub repositories: Vec<PathBuf>,
    /// Codes and messages for content that a user may expect but that the checkout lacks.
    pub warnings: Vec<(WarningCode, String)>,
}

impl Checkout {
    pub(crate) fn new(mirrors: Mirrors, url: RepositoryUrl, resolved: Resolved) -> Self {
        Self { mirrors, url, resolved, submodules: Vec::new(), lfs: None }
    }

    pub(crate) fn add(&mut self, submodule: Submodule) {
        self.submodules.push(submodule);
    }

    /// A key that is equal for checkouts with the same content.
    pub fn key(&self) -> String {
        let Resolved { commit, branch, default_branch, depth, .. } = &self.resolved;
        let author = &self.mirrors.settings().author;
        let mut parts = format!("3\n{}\n{commit}\n{branch:?}\n{default_branch:?}\n{depth:?}\n{author:?}", self.url);
        if let Some(base) = &self.resolved.base {
            parts += &format!("\nbase {:?} {}", base.branch, base.commit);
        }
        if self.lfs.is_some() {
            parts += "\nlfs 1";
        }
        for submodule in &self.submodules {
            parts += &format!("\n{:?} {:?} {}", submodule.name, submodule.path, submodule.checkout.key());
        }
        format!("git-{}-{}", &commit[..12], &blake3::hash(parts.as_bytes()).to_hex()[..32])
    }

    /// Writes the checkout into an empty directory. It blocks at times, so run it on a thread for
    /// blocking work.
    pub async fn write(&self, into: &Path) -> Result<Written, GitError> {
        let git_dir = into.join(".git");
        self.skeleton(&git_dir)?;
        self.objects(&git_dir).await?;
        let settings = self.mirrors.settings();
        let limit = settings.timeout;
        let memory = list_memory(settings.most_files);
        let git = || self.mirrors.git().on(&git_dir).work_tree(into);
        let read = git().memory(memory).args(["read-tree", &self.resolved.commit]);
        let read = async {
            read.local("read the commit's files", limit).await.map_err(|error| error.too_many(settings.most_files))
        };
        let (seconds, _) = tokio::try_join!(self.time(&git_dir), read)?;
        let blobs = index::blobs(&git_dir.join("index")).map_err(disk(&git_dir))?;
        let write = git().setting("checkout.workers=0").setting("checkout.thresholdForParallelism=200");
        let write = write.args(["checkout-index", "--all", "--index"]);
        // The first failure cancels the other: a checkout that is too large fails before or while
        // it is written.
        tokio::try_join!(self.weigh(&git_dir, blobs), write.local("check out the commit", limit))?;
        // Run this on the current thread, which is a blocking one: all other blocking threads may
        // be waiting for this checkout.
        let contents = self.lfs.as_ref();
        contents.map_or(Ok(()), |files| files.put_into(into))?;
        let sizes = contents.map(Files::sizes).unwrap_or_default();
        let mut missing = index::settle(into, &git_dir.join("index"), seconds, &sizes).map_err(disk(&git_dir))?;
        if contents.is_some() {
            missing.attributes.clear();
            lfs::write_filter(into)?;
        }
        let mut written = Written { repositories: vec![PathBuf::new()], warnings: Vec::new() };
        for Submodule { path, checkout, .. } in &self.submodules {
            let directory = plain_directory(into, path).map_err(disk(into))?;
            let inner = Box::pin(checkout.write(&directory)).await?;
            written.repositories.extend(inner.repositories.iter().map(|inner| Path::new(path).join(inner)));
            written.warnings.extend(inner.warnings);
            missing.checked_out.push(path.clone());
        }
        written.warnings.splice(0..0, missing.warnings(into));
        Ok(written)
    }

    /// Checks the number and total size of the files against the limits. A few objects can refer to
    /// each other so often that the result exceeds any disk.
    async fn weigh(&self, git_dir: &Path, blobs: BTreeMap<String, u64>) -> Result<(), GitError> {
        let settings = self.mirrors.settings();
        if blobs.values().sum::<u64>() > settings.most_files {
            return Err(GitError::TooManyFiles { limit: settings.most_files });
        }
        let asked: String = blobs.keys().flat_map(|blob| [blob, "\n"]).collect();
        let git = self.mirrors.git().on(git_dir).args(["cat-file", "--buffer", "--batch-check=%(objectsize)"]);
        let sizes = git.input(asked).local("measure the commit's files", settings.timeout).await?;
        let sizes = String::from_utf8_lossy(&sizes);
        let contents = self.lfs.as_ref().map_or(0, Files::bytes);
        let bytes = sizes.lines().zip(blobs.values()).map(|(size, times)| {
            // A missing object has no size; writing it reports the error.
            size.parse().unwrap_or(0_u64).saturating_mul(*times)
        });
        let limit = settings.most_checkout;
        if bytes.fold(contents, u64::saturating_add) > limit {
            Err(GitError::CheckoutTooLarge { limit })
        } else {
            Ok(())
        }
    }

    fn skeleton(&self, git_dir: &Path) -> Result<(), GitError> {
        let Resolved { commit, branch, default_branch, .. } = &self.resolved;
        for directory in ["objects/pack", "objects/info", "refs/heads", "refs/tags", "refs/remotes/origin", "info"] {
            let path = git_dir.join(directory);
            fs::create_dir_all(&path).map_err(disk(&path))?;
        }
        let line = format!("{commit}\n");
        let head = branch.as_ref().map_or(line.clone(), |branch| format!("ref: refs/heads/{branch}\n"));
        write(&git_dir.join("HEAD"), &head)?;
        if let Some(branch) = branch {
            write(&git_dir.join("refs/heads").join(branch), &line)?;
            write(&git_dir.join("refs/remotes/origin").join(branch), &line)?;
        }
        if let Some(base) = &self.resolved.base {
            let line = format!("{}\n", base.commit);
            write(&git_dir.join("refs/heads").join(&base.branch), &line)?;
            write(&git_dir.join("refs/remotes/origin").join(&base.branch), &line)?;
        }
        if let Some(default) = default_branch.as_ref().filter(|default| Some(*default) == branch.as_ref()) {
            write(&git_dir.join("refs/remotes/origin/HEAD"), &format!("ref: refs/remotes/origin/{default}\n"))?;
        }
        // Ignore the server's own files in the workspace: they are not changes of the agent.
        write(&git_dir.join("info/exclude"), "/.stead/\n")?;
        let mut settings = config(&self.url, branch.as_deref(), &self.mirrors.settings().author);
        for Submodule { name, checkout, .. } in &self.submodules {
            let (name, url) = (quoted(name), quoted(checkout.url.as_str()));
            settings += &format!("[submodule {name}]\n\tactive = true\n\turl = {url}\n");
        }
        write(&git_dir.join("config"), &settings)
    }

    /// Provides the objects: links the mirror's pack if it has exactly these objects, fetches them
    /// otherwise.
    async fn objects(&self, git_dir: &Path) -> Result<(), GitError> {
        let Resolved { commit, base, mirror, depth, .. } = &self.resolved;
        if base.is_none() && self.link_noted_pack(git_dir)? {
            return Ok(());
        }
        let git = self.mirrors.git().on(git_dir).env("GIT_ALLOW_PROTOCOL", "file").setting("fetch.unpackLimit=1");
        let git = git.args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap="]);
        let git = match (base, depth) {
            // Take everything that the mirror has: a depth could cut off the merge base.
            (Some(_), _) => git.arg("--update-shallow"),
            (None, Depth::Commits(count)) => git.arg(format!("--depth={count}")),
            (None, Depth::Whole) => git,
        };
        let from = format!("file://{}", mirror.display());
        // Temporary refs, without which the fetched objects would be unreachable.
        let mut refspecs = vec![format!("+{commit}:refs/stead/commit")];
        refspecs.extend(base.as_ref().map(|base| format!("+{}:refs/stead/base", base.commit)));
        let git = git.args(["--end-of-options", &from]).args(&refspecs);
        git.local("copy the commit from the mirror", self.mirrors.settings().timeout).await?;
        if base.is_some() {
            self.copy_shallow(git_dir).await?;
        }
        let base = git_dir.join("refs/stead");
        fs::remove_dir_all(&base).map_err(disk(&base))
    }

    /// Writes the mirror's shallow boundary, as far as the checkout has those commits. A fetch
    /// without a depth does not write it.
    async fn copy_shallow(&self, git_dir: &Path) -> Result<(), GitError> {
        let ends = match fs::read_to_string(self.resolved.mirror.join("shallow")) {
            Ok(ends) => ends,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(disk(&self.resolved.mirror)(error)),
        };
        let git = self.mirrors.git().on(git_dir).args(["cat-file", "--batch-check"]).input(ends);
        let found = git.local("look for the ends of history", self.mirrors.settings().timeout).await?;
        let found = String::from_utf8_lossy(&found);
        let ends = found.lines().filter_map(|line| line.split_once(" commit "));
        let ends: String = ends.flat_map(|(commit, _)| [commit, "\n"]).collect();
        if ends.is_empty() { Ok(()) } else { write(&git_dir.join("shallow"), &ends) }
    }

    /// Links the pack with exactly this commit and its history, if the mirror still has it.
    fn link_noted_pack(&self, git_dir: &Path) -> Result<bool, GitError> {
        let Resolved { commit, mirror, depth, .. } = &self.resolved;
        let note = |ending: &str| fs::read_to_string(mirror.join("notes").join(format!("{commit}.{ending}")));
        let (Ok(pack), Ok(ends)) = (note("pack"), note("shallow")) else { return Ok(false) };
        // A shallow pack may contain fewer commits than the depth asks for.
        let enough = ends.is_empty() || *depth == Depth::Commits(1);
        if !enough {
            return Ok(false);
        }
        if link_pack(mirror, git_dir, &pack).is_err() {
            // The mirror was repacked meanwhile.
            unlink_pack(git_dir, &pack);
            return Ok(false);
        }
        if !ends.is_empty() {
            write(&git_dir.join("shallow"), &ends)?;
        }
        Ok(true)
    }

    /// The commit's own time, capped at one minute ago, so that every checkout of a commit has the
    /// same times.
    async fn time(&self, git_dir: &Path) -> Result<i64, GitError> {
        let asked = ["log", "-1", "--format=%ct", "--end-of-options", &self.resolved.commit];
        let answer =
            self.mirrors.git().on(git_dir).args(asked).local("read the commit", Duration::from_secs(60)).await?;
        let committed: i64 = String::from_utf8_lossy(&answer).trim().parse().unwrap_or(1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let latest = i64::try_from(now).unwrap_or(i64::MAX).clamp(120, i64::from(u32::MAX)) - 60;
        Ok(committed.clamp(1, latest))
    }
}

/// Quotes a value or name for a git config file. Names with line breaks were refused earlier.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A directory of the checkout, reached without following links.
fn plain_directory(root: &Path, path: &str) -> std::io::Result<PathBuf> {
    let mut directory = root.to_owned();
    for part in Path::new(path).components() {
        let std::path::Component::Normal(part) = part else { return Err(std::io::ErrorKind::InvalidFilename.into()) };
        directory.push(part);
        if !fs::symlink_metadata(&directory)?.is_dir() {
            return Err(std::io::ErrorKind::NotADirectory.into());
        }
    }
    Ok(directory)
}

/// The config of a repository in a workspace. Directory reads are the slowest operation of an
/// overlay, so git caches untracked files.
pub(crate) fn config(url: &RepositoryUrl, branch: Option<&str>, author: &Author) -> String {
    let mut text = format!(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\tcheckStat = minimal\n\tuntrackedCache = true\n\
         [gc]\n\tauto = 0\n\
         [user]\n\tname = {}\n\temail = {}\n\
         [remote \"origin\"]\n\turl = {}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
        quoted(&author.name),
        quoted(&author.email),
        quoted(url.as_str())
    );
    if let Some(branch) = branch {
        text += &format!("[branch {}]\n\tremote = origin\n\tmerge = refs/heads/{branch}\n", quoted(branch));
    }
    text
}

const PACK_FILES: [&str; 3] = ["pack", "idx", "rev"];

fn link_pack(mirror: &Path, git_dir: &Path, pack: &str) -> std::io::Result<()> {
    let (from, to) = (mirror.join("objects/pack"), git_dir.join("objects/pack"));
    for ending in PACK_FILES {
        let name = PathBuf::from(format!("{pack}.{ending}"));
        if ending == "rev" && !from.join(&name).exists() {
            continue;
        }
        fs::hard_link(from.join(&name), to.join(&name))?;
    }
    Ok(())
}

fn unlink_pack(git_dir: &Path, pack: &str) {
    for ending in PACK_FILES {
        let _ = fs::remove_file(git_dir.join(format!("objects/pack/{pack}.{ending}")));
    }
}

fn write(path: &Path, text: &str) -> Result<(), GitError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(disk(parent))?;
    }
    fs::write(path, text).map_err(disk(path))
}
