#![no_main]
//! Any bytes as a mangled name: the demanglers recurse and expand.

use libfuzzer_sys::fuzz_target;
use symbols::{Demangle, function_name};

fuzz_target!(|bytes: &[u8]| {
    let name = function_name(bytes, Demangle::Yes);
    assert!(name.len() <= 64 << 10, "a name of {} bytes", name.len());
    assert!(!name.chars().any(char::is_control), "a control character in {name:?}");
});
