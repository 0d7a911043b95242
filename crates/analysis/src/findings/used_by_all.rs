//! `used-by-all`: on a machine with several NUMA nodes, what every thread uses in whole would be remote for most of them.
//!
//! Reported where the recording's machine has one node, for an object that a hot function waits for: there is nothing to gain
//! here, and no choice of first touch would help on a machine with several. There `remote-memory` judges what is remote.

use super::gain::unquantified;
use super::{Draft, Figures, HotFunction, NamedLocation, Proof, UsedByAll, low, words};

pub(super) const ID: &str = "used-by-all";
/// Percent: of all accesses those to the object, of these those to another node, and of the function's time its waits. A blocked
/// loop waits for half of its time, but for its caches.
const SHARE: f64 = 25.0;
const REMOTE: f64 = 25.0;
const WAITS: f64 = 60.0;
/// Least share of the CPU time.
const WORTH: f64 = 0.1;

pub(super) fn judge(figures: &Figures) -> Option<Draft> {
    let one = figures.used_by_all.as_ref()?;
    let functions = &figures.traced.as_ref().ok()?.functions;
    let (function, place) = functions.iter().find_map(|function| {
        let site =
            function.sites.iter().find(|site| site.place.object.as_ref() == Some(&one.object));
        Some((function, site?.place.clone()))
    })?;
    let known = low(&one.share) >= SHARE && low(&one.remote) >= REMOTE;
    (known && waits(figures, function)).then(|| draft(one, function, place))
}

fn waits(figures: &Figures, function: &HotFunction) -> bool {
    let times = function.time.value.zip(figures.cpu_time.value);
    low(&function.waits) >= WAITS && times.is_some_and(|(time, all)| time >= WORTH * all)
}

fn draft(one: &UsedByAll, function: &HotFunction, place: NamedLocation) -> Draft {
    let UsedByAll { object, topology, threads, .. } = one;
    let then = match one.read_only {
        true => "Nobody writes to it once it is filled: a copy of it on each node would also do.",
        false => "Threads write to it, so copies do not help.",
    };
    Draft {
        title: format!(
            "On two NUMA nodes {:.0} % of its accesses to {object} would be remote: every thread uses all of it",
            one.remote.value.unwrap_or_default()
        ),
        evidence: vec![
            Proof::new(
                format!("share of its accesses to another node, on {topology}, {threads} threads"),
                &one.remote,
            ),
            Proof::new("share of all accesses that go to it", &one.share),
            Proof::new("memory-bound share of its time", &function.waits),
        ],
        place,
        advice: format!(
            "On this machine all memory is near. On one with several nodes no first touch changes that share, and \
             interleaving only spreads the load. Block the loops, so that a part of it stays in a cache. {then}"
        ),
        gain: unquantified("this machine has one NUMA node: nothing is remote here"),
        next: words("report nodes -g object"),
    }
}
