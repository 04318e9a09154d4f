//! One bare mirror per repository, written by the server alone. A project with its own credential
//! for a repository has its own mirror of it.
//!
//! Concurrent requests for one repository wait for the first one and use its result. A file lock
//! excludes other processes that share the home. The server asks the remote for the commit of a
//! branch, and fetches the commit only if it is not in the mirror. Before a mirror serves a commit
//! without a fetch, the remote must accept this server's credential for it: see [`remote_cache`].
//!
//! A mirror begins with as little history as was asked for, and never loses any. The file `depth`
//! next to it records the depth that every fetch since has reached at least.

mod base_branch;
pub(crate) mod collect;
mod maintenance;
mod remote_cache;
mod resolve;

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use stead_core::identity::Tenant;
use stead_core::remote::{Address, GitGate};
use stead_core::repository::{GitRef, RepositoryUrl};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::checkout::{Author, Checkout};
use crate::command::Git;
use crate::error::{GitError, disk};
use crate::git_messages::Cause;
use crate::local::Snapshot;
use crate::mirror::maintenance::clear_left;
use crate::mirror::remote_cache::RemoteCache;
use crate::remote::credential::{self, Credential, Identity};
use crate::remote::packet_trace::PacketTrace;
use crate::remote::refs::Target;
use crate::remote::{Purpose, Remote, Watch};

/// The operator's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory of the mirrors; only the server may write there.
    pub directory: PathBuf,
    pub credentials: Vec<Credential>,
    pub known_hosts: PathBuf,
    /// Timeout of one fetch or push.
    pub timeout: Duration,
    /// Timeout of a silent connection.
    pub stall: Duration,
    /// Number of attempts if a failure may be transient.
    pub tries: u32,
    pub retry_pause: Duration,
    /// Maximum size of a file that a transfer writes.
    pub most_bytes: u64,
    /// Maximum number of files in a checkout, and maximum total size.
    pub most_files: u64,
    pub most_checkout: u64,
    /// Hosts that an LFS server may refer to, in addition to the repository's own.
    pub lfs_hosts: Vec<String>,
    /// Time for which the commit of a branch is cached, for repositories without a credential.
    pub fresh: Duration,
    /// Number of commits in a checkout that does not specify a depth; `None` for all.
    pub depth: Option<u64>,
    /// Number of packs in a mirror before it is repacked.
    pub most_packs: usize,
    pub author: Author,
}

impl Settings {
    pub fn new(home: &Path) -> Self {
        Self {
            directory: home.join("mirrors"),
            credentials: Vec::new(),
            known_hosts: home.join("known_hosts"),
            timeout: Duration::from_secs(600),
            stall: Duration::from_secs(60),
            tries: 3,
            retry_pause: Duration::from_secs(1),
            most_bytes: 16 << 30,
            most_files: 2_000_000,
            most_checkout: 32 << 30,
            lfs_hosts: Vec::new(),
            fresh: Duration::from_secs(5),
            depth: Some(1),
            most_packs: 20,
            author: Author::default(),
        }
    }

    /// Identifies the current credential for a repository.
    pub(crate) fn identity(&self, tenant: &Tenant, address: &Address) -> Result<Identity, GitError> {
        let Some(host) = address.host() else { return Identity::of("this machine", None) };
        Identity::of(&host.to_string(), self.credential_for(tenant, address))
    }

    pub(crate) fn credential_for(&self, tenant: &Tenant, address: &Address) -> Option<&Credential> {
        credential::choose(&self.credentials, tenant, address)
    }
}

/// A repository, and the part of it that is wanted.
#[derive(Debug, Clone)]
pub struct Source {
    pub url: RepositoryUrl,
    pub reference: Option<GitRef>,
    /// The pull request to check out if there is no `reference`.
    pub pull_request: Option<u64>,
    pub depth: Option<u64>,
    pub gate: GitGate,
    /// The tenant whose credentials may be used, besides the platform's.
    pub tenant: Tenant,
}

/// A commit that a mirror has with all its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub commit: String,
    /// The branch to work on; `None` for a tag or a commit.
    pub branch: Option<String>,
    pub default_branch: Option<String>,
    /// True if the commit was fetched for this request.
    pub fetched: bool,
    /// The base branch of a pull request, with its commit.
    pub(crate) base: Option<Base>,
    pub(crate) mirror: PathBuf,
    pub(crate) depth: Depth,
}

/// A branch to compare the checked-out commits with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) branch: String,
    pub(crate) commit: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Depth {
    Commits(u64),
    Whole,
}

impl Depth {
    pub(crate) fn of(depth: Option<u64>) -> Self {
        // Git itself treats this value as unlimited.
        depth.filter(|depth| *depth < 0x7fff_ffff).map_or(Self::Whole, Self::Commits)
    }

    fn text(self) -> String {
        match self {
            Self::Commits(count) => count.to_string(),
            Self::Whole => "whole".to_owned(),
        }
    }

    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "whole" => Some(Self::Whole),
            number => number.parse().ok().map(Self::Commits),
        }
    }
}

