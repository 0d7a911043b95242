//! `roofline`: floating-point operations against the bytes that each level of the memory hierarchy delivers for them.

use std::collections::HashMap;

use analysis::memory::{Limit, Memory, MemoryRow, Roof, RowRoofs};
use analysis::roofline::{LevelRoof, WorkRow, lowest_roof};
use analysis::{CodeKeys, InLoop, Key, RowKey, TracedCode};
use facts::Metric;

use super::Request;
use super::bandwidth::nothing;
use super::columns::{names, short_columns};
use super::list::{COUNT, Columns, PERCENT, PERCENT_ALONE, Unit};
use crate::table::{Cell, CellStyle, Table};
use crate::text;

const RATIO: Unit = Unit("FLOP/byte", CellStyle::Ratio);
const RATE: Unit = Unit("GFLOP/s", CellStyle::Figure);

/// A row: of the bursts, and of the whole run.
struct Point {
    work: WorkRow,
    name: Option<Name>,
    time: Metric,
    threads: Metric,
    /// Operations per byte of L2, L3 and memory.
    intensities: [Metric; 3],
    rate: Metric,
    roof: Metric,
    bound: Option<&'static str>,
    above: Option<&'static str>,
}

/// What a row by loop is.
struct Name {
    part: String,
    function: String,
    file: Option<String>,
    line: Option<u32>,
}

pub(crate) fn roofline(request: &Request<'_>, code: &TracedCode, memory: &Memory<'_>) -> Table {
    let profile = request.profile;
    let by = CodeKeys::new(profile, request.options.group.as_slice());
    let found = analysis::roofline::roofline(profile, code, request.selection, &by);
    let native = Native::of(request, memory, &by);
    let points: Vec<Point> = found.rows.into_iter().map(|work| native.point(work)).collect();
    let by_loop = by.keys.contains(&Key::Loop);
    let mut columns = match by_loop {
        true => of_loops(request),
        false => Columns::by(request, by.keys, None, |row: &Point| (&row.work.key, row.work.place)),
    };
    columns.figure("flops", "Operations", COUNT, "", |row| &row.work.flops);
    columns.figure("flop_percent", "Share", PERCENT, "share %", |row| &row.work.share);
    columns.figure("self_percent", "Self time", PERCENT_ALONE, "time %", |row| &row.time);
    columns.figure("double_percent", "Double precision", PERCENT_ALONE, "", |row| &row.work.double);
    columns.figure("vector_percent", "Vectors", PERCENT_ALONE, "", |row| &row.work.vector);
    columns.figure("loads", "Loads", COUNT, "", |row| &row.work.loads);
    columns.figure("stores", "Stores", COUNT, "", |row| &row.work.stores);
    columns.figure("bytes_moved", "Bytes moved", Unit("bytes", CellStyle::Bytes), "", |row| {
        &row.work.bytes
    });
    columns.figure("intensity", "Intensity", RATIO, "", |row| &row.work.intensity);
    columns.figure("l2_intensity", "Intensity, from L2", RATIO, "", |row| &row.intensities[0]);
    columns.figure("l3_intensity", "Intensity, from L3", RATIO, "", |row| &row.intensities[1]);
    columns.figure("dram_intensity", "Intensity, from memory", RATIO, "FLOP/byte", |row| {
        &row.intensities[2]
    });
    columns.figure("threads", "Threads", COUNT, "", |row| &row.threads);
    columns.figure("flop_rate", "Rate", RATE, "GFLOP/s", |row| &row.rate);
    columns.figure("roof", "Roof", RATE, "roof", |row| &row.roof);
    columns.name("bound", "Bound by", CellStyle::Text, "bound by", |row| {
        Cell::text_or_missing(row.bound)
    });
    columns.name("above", "Above its roof", CellStyle::Text, "", |row| {
        Cell::text_or_missing(row.above)
    });
    columns.show(&["flop_percent", "self_percent", "dram_intensity", "flop_rate", "roof", "bound"]);
    if by_loop {
        columns.show(&["part"]);
        let function = CellStyle::Function("function", None).titled("function");
        columns.text.extend([function, CellStyle::SourceLine.titled("source")]);
    } else {
        columns.text.extend(short_columns(by.keys, by.keys));
    }
    let empty = match request.everything() {
        true if found.bursts == 0 => nothing(memory),
        true => "No floating-point operations were traced.".to_owned(),
        false => "No traced floating-point operations match the filter.".to_owned(),
    };
    let what = format!("arithmetic and memory traffic by {}", names(by.keys));
    Table {
        notes: notes(request, memory, &points, found.bursts),
        empty,
        ..columns.table(request, "roofline", &what, &points)
    }
}

