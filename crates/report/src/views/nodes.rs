//! `nodes`: what-if. The program on a machine with other NUMA nodes, as it is and with its memory placed otherwise; by object with
//! `-g object`.
//!
//! What not: the model (`analysis::placement`).

use analysis::placement::{
    PlacedObject, Placement, Policy, Topology, Use, Variant, elapsed_there, placement,
};
use facts::Metric;

use super::Request;
use super::columns::{figure, missing, name};
use crate::table::{Cell, CellStyle, Column, Table, TextColumn};

/// Below this part of the accesses an object is not worth a sentence.
const WORTH: f64 = 25.0;
/// Below this, its copies are not.
const LEAST: f64 = 1.0;

pub(crate) fn nodes(request: &Request<'_>) -> Table {
    let profile = request.profile;
    let run = &profile.recording.run;
    let topology = request.options.topology.clone();
    let topology = topology.unwrap_or_else(|| Topology::usual(&run.host, run.calibration.as_ref()));
    let title = request.title(&format!("what if it ran on {}", topology.name));
    let objects = request.prepared.objects();
    let by_object = !request.options.group.is_empty();
    let (columns, text_columns) = if by_object { of_objects() } else { of_policies() };
    let (mut rows, mut notes, mut empty) = (Vec::new(), Vec::new(), String::new());
    match placement(profile, &request.prepared.code, objects, topology) {
        Err(why) => empty = format!("n/a: {why}."),
        Ok(found) => {
            let object_name = |object: &PlacedObject| objects.get(object.object).name.clone();
            rows = match by_object {
                true => found.objects.iter().map(|one| object(one, object_name(one))).collect(),
                false => policies(request, &found, &object_name),
            };
            notes = says(&found, &object_name);
        }
    }
    Table {
        view: "nodes",
        result: request.options.result_name.clone(),
        total: missing(columns.len()),
        columns,
        rows,
        notes,
        title,
        text_columns,
        page: 25,
        empty,
    }
}

/// What was measured where the program was recorded, if that has several nodes, and what each policy gives.
fn policies(
    request: &Request<'_>,
    found: &Placement,
    object_name: &dyn Fn(&PlacedObject) -> String,
) -> Vec<Vec<Cell>> {
    let recorded = found.recorded.as_ref().ok().map(|recorded| {
        let how = "measured (move_pages, CPUs of samples)";
        vec![
            Cell::text("where it was recorded"),
            Cell::metric(recorded.clone()),
            Cell::Missing,
            Cell::metric(Metric::counted(request.profile.elapsed().seconds(), "s")),
            Cell::text(how),
        ]
    });
    let modelled = found.variants.iter().map(|one| variant(request, found, one, object_name));
    recorded.into_iter().chain(modelled).collect()
}

fn of_policies() -> (Vec<Column>, Vec<TextColumn>) {
    let columns = vec![
        name("placement", "Memory"),
        figure("remote", "Accesses to another node", "percent"),
        figure("fullest", "To the node with most", "percent"),
        figure("time", "Elapsed there", "s"),
        name("how", "How"),
    ];
    let text = vec![
        CellStyle::Text("placement").titled("memory"),
        CellStyle::Percent("remote").titled("remote"),
        CellStyle::Percent("fullest").titled("fullest node"),
        CellStyle::Time("time").titled("elapsed"),
        CellStyle::Text("how").titled("how"),
    ];
    (columns, text)
}

fn of_objects() -> (Vec<Column>, Vec<TextColumn>) {
    let columns = vec![
        name("object", "Object"),
        figure("accesses_percent", "Of all accesses", "percent"),
        name("threads", "Threads"),
        name("used_by", "Used by"),
        name("read_only", "Only read, once filled"),
        figure("remote", "As it is", "percent"),
        figure("by_users", "First touch by users", "percent"),
        figure("interleaved", "Interleaved", "percent"),
        figure("bound", "Bound", "percent"),
        figure("replicated", "Replicated", "percent"),
    ];
    let text = vec![
        CellStyle::Percent("accesses_percent").titled("accesses"),
        CellStyle::Text("used_by").titled("used by"),
        CellStyle::Percent("remote").titled("remote as is"),
        CellStyle::Percent("by_users").titled("by users"),
        CellStyle::Percent("interleaved").titled("interleaved"),
        CellStyle::Percent("replicated").titled("replicated"),
        CellStyle::Text("object").titled("object"),
    ];
    (columns, text)
}

fn object(one: &PlacedObject, name: String) -> Vec<Cell> {
    let start = [
        Cell::text(name),
        Cell::metric(one.share.clone()),
        Cell::Number(one.threads as u64),
        Cell::text(one.use_by.name()),
        Cell::text(if one.read_only { "yes" } else { "no" }),
    ];
    start.into_iter().chain(one.remote.iter().cloned().map(Cell::metric)).collect()
}

fn variant(
    request: &Request<'_>,
    found: &Placement,
    one: &Variant,
    object_name: &dyn Fn(&PlacedObject) -> String,
) -> Vec<Cell> {
    vec![
        Cell::text(one.policy.name()),
        Cell::metric(one.remote.clone()),
        Cell::metric(one.fullest.clone()),
        Cell::metric(time(request, found, one)),
        Cell::text(how(found, one.policy, object_name)),
    ]
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
    elapsed_there(&one.remote, &bound, elapsed, found.topology.slower)
}

fn how(found: &Placement, policy: Policy, object_name: &dyn Fn(&PlacedObject) -> String) -> String {
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
                .take(3)
                .map(object_name)
                .collect();
            match names.is_empty() {
                true => "nothing is shared and only read".to_owned(),
                false => format!("copies of {}", names.join(", ")),
            }
        }
    }
}

fn says(found: &Placement, object_name: &dyn Fn(&PlacedObject) -> String) -> Vec<String> {
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
        "Modelled: {threads}, in the order of their birth in equal parts on {with_cpus} nodes with CPUs, where they stay; \
         {} nodes with memory. A load from another node takes {slower} as long. Limits of bandwidth are not in it.",
        topology.memory_nodes()
    )];
    if found.known < 99.5 {
        notes.push(format!(
            "Who touched a page first is known for {:.0} % of the accesses; the others are left out.",
            found.known
        ));
    }
    match &found.recorded {
        Ok(_) => {}
        // One node: the machine's own description says so.
        Err(why) if why.starts_with("the machine") => {}
        Err(why) => {
            notes.push(format!("What was remote where it was recorded is not known: {why}."))
        }
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
