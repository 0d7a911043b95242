//! Regions, marks and pauses in the page: `tests/ui/regions.mjs` looks at a recording whose passes are known, served and as a file.

#[allow(
    dead_code,
    unused_imports,
    reason = "the recordings of report's golden tests; here the one with regions is used"
)]
#[path = "../../report/tests/recordings/mod.rs"]
mod recordings;
mod support;

use facts::Recording;

use self::support::click_through;

#[test]
fn regions_and_marks_are_lanes_and_flags() {
    let recording: &'static Recording =
        Box::leak(Box::new(recordings::paused(recordings::triad())));
    let site = || web::Site::new(recording, "r000ma", Vec::new(), &|_| None);
    let file = std::env::temp_dir().join(format!("fathom-regions-{}.html", std::process::id()));
    std::fs::write(&file, web::page(&site())).expect("a writable temporary folder");
    click_through("regions.mjs", &format!("file://{}", file.display()), &[]);
    std::fs::remove_file(&file).expect("our own file");
    let server: &'static web::Server =
        Box::leak(Box::new(web::Server::bind(0).expect("a free port")));
    let address = server.address();
    std::thread::spawn(move || server.serve(&site()));
    click_through("regions.mjs", &address, &[]);
}
