//! `nodes`: what-if. The program on a machine with other NUMA nodes, as it is and with its memory placed otherwise; by object with
//! `-g object`.
//!
//! What not: the model (`analysis::placement`).

use analysis::placement::{
    ONE_NODE, PlacedObject, Placement, Policy, RecordedNodes, Topology, Use, Variant, placement,
};
use facts::Metric;

use super::Request;
use super::list::{Columns, PERCENT, SECONDS};
use crate::table::{Cell, CellStyle, Table};
use crate::text::bytes;

/// Below this part of the accesses an object is not worth a sentence.
const WORTH: f64 = 25.0;
/// Below this, its copies are not.
const LEAST: f64 = 1.0;
/// So many objects are named.
const SHOWN: usize = 3;

pub(crate) fn nodes(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let run = &profile.recording.run;
    let topology = request.options.topology.clone();
    let topology = topology.unwrap_or_else(|| Topology::usual(&run.host, run.calibration.as_ref()));
    let title = format!("what if it ran on {}", topology.name);
    let objects = request.prepared.objects();
    let found = placement(profile, &request.prepared.code, objects, topology);
    let object_name = |object: &PlacedObject| objects.get(object.object).name.clone();
    let table = match request.options.group.is_empty() {
        true => {
            let rows = found.as_ref().map(|found| policies(request, found, &object_name));
            let has_tier = found.as_ref().is_ok_and(|found| found.topology.tier().is_some());
            of_policies(has_tier).table(request, "nodes", &title, &rows.unwrap_or_default())
        }
        false => {
            let rows = found.as_ref().map_or(&[][..], |found| &found.objects);
            let has_tier = found.as_ref().is_ok_and(|found| found.topology.tier().is_some());
            of_objects(&object_name, has_tier).table(request, "nodes", &title, rows)
        }
    };
    match found {
        Ok(found) => {
            Table { notes: says(&found, request.prepared.recorded_nodes(), &object_name), ..table }
        }
        Err(why) => Table { empty: format!("n/a: {why}."), ..table },
    }
}

/// Memory placed in one way.
struct Placed {
    placement: &'static str,
    remote: Metric,
    on_tier: Option<Metric>,
    fullest: Option<Metric>,
    time: Metric,
    how: String,
}

/// What was measured where the program was recorded, if that has several nodes, and what each policy gives.
fn policies(
    request: &Request<'_>,
    found: &Placement,
    object_name: &dyn Fn(&PlacedObject) -> String,
) -> Vec<Placed> {
    let recorded = request.prepared.recorded_nodes().ok().map(|recorded| Placed {
        placement: "where it was recorded",
        remote: recorded.remote(),
        on_tier: None,
        fullest: None,
        time: Metric::counted(request.profile.elapsed().seconds(), "s"),
        how: "measured (move_pages, CPUs of samples)".to_owned(),
    });
    let modelled = found.variants.iter().map(|one| Placed {
        placement: one.policy.name(),
        remote: one.remote.clone(),
        on_tier: Some(one.on_tier.clone()),
        fullest: Some(one.fullest.clone()),
        time: time(request, found, one),
        how: how(request, found, one.policy, object_name),
    });
    recorded.into_iter().chain(modelled).collect()
}

fn of_policies<'a>(has_tier: bool) -> Columns<'a, Placed> {
    let mut columns = Columns::new();
    columns.name("placement", "Memory", CellStyle::Text, "memory", |one: &Placed| {
        Cell::text(one.placement)
    });
    columns.figure("remote", "Accesses to another node", PERCENT, "remote", |one| &one.remote);
    columns.cell("on_tier", "To a node without CPUs", PERCENT, "on tier", |one| {
        one.on_tier.clone().map_or(Cell::Missing, Cell::metric)
    });
    columns.cell("fullest", "To the node with most", PERCENT, "fullest node", |one| {
        one.fullest.clone().map_or(Cell::Missing, Cell::metric)
    });
    columns.figure("time", "Elapsed there", SECONDS, "elapsed", |one| &one.time);
    columns.name("how", "How", CellStyle::Text, "how", |one| Cell::text(one.how.clone()));
    // Not both: the command that the last column has would not fit.
    columns.show(&[
        "placement",
        "remote",
        if has_tier { "on_tier" } else { "fullest" },
        "time",
        "how",
    ]);
    columns
}

fn of_objects<'a>(
    object_name: &'a (dyn Fn(&PlacedObject) -> String + Sync),
    has_tier: bool,
) -> Columns<'a, PlacedObject> {
    let mut columns = Columns::new();
    columns.name("object", "Object", CellStyle::Text, "object", |one| Cell::text(object_name(one)));
    columns.figure("accesses_percent", "Of all accesses", PERCENT, "accesses", |one| &one.share);
    columns
        .name("threads", "Threads", CellStyle::Number, "", |one| Cell::Number(one.threads as u64));
    columns.name("used_by", "Used by", CellStyle::Text, "used by", |one| {
        Cell::text(one.use_by.name())
    });
    columns.name("read_only", "Only read, once filled", CellStyle::Text, "", |one| {
        Cell::text(if one.read_only { "yes" } else { "no" })
    });
    let remote = [
        ("remote", "As it is", PERCENT, "remote as is"),
        ("by_users", "First touch by users", PERCENT, "by users"),
        ("interleaved", "Interleaved", PERCENT, "interleaved"),
        ("bound", "Bound", PERCENT, ""),
        ("replicated", "Replicated", PERCENT, "replicated"),
        ("all_on_tier", "All on a tier", PERCENT, ""),
        ("cold_on_tier", "Cold on a tier", PERCENT, "cold on tier"),
    ];
    columns.figures(remote, |one| one.remote.each_ref().map(|one| Cell::metric(one.clone())));
    columns.show(&["accesses_percent", "used_by", "remote", "by_users", "interleaved"]);
    columns.show(&["replicated"]);
    if has_tier {
        columns.show(&["cold_on_tier"]);
    }
    columns.show(&["object"]);
    columns
}

