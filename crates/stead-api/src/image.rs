//! An imported image.

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use stead_core::image::ImageName;
use utoipa::ToSchema;

use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Image {
    #[schema(value_type = schema::ImageName)]
    pub name: ImageName,
    /// Of an OCI image its manifest's, of any other archive that of its bytes.
    #[schema(value_type = schema::Digest)]
    pub digest: String,
    /// Of all files together.
    pub bytes: u64,
    pub files: u64,
    /// Devices and FIFOs that the archive has and the image does not: every box has its own.
    pub left_out: u64,
    #[schema(value_type = schema::Timestamp)]
    pub imported_at: Timestamp,
}
