//! Schemas of `stead_core::policy` and `stead_core::repository`.

use serde_json::{Value, json};
use stead_core::policy::{HOST_PATH, MountMode, PolicyKind};

use super::{MAX_WHOLE, constant, described, free_text, named, object, or_null, properties, whole};

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

fn host_path() -> Value {
    json!({"type": "string", "pattern": HOST_PATH, "maxLength": 4096})
}

fn digest() -> Value {
    json!({"type": "string", "pattern": DIGEST})
}

pub(super) fn workspace_policy() -> Value {
    json!({
        "description": "Source of a workspace's files: a word, or an object with its settings.",
        "oneOf": [
            named("PolicyKind"), named("GitPolicy"), named("MountPolicy"), named("EmptyPolicy"), named("BundlePolicy"),
        ],
    })
}

/// Returns the schema of a policy with settings.
fn with_settings(description: &str, required: &[&str], kind: PolicyKind, settings: Value) -> Value {
    let mut all = properties! { "type": "Kind of the policy.", constant(kind.as_str()); };
    if let (Value::Object(all), Value::Object(settings)) = (&mut all, settings) {
        all.extend(settings);
    }
    described(description, object(required, all))
}

pub(super) fn git() -> Value {
    let settings = properties! {
        "url": "Repository to check out.", named("RepositoryUrl");
        "ref": "Branch, tag or commit. Absent for the repository's default branch.", or_null(named("GitRef"));
        "depth": "Number of commits to fetch. Absent for the whole history.", or_null(whole(1, MAX_WHOLE));
    };
    with_settings("The files of a git repository.", &["type", "url"], PolicyKind::Git, settings)
}

pub(super) fn mount() -> Value {
    let settings = properties! {
        "host_path": "Absolute path on the host, inside `allowed_host_roots`.", host_path();
        "mode": "`overlay` keeps writes in the session, `ro` refuses them, `rw` writes to the host.", or_null(named("MountMode")) => MountMode::Overlay;
    };
    with_settings("A directory of the host.", &["type", "host_path"], PolicyKind::Mount, settings)
}

pub(super) fn empty() -> Value {
    with_settings("No files.", &["type"], PolicyKind::Empty, Value::Null)
}

pub(super) fn bundle() -> Value {
    let settings = properties! {
        "source": "Where the archive is.", named("BundleSource");
        "digest": "Expected hash of the archive. A session with other bytes fails.", or_null(digest());
    };
    with_settings("The files of an archive.", &["type", "source"], PolicyKind::Bundle, settings)
}

pub(super) fn bundle_source() -> Value {
    let mut schema = object(
        &[],
        properties! {
            "blob": "Hash of a blob from `POST /blobs`.", digest();
            "path": "Absolute path on the host, inside `allowed_host_roots`.", host_path();
            "content": "Content as `name@version`.", free_text(0, None);
        },
    );
    schema["description"] = "Source of an archive: exactly one of the fields.".into();
    schema["minProperties"] = 1.into();
    schema["maxProperties"] = 1.into();
    schema
}