fn of_loops<'a>(request: &'a Request<'a>) -> Columns<'a, Point> {
    let mut columns = Columns::new();
    let name = |row: &Point, of: fn(&Name) -> Option<&str>| {
        Cell::text_or_missing(row.name.as_ref().and_then(of))
    };
    columns.name("part", "Part", CellStyle::Text, "part", move |row| {
        name(row, |name| Some(name.part.as_str()))
    });
    columns.name("function", "Function", CellStyle::Text, "", move |row| {
        name(row, |name| Some(name.function.as_str()))
    });
    columns.name("file", "File", CellStyle::Text, "", move |row| {
        name(row, |name| name.file.as_deref())
    });
    columns.name("line", "Line", CellStyle::Text, "", |row| {
        let line = row.name.as_ref().and_then(|name| name.line);
        line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line)))
    });
    columns.name("module", "Module", CellStyle::Text, "", |row| {
        Cell::text(request.profile.stacks.module_of(row.work.place).name.clone())
    });
    columns
}

/// What the rows do in the whole run: time from samples, traffic from the cache model.
struct Native<'a> {
    request: &'a Request<'a>,
    memory: &'a Memory<'a>,
    by: &'a CodeKeys<'a>,
    rows: HashMap<RowKey, MemoryRow>,
    times: HashMap<RowKey, analysis::Weight>,
}

