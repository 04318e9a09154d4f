//! Fetches the contents of a commit's pointers into the store next to the mirror.
//!
//! Only one fetch per repository runs at a time, so that later callers find the objects of earlier
//! ones. One missing object fails the whole fetch, because the caller needs all of them. Fetched
//! objects stay for the next attempt.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stead_core::remote::Address;
use tokio::task::JoinSet;
use ureq::http::StatusCode;

use super::batch::{Action, Actions, BatchRequest, BatchResponse, Due, MOST_OBJECTS, Operation, Refusal};
use super::client::LfsClient;
use super::files::{Files, LfsFile};
use super::objects::{Objects, Tally, Untrue};
use super::pointer::Pointer;
use crate::blocking::blocking;
use crate::checkout::Checkout;
use crate::error::{GitError, disk};
use crate::local::LocalRepository;
use crate::mirror::{MirrorLock, Mirrors, Resolved, Source};
use crate::remote::progress::Progress;
use crate::remote::{Purpose, Watch};

/// Maximum number of parallel transfers.
const AT_ONCE: usize = 4;
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// An object for a repository that is already in a workspace.
pub struct LfsObject {
    /// Path of the object in the workspace.
    pub workspace_path: String,
    pub size: u64,
    path: PathBuf,
}

impl LfsObject {
    pub fn open(&self) -> Result<File, GitError> {
        File::open(&self.path).map_err(disk(&self.path))
    }
}

impl Mirrors {
    /// Fetches the contents of a commit's Git LFS files.
    pub async fn lfs_objects(
        &self,
        source: &Source,
        resolved: &Resolved,
        watch: &dyn Watch,
    ) -> Result<Vec<LfsObject>, GitError> {
        let files = self.download_lfs(source, resolved, watch).await?;
        let object = |file: &LfsFile| {
            let Pointer { oid, size } = &file.pointer;
            LfsObject { workspace_path: oid.workspace_path(), size: *size, path: files.objects.path(oid) }
        };
        Ok(files.distinct().into_iter().map(object).collect())
    }

    /// Fetches the contents of Git LFS files for a checkout of a source and its submodules, and
    /// returns the checkout with them.
    pub async fn with_lfs(
        &self,
        mut checkout: Checkout,
        source: &Source,
        watch: &dyn Watch,
    ) -> Result<Checkout, GitError> {
        let of_this = Source { url: checkout.url.clone(), ..source.clone() };
        checkout.lfs = Some(self.download_lfs(&of_this, &checkout.resolved, watch).await?);
        for submodule in &mut checkout.submodules {
            let inner = Box::pin(self.with_lfs(submodule.checkout.clone(), source, watch)).await?;
            submodule.checkout = inner;
        }
        Ok(checkout)
    }

    /// Returns the Git LFS files of a commit in the mirror, after fetching their contents.
    pub(crate) async fn download_lfs(
        &self,
        source: &Source,
        resolved: &Resolved,
        watch: &dyn Watch,
    ) -> Result<Files, GitError> {
        let objects = Objects::of(&resolved.mirror);
        let _lock = self.lock_lfs(&resolved.mirror, watch).await?;
        objects.prepare()?;
        let files = Files { files: self.lfs_files(resolved, &objects).await?, objects };
        let missing: Vec<LfsFile> =
            files.distinct().into_iter().filter(|file| !files.objects.has(&file.pointer)).cloned().collect();
        self.judge(&files, &missing)?;
        if missing.is_empty() {
            return Ok(files);
        }
        let tally = Arc::new(Tally::default());
        // Dropped with this future, which stops the running transfers.
        let _waiting = Waiting(tally.clone());
        let work = async {
            match source.gate.judge(&source.url)? {
                Address::Local { path } => {
                    let roots = source.gate.roots.clone();
                    let repository = blocking(move || LocalRepository::open(&path, &roots)).await??;
                    copy_local(Arc::new(repository), &missing, &files.objects, &tally).await
                }
                _ => self.download(source, resolved, &missing, &files.objects, &tally, watch).await,
            }
        };
        with_progress(work, &missing, &tally, watch).await?;
        Ok(files)
    }

