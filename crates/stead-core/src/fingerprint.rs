//! Whether two workspaces were provisioned alike: the same configuration, and the same content brought in.
//!
//! What was done in a workspace since is not in it; the tree's hash tells that.

use serde_json::json;

use crate::canonical;
use crate::session::Session;

impl Session {
    /// Equal for equal; different with every field that shapes the workspace and with every byte that mounts, bundles and
    /// checkouts brought. `None` without a workspace.
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
        Some(canonical::hash(&brought))
    }
}