/// The config of a git that another git starts, such as the `upload-pack` of a fetch from a mirror.
/// Settings of the command line do not reach it. It opens only the server's own repositories.
const GLOBAL_CONFIG: &str = "[core]\n\thooksPath = /dev/null\n\tfsmonitor = false\n\
    [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n";

/// The mirrors of one server. Clones refer to the same mirrors.
#[derive(Clone)]
pub struct Mirrors(Arc<Inner>);

impl std::fmt::Debug for Mirrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Mirrors").field(&self.0.settings.directory).finish()
    }
}

struct Inner {
    settings: Settings,
    busy: Mutex<HashMap<PathBuf, Arc<AsyncMutex<RemoteCache>>>>,
}

impl Mirrors {
    /// Opens the mirrors and creates the directory if needed.
    pub fn open(settings: Settings) -> Result<Self, GitError> {
        let directory = &settings.directory;
        fs::create_dir_all(directory).map_err(disk(directory))?;
        let gitconfig = directory.join("gitconfig");
        fs::write(&gitconfig, GLOBAL_CONFIG).map_err(disk(&gitconfig))?;
        // Remove the remains of a killed server.
        for entry in fs::read_dir(directory).map_err(disk(directory))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if ["lend", "quarantine", "gone", Snapshot::PREFIX].iter().any(|prefix| name.starts_with(prefix)) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(Self(Arc::new(Inner { settings, busy: Mutex::default() })))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.0.settings.directory
    }

    pub(crate) fn git(&self) -> Git<'_> {
        Git::new(self.directory(), self.0.settings.most_bytes)
    }

    /// Path of a repository's mirror, the same with and without a final `/` or `.git` in the URL.
    ///
    /// A project with its own credential for the repository has a mirror of its own: the host may
    /// show it other commits than it shows to others. All other tenants share one mirror, because
    /// they use the platform's credential or none.
    pub(crate) fn mirror_path(&self, tenant: &Tenant, url: &RepositoryUrl) -> PathBuf {
        let text = url.as_str().trim_end_matches('/');
        let text = text.strip_suffix(".git").unwrap_or(text);
        let credential = Address::of(url).and_then(|address| self.settings().credential_for(tenant, &address));
        // A URL contains no control character, so the two forms never meet.
        let hashed = match credential.map(|credential| &credential.owner) {
            Some(Tenant::Project(project)) => format!("{project}\n{text}"),
            Some(Tenant::Platform) | None => text.to_owned(),
        };
        let hash = blake3::hash(hashed.as_bytes()).to_hex();
        self.directory().join(format!("{}.git", &hash[..32]))
    }

    /// Prepares a checkout of a resolved commit.
    pub fn checkout(&self, source: &Source, resolved: &Resolved) -> Checkout {
        Checkout::new(self.clone(), source.url.clone(), resolved.clone())
    }

    fn remote_cache(&self, mirror: &Path) -> Arc<AsyncMutex<RemoteCache>> {
        // Only whole entries are inserted, so a panic cannot leave the map inconsistent.
        let mut busy = self.0.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.entry(mirror.to_owned()).or_default().clone()
    }

    /// Returns true if a task of this process holds the lock.
    pub(crate) fn is_busy(&self, mirror: &Path) -> bool {
        self.remote_cache(mirror).try_lock().is_err()
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_lock(&self, mirror: &Path) -> Result<Option<MirrorLock>, GitError> {
        let Ok(cache) = self.remote_cache(mirror).try_lock_owned() else { return Ok(None) };
        let lock = lock_file(mirror)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(MirrorLock { cache, _lock: lock })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(disk(mirror)(error.into())),
        }
    }

    /// Waits for the lock: one holder per mirror, in this process and on this host.
    pub(crate) async fn lock(&self, mirror: &Path) -> Result<MirrorLock, GitError> {
        let cache = self.remote_cache(mirror).lock_owned().await;
        let (path, lock) = (mirror.with_extension("lock"), lock_file(mirror)?);
        let locked =
            tokio::task::spawn_blocking(move || flock(&lock, FlockOperation::LockExclusive).map(|()| lock)).await;
        let interrupted = || Err(rustix::io::Errno::INTR);
        let lock = locked.unwrap_or_else(|_| interrupted()).map_err(|error| disk(&path)(error.into()))?;
        Ok(MirrorLock { cache, _lock: lock })
    }

    pub(crate) async fn prepare(&self, mirror: &Path, url: &RepositoryUrl) -> Result<(), GitError> {
        if mirror.join("HEAD").exists() {
            return Ok(());
        }
        // A mirror that a crash left incomplete has no HEAD; start again.
        if mirror.exists() {
            fs::remove_dir_all(mirror).map_err(disk(mirror))?;
        }
        for directory in ["objects/pack", "objects/info", "refs/heads", "refs/tags", "refs/stead", "notes"] {
            let path = mirror.join(directory);
            fs::create_dir_all(&path).map_err(disk(&path))?;
        }
        let config = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";
        for (name, text) in [("config", config), ("url", url.as_str()), ("HEAD", "ref: refs/heads/none\n")] {
            let path = mirror.join(name);
            fs::write(&path, text).map_err(disk(&path))?;
        }
        Ok(())
    }

    pub(crate) async fn fetch(
        &self,
        mirror: &Path,
        source: &Source,
        target: &Target,
        wanted: Depth,
        watch: &dyn Watch,
    ) -> Result<Depth, GitError> {
        let remote = Remote::find(self.settings(), self.directory(), source).await?;
        let reached = fs::read_to_string(mirror.join("depth")).ok().and_then(|text| Depth::read(&text));
        let depth = reached.map_or(wanted, |reached| reached.max(wanted));
        let tip = target.branch.as_ref().map(|branch| mirror.join("refs/heads").join(branch));
        // Continue a known branch from its last commit, so that the history between the two is
        // complete.
        let continued = reached == Some(depth) && tip.is_some_and(|tip| tip.exists());
        clear_left(mirror);
        let packs_before = packs(mirror);
        let mark = format!("refs/stead/{}/{}", depth.text(), target.commit);
        let mut refspecs = vec![format!("+{}:{mark}", target.commit)];
        refspecs.extend(target.branch.as_ref().map(|branch| format!("+{}:refs/heads/{branch}", target.commit)));
        let trace = PacketTrace::new(self.directory())?;
        let fetched = remote.run_git("fetch", Purpose::Fetch, watch, |git| {
            let git = trace.of(git).on(mirror).setting("fetch.unpackLimit=1").args([
                "fetch",
                "--no-tags",
                "--no-write-fetch-head",
                "--progress",
                "--refmap=",
            ]);
            let git = match (depth, reached) {
                (Depth::Commits(count), _) if !continued => git.arg(format!("--depth={count}")),
                (Depth::Whole, Some(Depth::Commits(_))) => git.arg("--unshallow"),
                _ => git,
            };
            git.args(["--end-of-options", remote.url()]).args(&refspecs)
        });
        let fetched = fetched.await;
        // A host may list its branches with the smart protocol and then offer plain files.
        if remote.is_http() && trace.is_empty()? && (has_loose_objects(mirror) || packs(mirror) != packs_before) {
            discard(mirror)?;
            return Err(remote.dumb());
        }
        fetched.map_err(|error| missing(error, target))?;
        fs::write(mirror.join("depth"), depth.text()).map_err(disk(mirror))?;
        let packs = packs(mirror);
        if let (true, [pack]) = (packs_before.is_empty(), packs.as_slice()) {
            // The only pack of the mirror holds this commit and nothing else, so a checkout can use
            // it unchanged. Keep its shallow boundary next to it, because a later fetch may move
            // the mirror's.
            let ends = fs::read_to_string(mirror.join("shallow")).unwrap_or_default();
            for (ending, text) in [("shallow", &ends), ("pack", pack)] {
                let note = mirror.join("notes").join(format!("{}.{ending}", target.commit));
                fs::write(&note, text).map_err(disk(&note))?;
            }
        }
        Ok(depth)
    }
}

