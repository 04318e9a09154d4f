//! The provisioning fingerprint of a workspace: a hash of its configuration and initial content.
//!
//! Later changes to the files do not affect it. The tree hash covers those.

use serde_json::json;

use crate::canonical;
use crate::session::Session;
use crate::spec::FingerprintForm;

impl Session {
    /// Hash over the workspace configuration, the image, and the bytes from mounts, bundles and
    /// checkouts.
    /// Equal fingerprints mean equally provisioned workspaces. `None` without a workspace.
    pub fn fingerprint(&self) -> Option<String> {
        let (spec, workspace) = (self.workspace_spec()?, self.workspace.as_ref()?);
        let report = &workspace.report;
        let mut brought = json!({
            "configuration": spec.fingerprint,
            "mounts": report.mount_fingerprint,
            "bundle": report.bundle.as_ref().map(|bundle| &bundle.digest),
        });
        if let Some(checkout) = &report.checkout {
            brought["commit"] = checkout.commit.clone().into();
        }
        // A clone has the digest of its source's image even if it shares the source's box.
        let digest = workspace.made.image_digest.as_ref().or(spec.image_digest.as_ref());
        if let (FingerprintForm::WithImage, Some(digest)) = (spec.fingerprint_form, digest) {
            brought["image"] = digest.clone().into();
        }
        Some(canonical::hash(&brought))
    }
}