    async fn lock_lfs(&self, mirror: &Path, watch: &dyn Watch) -> Result<MirrorLock, GitError> {
        let name = mirror.with_extension("lfs.git");
        if self.is_busy(&name) {
            let detail = "for another session's Git LFS files of the same repository".to_owned();
            watch.progress(Progress { stage: "Waiting".to_owned(), percent: 0, detail });
        }
        self.lock(&name).await
    }

    /// Checks the sizes before any request: the size in a pointer is an untrusted claim.
    fn judge(&self, files: &Files, missing: &[LfsFile]) -> Result<(), GitError> {
        let settings = self.settings();
        if files.files.iter().any(|file| file.pointer.size > settings.most_bytes) {
            return Err(GitError::TooLarge { limit: settings.most_bytes });
        }
        if files.bytes() > settings.most_checkout {
            return Err(GitError::CheckoutTooLarge { limit: settings.most_checkout });
        }
        files.objects.weigh(missing.iter().fold(0, |sum, file| sum.saturating_add(file.pointer.size)))
    }

    async fn download(
        &self,
        source: &Source,
        resolved: &Resolved,
        missing: &[LfsFile],
        objects: &Objects,
        tally: &Arc<Tally>,
        watch: &dyn Watch,
    ) -> Result<(), GitError> {
        let client = LfsClient::open(self.settings(), source, Purpose::Fetch, watch).await?;
        for files in missing.chunks(MOST_OBJECTS) {
            self.touch(&resolved.mirror);
            let pointers: Vec<_> = files.iter().map(|file| file.pointer.clone()).collect();
            let request = BatchRequest::new(Operation::Download, resolved.branch.as_deref(), &pointers);
            let mut response = client.batch(&request).await?;
            let mut transfers = Vec::new();
            for file in files {
                let nowhere = || file.missing("the LFS server gives no download URL");
                let action = due(&client, file, &mut response)?.download.ok_or_else(nowhere)?;
                let client = client.clone();
                let (file, objects, tally) = (file.clone(), objects.clone(), tally.clone());
                transfers.push(Transfer { client, action, file, objects, tally });
            }
            run_all(transfers).await?;
        }
        Ok(())
    }
}

/// Returns the actions for a file, or the reason why there are none.
pub(super) fn due(client: &LfsClient, file: &LfsFile, response: &mut BatchResponse) -> Result<Actions, GitError> {
    match response.due(&file.pointer) {
        Due::Actions(actions) => Ok(actions),
        Due::Refused(Refusal { code, message }) => {
            Err(file.missing(&format!("the LFS server answers {code}: {}", client.message(&message))))
        }
        Due::Unmentioned => Err(file.missing("the LFS server does not speak of it")),
    }
}

/// A running transfer of one object.
struct Transfer {
    client: Arc<LfsClient>,
    action: Action,
    file: LfsFile,
    objects: Objects,
    tally: Arc<Tally>,
}

/// Runs a few transfers at a time; the first failure cancels the others.
async fn run_all(transfers: Vec<Transfer>) -> Result<(), GitError> {
    let (mut pending, mut running) = (transfers.into_iter(), JoinSet::new());
    loop {
        while running.len() < AT_ONCE
            && let Some(transfer) = pending.next()
        {
            running.spawn(transfer.run());
        }
        let interrupted = |_| Err(GitError::Lfs { reason: "the work was interrupted".to_owned() });
        match running.join_next().await {
            Some(result) => result.unwrap_or_else(interrupted)?,
            None => return Ok(()),
        }
    }
}

impl Transfer {
    /// Retries after failures that may be transient.
    async fn run(self) -> Result<(), GitError> {
        let mut patience = self.client.patience();
        loop {
            match self.once().await {
                Err(error) if patience.again(&error).await => {}
                result => return result,
            }
        }
    }

