//! Schemas of `stead_core::policy` and `stead_core::repository`.

use serde_json::{Value, json};
use stead_core::policy::{MountMode, PolicyKind};

use super::{MAX_WHOLE, free_text, named, object, or_null, whole, words};

/// Rejects text that git could read as an option, a helper program or a credential. `://` may only
/// follow the scheme.
pub(super) const URL: &str = concat!(
    r"^(?!/.*://)(?![A-Za-z0-9._-]+@.*://)",
    r"(https?://[^-/@\s\u0000-\u001f\u007f-\u009f][^/@\s\u0000-\u001f\u007f-\u009f]*(/[^\s\u0000-\u001f\u007f-\u009f]*)?",
    r"|ssh://(@|[^-/:\s\u0000-\u001f\u007f-\u009f][^/:\s\u0000-\u001f\u007f-\u009f]*@)?",
    r"[^-/@\s\u0000-\u001f\u007f-\u009f][^/@\s\u0000-\u001f\u007f-\u009f]*(/[^\s\u0000-\u001f\u007f-\u009f]*)?",
    r"|(file://)?/[^\s\u0000-\u001f\u007f-\u009f]*",
    r"|[A-Za-z0-9._][A-Za-z0-9._-]*@[A-Za-z0-9._][A-Za-z0-9._-]*:[^:\-\s\u0000-\u001f\u007f-\u009f][^\s\u0000-\u001f\u007f-\u009f]*)$",
);

/// The rules of `git check-ref-format --branch`.
pub(super) const GIT_REF: &str = concat!(
    r"^(?!-)(?!@$)(?!.*\.\.)(?!.*@\{)(?!.*\.lock/)(?!.*\.lock$)(?!\.)(?!.*/\.)(?!.*\.$)(?!/)(?!.*//)(?!.*/$)",
    r"[^\u0000-\u0020\u007f-\u009f~^:?*\[\\]+$",
);

const DIGEST: &str = "^sha256:[0-9a-f]{64}$";
pub(super) const HOST_PATH: &str = "^/[^\\u0000]*$";

fn host_path() -> Value {
    json!({"type": "string", "pattern": HOST_PATH, "maxLength": 4096, "description": "An absolute path on the host."})
}

fn digest() -> Value {
    json!({"type": "string", "pattern": DIGEST})
}

fn kind(kind: PolicyKind) -> Value {
    json!({"type": "string", "const": kind.as_str()})
}

pub(super) fn workspace_policy() -> Value {
    let git = object(
        &["type", "url"],
        json!({
            "type": kind(PolicyKind::Git), "url": named("RepositoryUrl"),
            "ref": or_null(named("GitRef")), "depth": or_null(whole(1, MAX_WHOLE)),
        }),
    );
    let modes = words(MountMode::ALL.iter().map(|mode| mode.as_str()));
    let mount = object(
        &["type", "host_path"],
        json!({"type": kind(PolicyKind::Mount), "host_path": host_path(), "mode": or_null(modes)}),
    );
    let source = json!({"oneOf": [
        object(&["blob"], json!({"blob": digest()})),
        object(&["path"], json!({"path": host_path()})),
        object(&["content"], json!({"content": free_text(0, None)})),
    ]});
    let bundle = object(
        &["type", "source"],
        json!({"type": kind(PolicyKind::Bundle), "source": source, "digest": or_null(digest())}),
    );
    let empty = object(&["type"], json!({"type": kind(PolicyKind::Empty)}));
    json!({
        "description": "Source of a workspace's files: a word, or an object with its settings.",
        "oneOf": [words(PolicyKind::ALL.iter().map(|kind| kind.as_str())), git, mount, empty, bundle],
    })
}
