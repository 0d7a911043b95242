//! The table of `fathom try` against its golden text.

use analysis::trial::{Round, effect};
use report::trials::{Trials, Tried, trials};

fn tried(name: &str, factor: f64, trouble: Option<&str>) -> Tried {
    let noise = |n: usize| 1.0 + 0.001 * (n % 3) as f64;
    let rounds = (0..9).map(|n| Round { plain: 2.0, changed: 2.0 * factor * noise(n) });
    let rounds: Vec<Round> = rounds.collect();
    Tried {
        name: name.to_owned(),
        what: "something".to_owned(),
        times: rounds.iter().map(|round| round.changed).collect(),
        effect: effect(&rounds, 3),
        trouble: trouble.map(str::to_owned),
        line: format!("{}=1", name.to_uppercase()),
    }
}

#[test]
fn what_helped_comes_with_its_line() {
    let not_tried = [("a", "no"), ("b", "other"), ("c", "no")];
    let not_tried = not_tried.map(|(name, why)| (name.to_owned(), why.to_owned()));
    let document = trials(&Trials {
        command: vec!["./solver".to_owned(), "input".to_owned()],
        plain: vec![2.0; 9],
        tried: vec![
            tried("wrong", 0.5, Some("prints something else")),
            tried("pages", 0.7, None),
            tried("same", 1.0, None),
            tried("worse", 1.2, None),
        ],
        not_tried: not_tried.to_vec(),
        notes: vec!["A remark.".to_owned()],
    });
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/");
    testkit::golden::check(format!("{golden}try.txt"), &document.text(100, false));
    testkit::golden::check(format!("{golden}try.csv"), &document.csv());
}
