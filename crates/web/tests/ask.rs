//! SQL in the page, in real Chromium: `tests/ui/ask.mjs` asks it, once in a file and once served.

#[allow(
    dead_code,
    unused_imports,
    reason = "the recordings of report's golden tests; here one of them is used"
)]
#[path = "../../report/tests/recordings/mod.rs"]
mod recordings;
mod support;

use facts::Recording;
use serde_json::{Value, json};

use self::support::click_through;

/// As `store` has them; what it does with a recording is its own test.
fn facts_of(table: Option<&str>, _most: usize) -> Option<Value> {
    match table {
        None => Some(json!({ "tables": [{ "name": "samples", "rows": 7 }] })),
        Some("samples") => Some(json!({
            "columns": ["time_ns", "pid", "tid", "cpu", "weight_ns", "stack", "privilege"],
            "rows": [[5, 1, 1, null, 1000, 0, "user"], [9, 1, 2, 0, 1000, null, "kernel"]],
            "all": 7,
        })),
        Some(_) => None,
    }
}

#[test]
fn a_file_answers_sql() {
    let recording = recordings::waited();
    let page = web::page(&web::Site::new(&recording, "r000ma", Vec::new(), &|_| None));
    let file = std::env::temp_dir().join(format!("fathom-ask-{}.html", std::process::id()));
    std::fs::write(&file, &page).expect("a writable temporary folder");
    click_through("ask.mjs", &format!("file://{}", file.display()), &[]);
    std::fs::remove_file(&file).expect("our own file");
}

#[test]
fn a_server_answers_sql() {
    let recording: &'static Recording = Box::leak(Box::new(recordings::waited()));
    let server: &'static web::Server =
        Box::leak(Box::new(web::Server::bind(0).expect("a free port")));
    let address = server.address();
    std::thread::spawn(move || {
        let site = web::Site::new(recording, "r000ma", Vec::new(), &|_| None);
        server.serve(&site.with_facts(&facts_of));
    });
    click_through("ask.mjs", &address, &[]);
}

/// The engine is a third of an ordinary page: one that is large already does without, and says so.
#[test]
fn a_large_file_has_no_engine_and_says_so() {
    let recording = Recording::default();
    let page =
        |problem: String| web::page(&web::Site::new(&recording, "r", vec![problem], &|_| None));
    let small = page(String::new());
    assert!(small.contains("{\"engine\":\"") && small.len() <= 1_500_000, "{}", small.len());
    let large = page("x".repeat(5_400_000));
    assert!(!large.contains("{\"engine\":\"") && large.len() <= 6_000_000, "{}", large.len());
    assert!(large.contains("this file has no SQL engine: with it, it would have more than 6 MB"));
}
