//! `repeated-loads`: a helper that runs for each element reads the same addresses every time, and nobody writes there.
//!
//! Fires for functions all of whose loads do so (`figures::traced`). Gain: the time in the helper alone.

use super::{Draft, Figures, Proof, exactly, saved, view};

pub(super) fn judge(figures: &Figures) -> Result<Vec<Draft>, String> {
    let traced = figures.traced.as_ref().map_err(String::clone)?;
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
                "If the result does not depend on the element, call {name} once before the loop and keep the result in \
                 a local variable ({} loads repeat themselves).",
                one.loads
            ),
            gain: saved(figures, &one.time, &[&exactly(100.0)]),
            next: view("callers", &one.place),
        }
    });
    Ok(drafts.collect())
}
