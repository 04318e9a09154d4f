//! The projects that uploaded a blob.
//!
//! A reference is no proof that a project may read a blob: an agent can write any hash into its
//! journal. Only an upload is.

use stead_core::{ContentHash, Name};

use crate::database::operation::Operation;
use crate::database::sql::{Conn, values};
use crate::error::StoreError;

pub(crate) struct RecordUpload {
    pub(crate) project: Name,
    pub(crate) hash: ContentHash,
}

impl Operation for RecordUpload {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        conn.execute(
            "record an upload",
            "INSERT INTO blob_uploads (project, digest) VALUES ($1, $2) ON CONFLICT (project, digest) DO NOTHING",
            values![self.project.to_string(), self.hash.to_string()],
        )
        .await
        .map(drop)
    }
}

pub(crate) async fn uploaded(conn: &mut Conn<'_>, project: &Name, hash: &ContentHash) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM blob_uploads WHERE project = $1 AND digest = $2";
    let row: Option<(i32,)> =
        conn.optional("look for an upload", sql, values![project.to_string(), hash.to_string()]).await?;
    Ok(row.is_some())
}

/// Forgets the uploads of a project that is deleted.
pub(crate) struct ForgetUploads(pub(crate) String);

impl Operation for ForgetUploads {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let sql = "DELETE FROM blob_uploads WHERE project = $1";
        conn.execute("forget uploads", sql, values![self.0.clone()]).await.map(drop)
    }
}
