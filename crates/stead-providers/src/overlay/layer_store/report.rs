//! The report of a layer's writer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stead_core::event::{BundleReport, Failure};

/// A report, kept with the layer so that every session that uses the layer gets the same one.
///
/// The variants are told apart by their fields, because that is the form of the labels on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LayerReport {
    Checkout { checkout: CheckoutWarnings },
    Bundle { bundle: BundleReport },
    Image(ImageReport),
}

/// Warnings about content that a checkout lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckoutWarnings {
    #[serde(default)]
    pub warnings: Vec<Failure>,
}

/// The files of an unpacked image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageReport {
    pub bytes: u64,
    pub files: u64,
    /// Number of devices and FIFOs that were not unpacked.
    pub left_out: u64,
    /// Environment that the image sets for every process.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

impl LayerReport {
    pub fn checkout(warnings: Vec<Failure>) -> Self {
        Self::Checkout { checkout: CheckoutWarnings { warnings } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_of_earlier_versions_are_read_as_what_they_were() {
        let read = |note| serde_json::from_value::<LayerReport>(note);
        let warning = Failure::new("lfs_left_out", "LFS files are left out");
        let checkout = json!({"checkout": {"commit": "", "fetched": false, "warnings": [json!(warning)]}});
        assert_eq!(read(checkout).unwrap(), LayerReport::checkout(vec![warning]));
        let checkout = json!({"checkout": {"commit": "", "fetched": false}});
        assert_eq!(read(checkout).unwrap(), LayerReport::checkout(Vec::new()));
        let bundle = json!({"bundle": {"digest": "sha256:00", "files": 2, "bytes": 9}});
        assert!(matches!(read(bundle), Ok(LayerReport::Bundle { bundle }) if bundle.files == 2));
        let image = json!({"bytes": 9, "files": 2, "left_out": 1, "env": {"A": "b"}});
        assert!(matches!(read(image), Ok(LayerReport::Image(image)) if image.env["A"] == "b"));
        // A label with other fields is an error.
        assert!(read(json!({})).is_err() && read(json!(null)).is_err());
    }
}
