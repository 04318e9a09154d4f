//! Compares `edit` with the standard library's `replace`. Input: old string, new string, content;
//! the first byte selects "replace all".
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use stead_fs::tools::{self, Call, FileTool};
use stead_fs::{ContentHash, Filesystem, Limits, MemoryFs, WriteMode};
use stead_fuzz::{fields, hash, path};

fuzz_target!(|input: &[u8]| {
    let Some((flags, input)) = input.split_first() else { return };
    let [old, new, content] = fields::<3>(input);
    let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(new)) else { return };
    // The reference below knows UTF-8 only.
    let Ok(text) = std::str::from_utf8(content) else { return };
    let mut fs = MemoryFs::new();
    let file = path("f");
    fs.write_bytes(&file, content.to_vec().into(), WriteMode::Create, 0).expect("an empty tree takes a file");
    let before = hash(&fs);
    let all = flags & 1 == 1;
    let mut arguments = json!({"path": "f", "old_string": old, "new_string": new, "replace_all": all});
    if flags & 2 == 2 {
        arguments["if_match"] = ContentHash::of(content).to_string().into();
    }
    let limits = Limits { write_chars: 64, edit_bytes: 4_096, ..Limits::default() };
    let call = Call { tool: FileTool::Edit, arguments: &arguments, limits: &limits, now_millis: 1 };
    let reply = tools::call(&mut fs, call);
    let after = fs.read_bytes(&file).expect("the file is still there");
    match (expected(text, old, new, all, &limits), reply.outcome) {
        (Ok((edited, count)), Ok(result)) => {
            assert_eq!(after, edited.as_bytes());
            assert_eq!(result["replacements"], count);
            assert_eq!(result["hash"], ContentHash::of(&after).to_string());
            let mut replayed = MemoryFs::new();
            replayed.write_bytes(&file, content.to_vec().into(), WriteMode::Create, 0).expect("the same file");
            for change in &reply.changes {
                replayed.apply(change, 1).expect("what happened can happen again");
            }
            assert_eq!(hash(&replayed), hash(&fs));
        }
        (Err(code), Err(error)) => {
            assert_eq!(error.code, code, "{}", error.message);
            assert!(reply.changes.is_empty());
            assert_eq!(hash(&fs), before, "a failed edit changed something");
        }
        (expected, outcome) => panic!("expected {expected:?}, got {outcome:?}"),
    }
});

/// A minimal reference implementation.
fn expected(text: &str, old: &str, new: &str, all: bool, limits: &Limits) -> Result<(String, usize), &'static str> {
    let long = |text: &str| text.chars().count() > limits.write_chars;
    match () {
        () if old.is_empty() => return Err("invalid_argument"),
        () if long(old) || long(new) => return Err("too_large"),
        () if new.contains('\0') => return Err("binary"),
        () if text.len() as u64 > limits.edit_bytes => return Err("too_large"),
        () => {}
    }
    if text.contains('\0') {
        return Err("binary");
    }
    let count = text.matches(old).count();
    match count {
        0 => return Err("not_found"),
        1 => {}
        _ if all => {}
        _ => return Err("ambiguous"),
    }
    let edited = text.replace(old, new);
    if edited.len() as u64 > limits.edit_bytes { Err("too_large") } else { Ok((edited, count)) }
}
