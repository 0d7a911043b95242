#![no_main]
//! Any bytes as a mangled name: the demanglers recurse and expand; and as source lines, of which each may name a variable.

use libfuzzer_sys::fuzz_target;
use symbols::{Demangle, assigned, function_name};

fuzz_target!(|bytes: &[u8]| {
    let name = function_name(bytes, Demangle::Yes);
    assert!(name.len() <= 64 << 10, "a name of {} bytes", name.len());
    assert!(!name.chars().any(char::is_control), "a control character in {name:?}");
    let text = String::from_utf8_lossy(bytes);
    let mut before = None;
    for line in text.lines() {
        let variable = assigned(line, before);
        assert!(
            variable.is_none_or(|name| !name.is_empty() && !name.chars().any(char::is_control))
        );
        before = Some(line);
    }
});
