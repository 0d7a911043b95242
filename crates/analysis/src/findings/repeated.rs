//! `repeated-loads`: a function that is called for each element reads the same addresses every time, and nothing writes there; or
//! a loop loads the same addresses in each iteration, because the compiler cannot exclude that its stores change them.
//!
//! Fires for functions that call no others and all of whose loads do so (`figures::traced`), and for loops that were faster with
//! registers for their repeated loads, where that would have been the same program (`figures::reloads`). Not for loops in which
//! threads take lines from each other: that is the first thing to fix, and the loop was timed alone, without such conflicts.
//! Gain: the function's own time; or the time that the loop saves with registers, and at best with vectors as well.

use super::gain::judged;
use super::{Draft, Figures, NotJudged, Part, Proof, ReloadedLoop, view};

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, NotJudged> {
    let traced = figures.traced.as_ref().map_err(NotJudged::clone)?;
    let drafts = traced.repeated.iter().map(|one| {
        let name = one.place.function.as_deref().unwrap_or("a function");
        let caller = one.caller.function.as_deref().unwrap_or("its caller");
        Draft {
            title: format!("{name} reads the same addresses for each element of a loop in {caller}"),
            evidence: vec![
                Proof::new("CPU time in it alone", &one.time),
                Proof::new("runs per burst, all at the same addresses", &one.per_burst),
            ],
            // The line that asks is the one to change; the helper may be a library's.
            place: if one.caller.line.is_some() { one.caller.clone() } else { one.place.clone() },
            advice: format!(
                "If the result does not depend on the element, call {name} once before the loop and keep the \
                result in a local variable ({} loads are repeated).",
                one.loads
            ),
            gain: judged(figures, [Part::Seconds(&one.time)], |_| true, |[time]| time),
            next: view("callers", &one.place),
        }
    });
    let alone = |one: &&ReloadedLoop| !super::sharing::concerns(figures, &one.place);
    let loops = traced.reloaded.iter().filter(alone).map(|one| of_loop(figures, one));
    Ok(drafts.chain(loops).collect())
}

fn of_loop(figures: &Figures, one: &ReloadedLoop) -> Draft {
    let ReloadedLoop { place, fields, time, saved, vectors, iteration, accesses, stores } = one;
    // Such loads are also what forbids vectors, but whether nothing else does is not known.
    let vectors = Part::Assumed([*vectors, f64::midpoint(*vectors, 1.0), 1.0]);
    let parts = [Part::Seconds(time), Part::Share(saved), vectors];
    let saves = |[time, saved, left]: [f64; 3]| time * (1.0 - (1.0 - saved) * left);
    let gain = judged(figures, parts, |_| true, saves);
    let name = place.function.as_deref().unwrap_or("a function");
    let what = if fields.is_empty() { "the same places".to_owned() } else { fields.join(", ") };
    let (title, behind) = if *stores {
        (format!("a loop in {name} keeps {what} in memory"), ", and store them after it")
    } else {
        (format!("a loop in {name} loads {what} again in each iteration"), "")
    };
    Draft {
        title,
        evidence: vec![
            Proof::new("CPU time in the loop", time),
            Proof::new("share of that for these accesses", saved),
            Proof::new("an iteration with all data in L1", &iteration.0),
            Proof::new("the same with registers instead", &iteration.1),
        ],
        place: place.clone(),
        advice: format!(
            "Copy them into local variables before the loop{behind} ({accesses} instructions access the same \
             addresses in each iteration). The compiler must assume that a store of the loop may change them, \
             especially a store of bytes; for pointers, `restrict` excludes that. Do not do this for data that \
             another thread or a signal handler must see at once."
        ),
        gain,
        next: view("accesses", place),
    }
}
