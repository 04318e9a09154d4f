//! Schemas of `stead_core::digest`.

use serde_json::{Value, json};
use stead_core::digest::{BODY_CHARS, SUMMARY_CHARS};

use super::{free_text, named, object, or_null};

pub(super) fn digest_request() -> Value {
    object(
        &["body"],
        json!({
            "summary": or_null(free_text(1, Some(SUMMARY_CHARS as u64))), "body": free_text(1, Some(BODY_CHARS as u64)),
            "scope": or_null(named("DigestScope")),
        }),
    )
}

pub(super) fn generate_request() -> Value {
    object(&[], json!({"scope": or_null(named("DigestScope"))}))
}
