#![no_main]
//! Any text as the layout of a record: what parses comes back from its own text, and its words lie in the record.

use libfuzzer_sys::fuzz_target;
use x86::translate::RecordLayout;

fuzz_target!(|text: &str| {
    let Ok(layout) = text.parse::<RecordLayout>() else { return };
    assert!(layout.values.iter().all(|value| value.word + value.words <= layout.words));
    let again = layout.to_string().parse::<RecordLayout>();
    assert_eq!(again.as_ref(), Ok(&layout), "{text}");
});