/// The lock file is next to the mirror and outlives it, so that no process locks a deleted file.
fn lock_file(mirror: &Path) -> Result<File, GitError> {
    let path = mirror.with_extension("lock");
    File::options().create(true).truncate(false).write(true).open(&path).map_err(disk(&path))
}

/// The names of a mirror's packs, without extensions.
pub(crate) fn packs(mirror: &Path) -> Vec<String> {
    let entries = fs::read_dir(mirror.join("objects/pack")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".pack").map(str::to_owned)).collect()
}

/// Returns true if a mirror has objects outside packs. A fetch with the smart protocol makes none.
fn has_loose_objects(mirror: &Path) -> bool {
    let entries = fs::read_dir(mirror.join("objects")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| name.len() == 2)
}

/// Removes a mirror with objects that git did not check. The next fetch makes it again.
fn discard(mirror: &Path) -> Result<(), GitError> {
    // Without HEAD the mirror is incomplete, also if the removal is interrupted.
    fs::remove_file(mirror.join("HEAD")).map_err(disk(mirror))?;
    fs::remove_dir_all(mirror).map_err(disk(mirror))
}

/// Returns true if a mirror has a commit with at least this much history. The fetch itself writes
/// these refs once it is complete.
pub(crate) fn has(mirror: &Path, commit: &str, wanted: Depth) -> bool {
    let marks = fs::read_dir(mirror.join("refs/stead")).into_iter().flatten().flatten();
    marks
        .filter(|entry| entry.file_name().to_str().and_then(Depth::read).is_some_and(|depth| depth >= wanted))
        .any(|entry| entry.path().join(commit).exists())
}

/// Converts the error for a commit that the remote does not have.
fn missing(error: GitError, target: &Target) -> GitError {
    match error {
        GitError::Failed { cause: Some(Cause::MissingRef), .. } => {
            GitError::MissingRef { reference: target.commit.clone() }
        }
        other => other,
    }
}

/// The exclusive lock of a mirror: a mutex in this process, and a file lock on this host.
pub(crate) struct MirrorLock {
    pub(crate) cache: OwnedMutexGuard<RemoteCache>,
    _lock: File,
}

impl MirrorLock {
    /// Drops the cached commits of branches.
    pub(crate) fn forget(&mut self) {
        self.cache.forget();
    }
}
