//! An imported image.

use serde::Serialize;
use stead_core::Timestamp;
use stead_core::image::ImageName;
use stead_providers::ImageRecord;
use utoipa::ToSchema;

use crate::schema;

#[derive(Serialize, ToSchema)]
pub(crate) struct Image {
    #[schema(value_type = schema::ImageName)]
    name: ImageName,
    /// Of an OCI image its manifest's, of any other archive that of its bytes.
    #[schema(value_type = schema::Digest)]
    digest: String,
    /// Of all files together.
    bytes: u64,
    files: u64,
    /// Devices and FIFOs that the archive has and the image does not: every box has its own.
    left_out: u64,
    #[schema(value_type = schema::Timestamp)]
    imported_at: Timestamp,
}

impl From<ImageRecord> for Image {
    fn from(record: ImageRecord) -> Self {
        let ImageRecord { name, digest, bytes, files, left_out, imported_at, .. } = record;
        Self { name, digest: digest.to_string(), bytes, files, left_out, imported_at }
    }
}
