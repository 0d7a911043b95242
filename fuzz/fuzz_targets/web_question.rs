#![no_main]
//! Any text as a question of the page about a small result: views, groups, filters, limits, files.

use std::sync::OnceLock;

use fathom_fuzz::complete_result;
use libfuzzer_sys::fuzz_target;
use web::{Site, Subject};

fuzz_target!(|question: &str| {
    static SITE: OnceLock<Site<'static>> = OnceLock::new();
    let site = SITE.get_or_init(|| {
        let recording = store::open(complete_result()).expect("the result opens").recording;
        Site::new(Box::leak(Box::new(recording)), "result", Vec::new(), &|_| None)
    });
    std::hint::black_box(site.answer(question).is_ok());
});
