//! The first screen of each analysis: `tests/ui/screens.mjs` looks at summaries of recordings whose figures are known.

#[allow(
    dead_code,
    unused_imports,
    reason = "the recordings of report's golden tests; here four of them are used"
)]
#[path = "../../report/tests/recordings/mod.rs"]
mod recordings;
mod support;

use facts::{Analysis, Recording};

use self::support::click_through;

fn first_screen(recording: &Recording, analysis: &str) {
    let page = web::page(&web::Site::new(recording, "r", Vec::new(), &|_| None));
    let name = format!("fathom-{analysis}-{}.html", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, &page).expect("a writable temporary folder");
    click_through("screens.mjs", &format!("file://{}", file.display()), &[analysis]);
    std::fs::remove_file(&file).expect("our own file");
}

#[test]
fn each_analysis_begins_with_what_it_is_for() {
    first_screen(&recordings::threading(), "threading");
    first_screen(&recordings::kernel(), "system-overview");
    first_screen(&recordings::heap(), "memory-consumption");
    let mut hotspots = recordings::templates();
    hotspots.run.analysis = Analysis::Hotspots;
    first_screen(&hotspots, "hotspots");
}
