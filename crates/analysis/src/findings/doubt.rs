//! Rules that are silent only because nobody knows how long a hot loop would take without its memory.
//!
//! What for: waits of a function without a core floor lie between nothing and nearly all of its time. A rule needs their
//! low end, so it says nothing; that is no all-clear. Here every rule judges once more as if such functions waited for
//! all that they may, and what it finds only then is in doubt.
//! What not: findings out of that.

use super::{Figures, Finding, Rule};

/// A function whose instructions have a core floor for less than this part has none, percent.
const FLOORED: f64 = 50.0;

/// Figures with the most that functions may wait.
pub(super) struct Doubts {
    at_most: Figures,
}

/// `None` where all hot functions have a floor.
pub(super) fn doubts(figures: &Figures) -> Option<Doubts> {
    let mut at_most = figures.clone();
    let traced = at_most.traced.as_mut().ok()?;
    let mut any = false;
    for function in traced.functions.iter_mut().chain(&mut traced.whole) {
        if function.floored < FLOORED && function.waits.low < function.waits.high {
            let most = function.waits.high;
            (function.waits.value, function.waits.low) = (most, most);
            any = true;
        }
    }
    any.then_some(Doubts { at_most })
}

impl Doubts {
    /// Why a rule is not judged though it found what it found.
    pub(super) fn why(&self, rule: &Rule, found: &[Finding]) -> Option<String> {
        let possible = rule.ranked(&self.at_most).ok()?;
        let known = |one: &Finding| found.iter().any(|found| found.place == one.place);
        let mut names: Vec<&str> = Vec::new();
        for one in possible.iter().filter(|one| !known(one)) {
            let name = one.place.function.as_deref().unwrap_or("the program");
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (!names.is_empty()).then(|| {
            format!(
                "how much {} waits is not known, because its loops could not be timed without their memory: see whether the \
                 time per element falls with an input that fits into the cache",
                names.join(", ")
            )
        })
    }
}