impl<'a> Native<'a> {
    fn of(request: &'a Request<'a>, memory: &'a Memory<'a>, by: &'a CodeKeys<'a>) -> Native<'a> {
        let rows = memory.rows_by(request.selection, by).unwrap_or_default();
        let rows = rows.into_iter().map(|row| (row.key, row)).collect();
        Native { request, memory, by, rows, times: by.self_times(request.selection) }
    }

    fn name(&self, key: &RowKey) -> Option<Name> {
        let stacks = &self.request.profile.stacks;
        let known = self.by.loop_of(key);
        match (key.in_loop?, known) {
            (InLoop::Outside(function), _) => {
                let function = &stacks.functions[function.index()];
                let (name, file) = (function.name.clone(), function.file.clone());
                Some(Name { part: "rest".to_owned(), function: name, file, line: None })
            }
            (InLoop::Loop(_), Some(found)) => Some(Name {
                part: match found.depth {
                    0 => "loop".to_owned(),
                    depth => format!("loop in {depth}"),
                },
                function: found.function.clone(),
                file: found.file.clone(),
                line: found.line,
            }),
            _ => None,
        }
    }

    /// The row's figures are of bursts, these of the whole run: the number of its loads and stores in both tells the factor.
    fn point(&self, work: WorkRow) -> Point {
        let scale = self.request.profile.cpu_scale();
        let time = self.times.get(&work.key);
        let name = self.name(&work.key);
        let why = self.memory.missing().unwrap_or("too few accesses or samples");
        let none = |unit| Metric::unavailable(unit, why);
        let time_percent =
            time.map_or(Metric::unavailable("percent", NO_SAMPLE), |time| scale.percent(time));
        let whole = self.rows.get(&work.key);
        let Some((whole, part)) = whole.and_then(|whole| Some((whole, in_bursts(&work, whole)?)))
        else {
            return Point {
                name,
                time: time_percent,
                threads: none("count"),
                intensities: [1, 2, 3].map(|_| none("FLOP/byte")),
                rate: none("GFLOP/s"),
                roof: none("GFLOP/s"),
                bound: None,
                above: None,
                work,
            };
        };
        let RowRoofs { threads, levels } = self.memory.roofs_of(whole);
        let intensity_of = |bytes: Option<Metric>| match bytes {
            Some(bytes) if bytes.value == Some(0.0) => {
                Metric::unavailable("FLOP/byte", "no bytes come from there")
            }
            Some(bytes) => work.intensity_of(&bytes.times(part, "bytes")),
            None => work.intensity.clone(),
        };
        let levels: Vec<LevelRoof> = levels
            .into_iter()
            .map(|(limit, bytes, bandwidth)| LevelRoof {
                limit,
                intensity: intensity_of(bytes),
                bandwidth,
            })
            .collect();
        let rate = match time {
            // All threads together, of which each takes its own time.
            Some(time) => {
                let seconds = scale.quantity(time).times(part / threads, "s");
                work.rate(&seconds)
            }
            None => Metric::unavailable("GFLOP/s", NO_SAMPLE),
        };
        let arithmetic =
            work.mix.as_ref().and_then(|mix| self.memory.arithmetic_roof(mix, threads));
        let lowest = lowest_roof(arithmetic, &levels);
        let intensity = |at: usize| {
            levels.get(at).map_or_else(|| none("FLOP/byte"), |level| level.intensity.clone())
        };
        Point {
            name,
            time: time_percent,
            threads: Metric {
                evidence: Some(facts::Evidence::Estimated),
                ..Metric::counted(threads, "count")
            },
            intensities: [1, 2, 3].map(intensity),
            bound: lowest.as_ref().map(|(limit, _)| in_words(*limit)),
            above: lowest.as_ref().and_then(|(limit, roof)| above(&rate, roof, *limit)),
            roof: lowest.map_or_else(
                || {
                    Metric::unavailable(
                        "GFLOP/s",
                        "the machine's peaks are not known: run `fathom machine`",
                    )
                },
                |(_, roof)| roof,
            ),
            rate,
            work,
        }
    }
}

const NO_SAMPLE: &str = "no sample fell into it";

/// Accesses in bursts per access in the whole run.
fn in_bursts(work: &WorkRow, whole: &MemoryRow) -> Option<f64> {
    let sum = |a: &Metric, b: &Metric| Some(a.value? + b.value?).filter(|sum| *sum > 0.0);
    Some(sum(&work.loads, &work.stores)? / sum(&whole.loads, &whole.stores)?)
}

fn in_words(limit: Limit) -> &'static str {
    match limit {
        Limit::Scalar => "scalar",
        Limit::Vector => "vector",
        Limit::Level(1) => "L1",
        Limit::Level(2) => "L2",
        Limit::Level(_) => "L3",
        Limit::Dram => "memory",
    }
}

/// Why some code seems to do more than the machine can.
fn above(rate: &Metric, roof: &Metric, limit: Limit) -> Option<&'static str> {
    let (value, most) = (rate.value?, roof.value?);
    if value <= most {
        return None;
    }
    // Without an end, nothing is known beyond the value.
    if rate.low.unwrap_or(0.0) <= roof.high.unwrap_or(f64::INFINITY) {
        return Some("not surely: the intervals of its rate and of its roof overlap");
    }
    Some(match limit {
        Limit::Dram | Limit::Level(2..) => {
            "part of its bytes came from a nearer cache than the model has, or the machine was busy when \
             `fathom machine` measured it"
        }
        Limit::Level(_) | Limit::Scalar | Limit::Vector => {
            "its time or its operations are estimated wrongly, or the machine was busy when `fathom machine` \
             measured it"
        }
    })
}

