//! Path rules. Fields: rule, path.
//!
//! A path that a rule matches has no part that a server could read in another way, and `/**`
//! matches every such path.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stead_core::network::{PathRule, RequestPath};
use stead_fuzz::fields;

fuzz_target!(|input: &[u8]| {
    let [rule, path] = fields::<2>(input);
    let (Ok(rule), Ok(path)) = (std::str::from_utf8(rule), std::str::from_utf8(path)) else { return };
    let parsed = RequestPath::read(path);
    if let Ok(parsed) = &parsed {
        let bare = path.split('?').next().unwrap_or_default();
        assert!(bare.starts_with('/') && bare.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'));
        let lower = bare.to_ascii_lowercase();
        assert!(!lower.contains("//") && !lower.contains("%5c") && !lower.contains("%00"));
        let decoded = lower.replace("%2e", ".").replace("%2f", "/");
        assert!(!decoded.split('/').any(|part| matches!(part, "." | "..")), "{path:?}");
        assert_eq!(parsed.has_encoded_slash(), lower.contains("%2f"));
        let all: PathRule = "/**".parse().expect("a rule");
        assert!(all.matches(parsed), "{path:?}");
    }
    let Ok(rule) = rule.parse::<PathRule>() else { return };
    assert_eq!(rule.as_str().parse::<PathRule>().as_ref(), Ok(&rule), "a rule has one spelling");
    if let Ok(parsed) = &parsed
        && rule.matches(parsed)
        && !rule.as_str().contains('*')
    {
        assert_eq!(RequestPath::read(rule.as_str()).as_ref(), Ok(parsed), "{rule} {path:?}");
    }
});
