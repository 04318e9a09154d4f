//! Runs blocking work on a blocking thread.

use crate::error::GitError;

pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, GitError> {
    let interrupted =
        |_| GitError::Failed { doing: "finish its work", reason: "the work was interrupted".to_owned(), cause: None };
    tokio::task::spawn_blocking(work).await.map_err(interrupted)
}