fn notes(request: &Request<'_>, memory: &Memory<'_>, points: &[Point], bursts: u64) -> Vec<String> {
    if bursts == 0 {
        return Vec::new();
    }
    let mut notes = vec![format!(
        "From {bursts} bursts. Bytes are those to and from memory; JSON has those of each level of cache. \
         Rates are of all threads that run meanwhile."
    )];
    let roofs = memory.roofs();
    if roofs.is_empty() {
        notes.push("No roofs: the machine's peaks are not known; run `fathom machine`.".to_owned());
        return notes;
    }
    notes.extend(roofs_in_words(&roofs, points));
    let limit = request.options.limit.unwrap_or(usize::MAX);
    for point in points.iter().take(limit) {
        if let Some(why) = point.above {
            let place = point.work.place;
            let own = || request.profile.stacks.function_of(place).name.clone();
            let name = point.name.as_ref().map_or_else(own, |name| match name.line {
                Some(line) => format!("{}, line {line},", name.function),
                None => name.function.clone(),
            });
            notes.push(format!("{name} is above its roof: {why}."));
        }
    }
    notes
}

/// `Roofs for 1 and 2 threads: L1 480 and 872 GB/s (load), ...`, and why some are missing.
fn roofs_in_words(roofs: &[Roof], points: &[Point]) -> Vec<String> {
    // Those of the precision that most operations have.
    let sum = |of: fn(&WorkRow) -> f64| points.iter().map(|point| of(&point.work)).sum::<f64>();
    let flops = |work: &WorkRow| work.flops.value.unwrap_or(0.0);
    let doubles =
        sum(|work| work.flops.value.unwrap_or(0.0) * work.double.value.unwrap_or(0.0) / 100.0);
    let double = doubles * 2.0 >= sum(flops);
    let shown = |limit: Limit| match limit {
        Limit::Scalar | Limit::Vector => {
            let precision = if double { "double" } else { "single" };
            format!("{precision} {}", limit.name())
        }
        _ => limit.name(),
    };
    let mut parts: Vec<String> = Vec::new();
    // Roofs that are missing, by the reason.
    let mut missing: Vec<(&str, Vec<String>)> = Vec::new();
    let mut threads: Vec<u32> = roofs.iter().map(|roof| roof.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let arithmetic = |roof: &Roof| matches!(roof.limit, Limit::Scalar | Limit::Vector);
    let chosen: Vec<&Roof> =
        roofs.iter().filter(|roof| !arithmetic(roof) || roof.double == double).collect();
    let mut limits: Vec<Limit> = chosen.iter().map(|roof| roof.limit).collect();
    limits.dedup();
    for limit in limits {
        let same = || chosen.iter().filter(|roof| roof.limit == limit);
        let unknown: Vec<&&Roof> = same().filter(|roof| roof.rate.value.is_none()).collect();
        let none = unknown.len() == same().count();
        for roof in unknown {
            let name = match none {
                true => shown(limit),
                false if roof.threads == 1 => format!("{} with 1 thread", shown(limit)),
                false => format!("{} with {} threads", shown(limit), roof.threads),
            };
            let why = roof.rate.note.as_deref().unwrap_or("not measured");
            match missing.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) if names.contains(&name) => {}
                Some((_, names)) => names.push(name),
                None => missing.push((why, vec![name])),
            }
        }
        if none {
            continue;
        }
        let rates = same().map(|roof| roof.rate.value.map_or("n/a".to_owned(), text::number));
        let rates: Vec<String> = rates.collect();
        let unit = same().next().map_or("", |roof| roof.rate.unit.as_str());
        let like = same().find_map(|roof| roof.like.as_deref());
        let like = like.filter(|like| *like != "scalar");
        let like = like.map_or(String::new(), |like| format!(" ({like})"));
        parts.push(format!("{} {} {unit}{like}", shown(limit), rates.join(" and ")));
    }
    let threads: Vec<String> = threads.iter().map(u32::to_string).collect();
    let unit = if threads == ["1"] { "thread" } else { "threads" };
    let first = format!("Roofs for {} {unit}: {}.", threads.join(" and "), parts.join("; "));
    let why = missing.into_iter();
    let why = why.map(|(why, names)| format!("No roof of {}: {why}.", names.join(", ")));
    std::iter::once(first).filter(|_| !parts.is_empty()).chain(why).collect()
}
