//! Imported images.

use serde::{Deserialize, Serialize};
use stead_core::image::ImageName;
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::schema;

/// An imported image: a root directory for boxes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Image {
    /// Name of the image.
    #[schema(value_type = schema::ImageName)]
    pub name: ImageName,
    /// Project that the image belongs to; `null` for the platform.
    #[serde(default)]
    #[schema(value_type = Option<schema::Name>, required = true)]
    pub project: Option<Name>,
    /// Digest of the manifest for an OCI image, or hash of the archive's bytes for any other
    /// archive.
    #[schema(value_type = schema::Digest)]
    pub digest: String,
    /// Total size of all files in bytes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Number of devices and FIFOs in the archive that the import skipped. Every box has its own
    /// devices.
    pub left_out: u64,
    /// Time of the import.
    #[schema(value_type = schema::Timestamp)]
    pub imported_at: Timestamp,
}
