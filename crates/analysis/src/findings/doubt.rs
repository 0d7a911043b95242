//! Rules that are silent only because nobody knows how long a hot loop would take without its memory, or because bursts
//! were too few to be sure.
//!
//! What for: waits of a function without a core floor lie between nothing and nearly all of its time. A rule needs their
//! low end, so it says nothing; that is no all-clear. Here every rule judges once more as if such functions waited for
//! all that they may, and what it finds only then is in doubt. Of a short run intervals are wide, and a rule is silent
//! whatever is the case: it judges a third time by the likely values alone.
//! What not: findings out of that.

use facts::Metric;

use super::{Figures, Finding, HotFunction, HotSite, Rule};

/// A function whose instructions have a core floor for less than this part has none, percent.
const FLOORED: f64 = 50.0;

/// Figures to judge once more.
pub(super) struct Doubts {
    /// With the most that functions may wait; `None` where all hot functions have a floor.
    at_most: Option<Figures>,
    /// With likely values instead of intervals; `None` where bursts tell nothing.
    likely: Option<Figures>,
}

impl Doubts {
    pub(super) fn new(figures: &Figures) -> Doubts {
        Doubts { at_most: at_most(figures), likely: likely(figures) }
    }

    /// Why a rule is not judged though it found what it found.
    pub(super) fn why(&self, rule: &Rule, found: &[Finding]) -> Option<String> {
        let waiting = self.at_most.as_ref().and_then(|figures| missed(rule, figures, found));
        let waiting = waiting.map(|names| {
            format!(
                "how much {names} waits is not known, because its loops could not be timed without their memory: see whether \
                 the time per element falls with an input that fits into the cache"
            )
        });
        waiting.or_else(|| {
            let names = missed(rule, self.likely.as_ref()?, found)?;
            Some(format!(
                "it may concern {names}, but bursts were too few to be sure: run the program for longer, or allow more \
                 bursts with -k overhead=10"
            ))
        })
    }
}

fn at_most(figures: &Figures) -> Option<Figures> {
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
    any.then_some(at_most)
}

fn likely(figures: &Figures) -> Option<Figures> {
    let mut likely = figures.clone();
    let traced = likely.traced.as_mut().ok()?;
    for function in traced.functions.iter_mut().chain(&mut traced.whole) {
        let HotFunction { waits, of_reach, overwritten, serial, sites, .. } = function;
        let of_sites = sites.iter_mut().flat_map(|site| {
            let HotSite { stride_share, line_use, used_together, share, walks, .. } = site;
            [stride_share, line_use, used_together, share, walks]
        });
        [waits, of_reach, overwritten, serial]
            .into_iter()
            .chain(of_sites)
            .for_each(without_interval);
    }
    traced.reloaded.iter_mut().for_each(|one| without_interval(&mut one.spared));
    Some(likely)
}

fn without_interval(metric: &mut Metric) {
    if metric.value.is_some() {
        (metric.low, metric.high) = (metric.value, metric.value);
    }
}

/// The functions for which a rule fires on these figures, and on the true ones does not.
fn missed(rule: &Rule, figures: &Figures, found: &[Finding]) -> Option<String> {
    let possible = rule.ranked(figures).ok()?;
    let known = |one: &Finding| found.iter().any(|found| found.place == one.place);
    let mut names: Vec<&str> = Vec::new();
    for one in possible.iter().filter(|one| !known(one)) {
        let name = one.place.function.as_deref().unwrap_or("the program");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}
