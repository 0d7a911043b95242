//! Changes of figures whose base is close to 0: a share of nothing is not shown.

use std::path::PathBuf;

use facts::{Evidence, Metric};

use super::pairs::Pairs;
use super::rows::{Compared, totals_table};
use crate::text;

fn simulated(value: f64, unit: &str, interval: (f64, f64)) -> Metric {
    Metric::with_interval(Evidence::Simulated, value, unit, interval, 40)
}

fn one(name: &str, base: Metric, new: Metric) -> Compared {
    Compared::new(name.to_owned(), &[base], &[new], &Pairs::default())
}

#[test]
fn a_share_of_a_residue_is_not_shown() {
    let percent = |value, interval| simulated(value, "percent", interval);
    let rows = [
        one("residue", percent(3e-14, (0.0, 4e-14)), percent(12.0, (11.0, 13.0))),
        one("residue less", percent(0.02, (0.01, 0.03)), percent(0.01, (0.0, 0.02))),
        one("in its error", percent(2.0, (0.0, 6.0)), percent(9.0, (8.0, 10.0))),
        one("no change", percent(2.0, (0.0, 6.0)), percent(2.0, (0.0, 6.0))),
        one("with a base", percent(2.0, (1.5, 2.5)), percent(9.0, (8.0, 10.0))),
        one("from 0", Metric::counted(0.0, "s"), Metric::counted(0.04, "s")),
        one("of a rate", simulated(1e-5, "GB/s", (0.0, 2e-5)), simulated(4.0, "GB/s", (3.0, 5.0))),
        one("gone", Metric::counted(1000.0, "count"), Metric::counted(0.0, "count")),
        one("one side", Metric::unavailable("s", "no"), Metric::counted(0.04, "s")),
    ];
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/diff_residue.txt");
    testkit::golden::check(
        path,
        &text::table(&totals_table(&rows, &[], &[]), 100, text::Paint { colour: false }),
    );
    let notes: Vec<_> = rows.iter().map(|row| row.change().note).collect();
    assert_eq!(notes.iter().filter(|note| note.is_some()).count(), 6, "{notes:?}");
}

#[test]
fn repeated_runs_that_scatter_around_nothing_have_no_percentage() {
    let seconds = |values: [f64; 3]| values.map(|value| Metric::counted(value, "s"));
    let row =
        |base, new| Compared::new("x".to_owned(), &seconds(base), &seconds(new), &Pairs::default());
    let scattered = row([0.0, 0.001, 0.0], [1.0, 1.1, 0.9]).change();
    assert_eq!(scattered.note.as_deref(), Some("the base is no larger than its own error"));
    assert!(row([1.0, 1.01, 0.99], [2.0, 2.1, 1.9]).change().value.is_some());
}

#[test]
fn runs_in_turn_are_compared_pairwise() {
    let seconds = |values: [f64; 5]| values.map(|value| Metric::counted(value, "s"));
    let base = seconds([1.0, 1.5, 1.0, 2.0, 1.1]);
    let new = seconds([1.101, 1.65, 1.1, 2.2, 1.21]);
    let row = |pairs: &Pairs| {
        let mut row = Compared::new("x".to_owned(), &base, &new, pairs);
        row.p = row.comparison.and_then(|comparison| comparison.p);
        row.judge(0.05);
        (row.verdict, row.change())
    };
    assert_eq!(row(&Pairs::default()).0, "no change seen");
    let (verdict, change) = row(&Pairs::in_order(5));
    assert_eq!(verdict, "more");
    let (low, high) = change.low.zip(change.high).expect("pairs have an interval");
    assert!(9.9 < low && low < 10.1 && 9.9 < high && high < 10.1, "{change:?}");
}