/// Elapsed seconds there, from those of a machine on which nothing was remote.
fn time(request: &Request<'_>, found: &Placement, one: &Variant) -> Metric {
    let run = &request.profile.recording.run;
    if run.host.memory_nodes().count() > 1 {
        return Metric::unavailable(
            "s",
            "the recorded time contains remote accesses already: record on a machine with one node",
        );
    }
    let elapsed = request.profile.elapsed().seconds() / run.runs.len().max(1) as f64;
    let memory = request.prepared.memory();
    let bound = match memory.bound() {
        Ok(bound) => bound.memory,
        Err(why) => Metric::unavailable("percent", &why),
    };
    found.topology.elapsed(&one.remote, &one.on_tier, &bound, elapsed)
}

fn how(
    request: &Request<'_>,
    found: &Placement,
    policy: Policy,
    object_name: &dyn Fn(&PlacedObject) -> String,
) -> String {
    // Rows on a tier are there only where the topology has one.
    let tier = found.topology.tier().unwrap_or_default();
    match policy {
        Policy::AsIs => "where the program touches it first".to_owned(),
        Policy::FirstTouchByUsers => "initialise data where it is used".to_owned(),
        Policy::Interleave => "numactl --interleave=all".to_owned(),
        Policy::Bind if found.fits => format!("numactl -N{0} -m{0}", found.bound),
        Policy::Bind => format!("numactl -m{}: too many threads for -N", found.bound),
        Policy::Replicate => {
            let names: Vec<String> = found
                .objects
                .iter()
                .filter(|one| one.read_only && one.share.value >= Some(LEAST))
                .take(SHOWN)
                .map(object_name)
                .collect();
            match names.is_empty() {
                true => "nothing is shared and only read".to_owned(),
                false => format!("copies of {}", names.join(", ")),
            }
        }
        Policy::Tier => format!("numactl -m{tier}"),
        Policy::HotAndCold => {
            let cold = found.cold.iter().map(|id| request.prepared.objects().get(*id));
            let size: f64 = cold.clone().map(|object| object.largest.0 as f64).sum();
            let names: Vec<&str> = cold.take(SHOWN).map(|object| object.name.as_str()).collect();
            match found.cold.len().saturating_sub(SHOWN) {
                _ if names.is_empty() => "everything is used".to_owned(),
                0 => format!("{} to node {tier}: {}", bytes(size), names.join(", ")),
                more => {
                    format!("{} to node {tier}: {} and {more} more", bytes(size), names.join(", "))
                }
            }
        }
    }
}

fn says(
    found: &Placement,
    recorded: Result<&RecordedNodes, &'static str>,
    object_name: &dyn Fn(&PlacedObject) -> String,
) -> Vec<String> {
    let topology = &found.topology;
    let with_cpus = topology.nodes.iter().filter(|node| node.cpus > 0).count();
    let threads = match found.workers {
        1 => "1 thread that computes".to_owned(),
        several => format!("{several} threads that compute"),
    };
    let [least, mean, most] = topology.slower;
    let slower = match topology.measured {
        true => format!("{mean:.2} times ({least:.2} to {most:.2}, measured there)"),
        false => format!("{least} to {most} times (assumed: that machine was not measured)"),
    };
    let mut notes = vec![format!(
        "Modelled: {threads}, in order of creation, in equal parts on {with_cpus} nodes with CPUs, where they stay; \
         {} nodes with memory. A load from another node takes {slower} as long. Bandwidth limits are left out.",
        topology.memory_nodes()
    )];
    if topology.tier().is_some() {
        let [least, mean, most] = topology.tier_slower;
        let slower = match topology.tier_measured {
            true => format!("{mean:.2} times ({least:.2} to {most:.2}, measured there)"),
            false => format!("{least} to {most} times (assumed)"),
        };
        notes.push(format!(
            "A load from a node without CPUs takes {slower} as long. Cold are the objects with the fewest accesses per byte that \
             together have at most 10 % of them, as far as bursts saw."
        ));
    }
    if found.known < 99.5 {
        notes.push(format!(
            "The first toucher of the page is known for {:.0} % of the accesses; the others are left out.",
            found.known
        ));
    }
    if let Some(why) = recorded.err().filter(|why| *why != ONE_NODE) {
        notes.push(format!("The remote accesses of the recorded run are unknown: {why}."));
    }
    notes.extend(found.objects.iter().filter_map(|one| chain(one, object_name(one))));
    notes
}

/// The reason that no first touch helps against.
fn chain(one: &PlacedObject, name: String) -> Option<String> {
    let [as_it_is, ..] = &one.remote;
    let worth = one.share.value? >= WORTH && as_it_is.value? >= WORTH;
    if !worth || one.use_by != Use::All {
        return None;
    }
    let then = match one.read_only {
        true => "or keep a copy of it on each node: nobody writes to it once it is filled",
        false => "or give each thread a part of it: threads write to it, so copies do not help",
    };
    Some(format!(
        "Every thread uses all of {name}: {:.0} % of its accesses would be to another node, and no first touch changes \
         that. Block the loops, so that a part of it stays in a cache, {then}.",
        as_it_is.value?
    ))
}