    async fn once(&self) -> Result<(), GitError> {
        let response = self.client.get(&self.action).await?;
        let status = response.status();
        if status != StatusCode::OK {
            let refused = self.client.refused("the host that keeps it", response).await;
            return Err(match status {
                StatusCode::NOT_FOUND | StatusCode::GONE => self.file.missing(&refused.sentence()),
                _ => refused,
            });
        }
        let (objects, pointer, tally) = (self.objects.clone(), self.file.pointer.clone(), self.tally.clone());
        let taken = blocking(move || objects.take(&pointer, response.into_body().into_reader(), &tally)).await?;
        taken.map_err(|untrue| why(untrue, &self.file, Some(self.client.host())))?;
        self.tally.objects.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Converts a rejected content to an error. Truncated content from a host may be retried.
pub(super) fn why(untrue: Untrue, file: &LfsFile, from: Option<String>) -> GitError {
    let corrupt = |reason: String| GitError::LfsCorrupt { path: file.shown(), reason };
    let size = file.pointer.size;
    match (untrue, from) {
        (Untrue::Short { bytes }, Some(host)) => {
            let reason = format!("the content of {} ended after {bytes} of {size} bytes", file.shown());
            GitError::Unreachable { host, reason }
        }
        (Untrue::Short { bytes }, None) => corrupt(format!("it has {bytes} bytes, and not {size}")),
        (Untrue::Long, _) => corrupt(format!("it has more than {size} bytes")),
        (Untrue::Hash { found }, _) => corrupt(format!("its SHA-256 is {found}, and not {}", file.pointer.oid)),
        (Untrue::Stopped, _) => GitError::Lfs { reason: "the download was cancelled".to_owned() },
        (Untrue::NoRoom { free }, _) => GitError::NoSpace { needed: size, free },
        (Untrue::Io(error), Some(host)) => {
            GitError::Unreachable { host, reason: format!("the content of {} broke off: {error}", file.shown()) }
        }
        (Untrue::Io(error), None) => disk(&file.to_path())(error),
    }
}

/// Copies objects from a repository on this machine, from the directory that git-lfs uses.
async fn copy_local(
    repository: Arc<LocalRepository>,
    missing: &[LfsFile],
    objects: &Objects,
    tally: &Arc<Tally>,
) -> Result<(), GitError> {
    for file in missing {
        let (repository, objects, wanted, counted) = (repository.clone(), objects.clone(), file.clone(), tally.clone());
        let copied = blocking(move || {
            let absent = |_| wanted.missing("the repository on this machine does not have it in its lfs/objects");
            let found = repository.lfs_object(&PathBuf::from(wanted.pointer.oid.path())).map_err(absent)?;
            objects.take(&wanted.pointer, found, &counted).map_err(|untrue| why(untrue, &wanted, None))
        });
        copied.await??;
        tally.objects.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Reports progress at intervals.
async fn with_progress<T>(
    work: impl Future<Output = Result<T, GitError>>,
    missing: &[LfsFile],
    tally: &Tally,
    watch: &dyn Watch,
) -> Result<T, GitError> {
    let all = missing.iter().fold(0_u64, |sum, file| sum.saturating_add(file.pointer.size)).max(1);
    let report = || {
        let (bytes, objects) = (tally.bytes.load(Ordering::Relaxed), tally.objects.load(Ordering::Relaxed));
        let percent = u8::try_from((u128::from(bytes) * 100 / u128::from(all)).min(100)).unwrap_or(100);
        let detail = format!("({objects}/{}), {:.1} MiB", missing.len(), bytes as f64 / f64::from(1 << 20));
        watch.progress(Progress { stage: "Receiving Git LFS objects".to_owned(), percent, detail });
    };
    let mut work = std::pin::pin!(work);
    let mut clock = tokio::time::interval(REPORT_INTERVAL);
    loop {
        tokio::select! {
            result = &mut work => {
                report();
                return result;
            }
            _ = clock.tick() => report(),
        }
    }
}

/// Stops the running transfers when the caller stops waiting.
struct Waiting(Arc<Tally>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }
}
