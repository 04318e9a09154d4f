//! The first bytes of a TLS connection. The verdict does not depend on how they are cut, and bytes
//! after the message change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stead_egress::client_hello::{Read, read};

fuzz_target!(|input: &[u8]| {
    let whole = read(input);
    // A decision on some first bytes stays the decision on all of them.
    for end in [input.len() / 2, input.len().saturating_sub(1)] {
        match read(&input[..end]) {
            Read::More => {}
            decided => assert_eq!(decided, whole),
        }
    }
    if let Read::Hello { bytes, name } = &whole {
        assert!(*bytes <= input.len());
        assert_eq!(read(&input[..*bytes]), whole);
        assert!(!name.as_str().is_empty() && name.as_str().len() <= 253);
    }
});
