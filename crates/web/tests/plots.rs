//! Compare, Scaling, Roofline, Memory objects and the assembly in real Chromium, on figures that are known:
//! `tests/ui/plots.mjs` clicks through them, once in a file and once served; `spectra.mjs` and `roofline.mjs` on tables by hand.

#[allow(
    dead_code,
    unused_imports,
    reason = "the recordings of report's golden tests; here two of them are used"
)]
#[path = "../../report/tests/recordings/mod.rs"]
mod recordings;
mod support;

use base::{FileOffset, Nanos, Pid, StackId, Tid};
use facts::{Privilege, Recording, Sample, StackNode};
use report::diff::{DiffOptions, RunFigures};
use report::{Diff, Document, Options, View};

use web::Subject;

use self::support::click_through;

/// The recording with objects of every kind, with samples in its three functions: `blends` in the first.
fn recording(blends: u64) -> Recording {
    let mut recording = recordings::objects();
    recording.run.calibration = recordings::triad().run.calibration;
    let tree = |module: &&facts::Module| module.path == "/home/user/tree";
    let module = recording.modules.iter().find(tree).expect("the program").id;
    for (offset, count) in [(0x1000, blends), (0x3000, 300), (0x5000, 200)] {
        let id = StackId(recording.stack_nodes.len() as u32);
        let offset = FileOffset(offset);
        let node = StackNode { id, parent: None, module, offset, truncated: false };
        recording.stack_nodes.push(node);
        recording.samples.extend((0..count).map(|at| Sample {
            time: Nanos(at * 1_000_000),
            pid: Pid(7),
            tid: Tid(7),
            cpu: None,
            weight: Nanos(1_000_000),
            stack: Some(id),
            privilege: Privilege::User,
        }));
    }
    recording
}

fn compared(base: &Recording, new: &Recording) -> Document {
    let table = Options { view: View::Hotspots, ..Options::default() };
    let options = DiffOptions::new(table, None).expect("a view that can be compared");
    let figures = |recording, name| [RunFigures::of(recording, name, &options).expect("figures")];
    let (base, new) = (figures(base, "base"), figures(new, "r000ma"));
    Document::Diff(Box::new(Diff::new(&base, &new, &options, &[], None).expect("a diff")))
}

fn site<'a>(base: &Recording, recording: &'a Recording) -> web::Site<'a> {
    let diff = compared(base, recording);
    let sweep = include_str!("../../report/tests/golden/scale.json");
    let site = web::Site::new(recording, "r000ma", Vec::new(), &|_| None);
    site.comparing(&diff, &web::ComparedResult::Base(base))
        .expect("stacks")
        .scaling(sweep)
        .expect("a sweep")
}

#[test]
fn a_file_shows_known_figures() {
    let (base, recording) = (recording(700), recording(500));
    let page = web::page(&site(&base, &recording));
    let file = std::env::temp_dir().join(format!("fathom-plots-{}.html", std::process::id()));
    std::fs::write(&file, &page).expect("a writable temporary folder");
    click_through("plots.mjs", &format!("file://{}", file.display()), &[]);
    std::fs::remove_file(&file).expect("our own file");
}

/// Clicks through a file of the page of one recording.
fn click_through_a_file(script: &str) {
    let recording = recording(500);
    let page = web::page(&web::Site::new(&recording, "r000ma", Vec::new(), &|_| None));
    let file = std::env::temp_dir().join(format!("fathom-{script}-{}.html", std::process::id()));
    std::fs::write(&file, &page).expect("a writable temporary folder");
    click_through(script, &format!("file://{}", file.display()), &[]);
    std::fs::remove_file(&file).expect("our own file");
}

#[test]
fn names_in_a_roofline_cover_nothing() {
    click_through_a_file("roofline.mjs");
}

#[test]
fn a_spectrum_of_reuse_and_a_suggested_order_follow_from_their_tables() {
    click_through_a_file("spectra.mjs");
}

#[test]
fn every_view_fits_into_every_width_in_light_and_dark() {
    let (base, recording) = (recording(700), recording(500));
    let page = web::page(&site(&base, &recording));
    let file = std::env::temp_dir().join(format!("fathom-layout-{}.html", std::process::id()));
    std::fs::write(&file, &page).expect("a writable temporary folder");
    click_through("layout.mjs", &format!("file://{}", file.display()), &[]);
    std::fs::remove_file(&file).expect("our own file");
}

#[test]
fn a_server_shows_known_figures() {
    let recordings: &'static [Recording; 2] = Box::leak(Box::new([recording(700), recording(500)]));
    let server: &'static web::Server =
        Box::leak(Box::new(web::Server::bind(0).expect("a free port")));
    let address = server.address();
    std::thread::spawn(move || {
        server.serve(&site(&recordings[0], &recordings[1]));
    });
    click_through("plots.mjs", &address, &[]);
}

#[test]
fn parts_of_a_long_table_are_its_rows_in_order() {
    let recording = recording(500);
    let site = web::Site::new(&recording, "r000ma", Vec::new(), &|_| None);
    let ask = |question: &str| -> serde_json::Value {
        serde_json::from_str(&site.answer(question).expect("an answer")).expect("JSON")
    };
    let names = |table: &serde_json::Value| -> Vec<String> {
        let rows = table["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["object"].as_str().expect("a name").to_owned()).collect()
    };
    let whole = names(&ask("objects"));
    let parts: Vec<String> = (0..whole.len().div_ceil(2))
        .flat_map(|part| names(&ask(&format!("objects?count=2&from={}", part * 2))))
        .collect();
    assert_eq!(parts, whole);

    let mut sorted = whole.clone();
    sorted.sort();
    let by_name = ask("objects?count=100&sort=object");
    assert_eq!((names(&by_name), &by_name["found"]), (sorted, &serde_json::json!(whole.len())));
    let by_size = ask("objects?count=100&sort=object_bytes");
    let sizes: Vec<f64> = by_size["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["object_bytes"]["value"].as_f64())
        .collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes.len() > 2, "{sizes:?}");

    let found = ask("objects?count=100&search=GRID");
    assert_eq!((names(&found), &found["found"]), (vec!["grid".to_owned()], &serde_json::json!(1)));
    assert_eq!(names(&ask("objects?count=5&from=1000")), Vec::<String>::new());
    assert!(site.answer("objects?count=-1").is_err());
}
