#![no_main]
//! Any bytes as the answer of a receiver of OTLP: whoever the user named answers.

use export::OtlpAnswer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let OtlpAnswer { message, .. } = OtlpAnswer::taken(bytes);
    for text in [message, OtlpAnswer::refused(bytes)] {
        assert!(text.chars().count() <= 300 && !text.contains(char::is_control));
    }
});
