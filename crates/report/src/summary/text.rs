//! The summary as a person reads it at the end of `fathom run`: the answer first, the small print last.

mod findings;
mod first_checks;
mod kernel;
mod memory;
mod threading;

use facts::{Evidence, Metric};

use super::{Summary, TopFunction};
use crate::table::{Cell, Column, Look, Table};
use crate::text::{
    self, Paint, bytes, count, half_interval, number, percent, printable, seconds,
    shorten_function, shorten_path, wrap,
};

/// Width of the names before figures.
const LABEL: usize = 18;
/// From this share of the machine on, others disturb the figures; below is the system's ordinary noise, %.
const DISTURBING: f64 = 5.0;

pub(crate) fn text(summary: &Summary, width: usize, paint: Paint) -> String {
    let mut page = Page { out: String::new(), width, paint };
    headline(summary, &mut page);
    threading::threads(summary, &mut page);
    time_split(summary, &mut page);
    first_checks::first_checks(summary, &mut page);
    memory::traffic(summary, &mut page);
    memory::top_objects(summary, &mut page);
    top_functions(summary, &mut page);
    memory_and_faults(summary, &mut page);
    kernel::entries(summary, &mut page);
    machine(summary, &mut page);
    not_available(summary, &mut page);
    quality(summary, &mut page);
    notes(summary, &mut page);
    findings::findings(summary, &mut page);
    next(summary, &mut page);
    page.out
}

struct Page {
    out: String,
    width: usize,
    paint: Paint,
}

impl Page {
    fn heading(&mut self, heading: &str, remark: &str) {
        let remark = if remark.is_empty() { String::new() } else { format!("  {remark}") };
        self.out += &format!("\n{}{}\n", self.paint.bold(heading), self.paint.faint(&remark));
    }

    /// A name, and text that continues below itself when it is too long.
    fn entry(&mut self, label: &str, text: &str) {
        let label = format!("  {label:<LABEL$}");
        let indent = label.chars().count();
        for (at, line) in wrap(text, self.width.saturating_sub(indent).max(20)).iter().enumerate() {
            let before = if at == 0 { label.clone() } else { " ".repeat(indent) };
            self.out += &format!("{before}{line}\n");
        }
    }

    fn item(&mut self, text: &str) {
        for (at, line) in wrap(text, self.width - 4).iter().enumerate() {
            self.out += &format!("{}{line}\n", if at == 0 { "  - " } else { "    " });
        }
    }
}

/// The value with its unit, or `n/a (why)`.
fn figure(metric: &Metric, show: impl Fn(f64) -> String) -> String {
    match metric.value {
        Some(value) => show(value),
        None => format!("n/a ({})", metric.note.as_deref().unwrap_or("not recorded")),
    }
}

/// `12.3 ±0.8 %`.
fn percent_with_error(metric: &Metric) -> String {
    figure(metric, |value| match half_interval(metric) {
        Some(half) => format!("{} ±{half:.1} %", percent(value)),
        None => format!("{} %", percent(value)),
    })
}

fn headline(summary: &Summary, page: &mut Page) {
    let command = printable(&summary.command.join(" "));
    let attached = if summary.target == "attached" { " (attached)" } else { "" };
    let title = format!("{}  {}  {command}{attached}", summary.result, summary.analysis);
    page.out += &(page.paint.bold(&text::fit(printable(&title).trim_end(), page.width)) + "\n\n");
    let incomplete =
        if summary.state == "incomplete" { "; the recording is incomplete" } else { "" };
    let failed = summary.exit_code.is_some_and(|code| code != 0);
    let exit = format!("{}{incomplete}", summary.exit);
    let exit = if failed { page.paint.warn(&exit) } else { exit };
    page.out +=
        &format!("  {:<LABEL$}{:<12}{exit}\n", "Elapsed", figure(&summary.elapsed, seconds));
    let of_cpus = summary.extra.usable_cpus.map(|cpus| format!("of {} CPUs", number_of(cpus)));
    let utilisation = match (summary.cpu_utilisation.value, of_cpus) {
        (Some(value), Some(cpus)) => format!("{} % {cpus}, ", percent(value)),
        _ => String::new(),
    };
    let plural = |metric: &Metric, one: &str, many: &str| {
        figure(metric, |value| {
            format!("{} {}", count(value), if value == 1.0 { one } else { many })
        })
    };
    let mut who = plural(&summary.threads, "thread", "threads");
    if summary.processes.value.is_some_and(|processes| processes > 1.0) {
        who += &format!(" in {}", plural(&summary.processes, "process", "processes"));
    }
    let cpu = figure(&summary.cpu_time, seconds);
    if summary.cpu_time.evidence == Some(Evidence::Sampled) {
        who += " (from samples: nothing was counted)";
    }
    if summary.cpu_time.value.is_some() {
        page.out += &format!("  {:<LABEL$}{cpu:<12}{utilisation}{who}\n", "CPU time");
    } else {
        page.entry("CPU time", &cpu);
    }
}

/// `2`, `1.5`.
fn number_of(cpus: f64) -> String {
    if cpus.fract() == 0.0 { format!("{cpus:.0}") } else { format!("{cpus:.1}") }
}

fn time_split(summary: &Summary, page: &mut Page) {
    let split = &summary.time_split;
    // Without a division between program and kernel, their sum may still be known.
    let undivided = Metric {
        value: summary
            .cpu_time
            .value
            .map(|cpu| (cpu - split.page_faults.value.unwrap_or(0.0)).max(0.0)),
        ..summary.cpu_time.clone()
    };
    let divided = split.user.value.is_some() || undivided.value.is_none();
    let parts = [
        if divided {
            ("program", '█', &split.user)
        } else {
            ("program and kernel", '█', &undivided)
        },
        ("kernel", '▓', &split.kernel),
        ("page faults", '▒', &split.page_faults),
        ("waiting", '░', &split.waiting),
    ];
    let values = parts.map(|(_, _, metric)| metric.value.unwrap_or(0.0).max(0.0));
    let sum: f64 = values.iter().sum();
    let of = match split.thread_time.value {
        Some(lived) => format!("of {} that all threads existed", seconds(lived)),
        None => "of the CPU time".to_owned(),
    };
    page.heading("Where the time goes", &of);
    if sum <= 0.0 {
        page.item("n/a: neither samples nor counters tell it.");
        return;
    }
    let bar_width = page.width.saturating_sub(4).min(72);
    let mut bar = String::new();
    let mut legend = Vec::new();
    for (at, cells) in divide(&values, bar_width).into_iter().enumerate() {
        let (name, sign, metric) = parts[at];
        if metric.value.is_none() {
            continue;
        }
        bar += &page.paint.series(at, &sign.to_string().repeat(cells));
        let sign = page.paint.series(at, &sign.to_string());
        legend.push(format!("{sign} {name} {} %", percent(values[at] / sum * 100.0)));
    }
    page.out += &format!("  {bar}\n  {}\n", legend.join("   "));
    if let Some(others) = summary.other_cpu_percent.value.filter(|value| *value >= DISTURBING) {
        page.item(&format!(
            "Other programs used {} % of the machine meanwhile: part of the waiting is waiting for a CPU, and \
             figures of this run may suffer.",
            percent(others)
        ));
    }
    for (name, _, metric) in parts {
        if metric.value.is_none() {
            let why = metric.note.as_deref().unwrap_or("not recorded");
            page.item(&format!("{name}: n/a, {why}"));
        }
    }
}

/// Splits `width` cells in proportion; what rounding leaves goes to the largest remainders, and what is not
/// nothing gets at least one cell while there is room.
fn divide(values: &[f64; 4], width: usize) -> [usize; 4] {
    let sum: f64 = values.iter().sum();
    let exact = values.map(|value| value / sum * width as f64);
    let mut cells = exact.map(|cells| cells.floor() as usize);
    let mut order = [0, 1, 2, 3];
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()).then(a.cmp(&b)));
    let rest = width.saturating_sub(cells.iter().sum());
    order.iter().take(rest).for_each(|&at| cells[at] += 1);
    for at in 0..4 {
        let largest = (0..4).max_by_key(|&at| cells[at]).unwrap_or(0);
        if values[at] / sum >= 0.001 && cells[at] == 0 && cells[largest] > 1 {
            cells[at] = 1;
            cells[largest] -= 1;
        }
    }
    cells
}

fn top_functions(summary: &Summary, page: &mut Page) {
    let of = if summary.sampling.samples > 0 {
        "share of the CPU time: in the function itself, and with what it calls"
    } else {
        ""
    };
    page.heading("Top functions", of);
    if summary.top_functions.is_empty() {
        page.item(&format!("n/a: there are {}", summary.extra.why_no_samples));
        return;
    }
    let grid = text::table(&functions_table(&summary.top_functions), page.width, page.paint);
    // Without the empty line below the title, which is empty too.
    page.out += grid.trim_start_matches('\n');
    if summary.extra.more_functions > 0 {
        let more = format!(
            "  … {} more: fathom report hotspots -r {}\n",
            summary.extra.more_functions,
            quoted(&summary.result)
        );
        page.out += &page.paint.faint(&more);
    }
}

fn functions_table(functions: &[TopFunction]) -> Table {
    let keys = ["function", "file", "line", "module", "self_percent", "total_percent"];
    let columns = keys.map(|key| Column { key, label: key, unit: None }).to_vec();
    let row = |function: &TopFunction| {
        vec![
            Cell::text(function.function.clone()),
            Cell::text_or_missing(function.file.as_deref()),
            function.line.map_or(Cell::Missing, |line| Cell::Number(u64::from(line))),
            Cell::text(function.module.clone()),
            Cell::Metric(function.self_percent.clone()),
            Cell::Metric(function.total_percent.clone()),
        ]
    };
    Table {
        view: "summary",
        result: String::new(),
        rows: functions.iter().map(row).collect(),
        total: vec![Cell::Missing; columns.len()],
        columns,
        notes: Vec::new(),
        title: String::new(),
        looks: vec![
            (Look::Percent("self_percent"), "self %"),
            (Look::Percent("total_percent"), "total %"),
            (Look::Function("function", None), "function"),
            (Look::Place, "source"),
            (Look::Text("module"), "module"),
        ],
        page: usize::MAX,
        empty: String::new(),
    }
}

fn memory_and_faults(summary: &Summary, page: &mut Page) {
    let faults = &summary.page_faults;
    page.heading("Page faults and memory", "");
    page.entry("Page faults", &fault_counts(summary));
    let how = faults.time_percent.evidence.map_or(String::new(), |evidence| match evidence {
        Evidence::Estimated => {
            " of the CPU time (estimated: count × measured cost of one)".to_owned()
        }
        _ => " of the CPU time".to_owned(),
    });
    page.entry("  time in them", &(percent_with_error(&faults.time_percent) + &how));
    if let Some(top) = &summary.extra.top_faults {
        let line = top.line.map(|line| format!(":{line}")).unwrap_or_default();
        let place = top
            .file
            .as_ref()
            .map(|file| format!(" ({}{line})", shorten_path(&printable(file), 36)));
        let function = shorten_function(&printable(&top.function), 30);
        let of_them = format!("{} % of them", percent(top.percent));
        page.entry("  most in", &format!("{function}{}, {of_them}", place.unwrap_or_default()));
    }
    page.entry(
        "Largest size",
        &figure(&summary.peak_resident, |value| format!("{} resident", bytes(value))),
    );
    let heap = &summary.heap;
    if let (Some(blocks), Some(total), Some(peak)) =
        (heap.allocations.value, heap.bytes_allocated.value, heap.peak_bytes.value)
    {
        let (blocks, total, peak) = (count(blocks), bytes(total), bytes(peak));
        page.entry("Heap", &format!("{peak} at most; {total} in {blocks} blocks over time"));
        let pages = |metric: &Metric| metric.value.filter(|pages| *pages > 0.0).map(count);
        if let (Some(small), Some(large)) =
            (pages(&heap.huge_pages_2mb), pages(&heap.huge_pages_1gb))
        {
            let held = format!("{small} of 2 MB, or {large} of 1 GB, hold the most");
            page.entry("  as huge pages", &held);
        }
    }
    page.entry(
        "In huge pages",
        &figure(&summary.huge_page_share, |value| {
            format!("{} % of anonymous memory", percent(value))
        }),
    );
}

fn fault_counts(summary: &Summary) -> String {
    let faults = &summary.page_faults;
    if faults.minor.value.is_none() && faults.major.value.is_none() {
        return figure(&faults.minor, count);
    }
    let rate = faults.minor.value.zip(summary.elapsed.value).filter(|(_, elapsed)| *elapsed > 0.0);
    let rate = rate.map(|(minor, elapsed)| format!(" ({} per second)", count(minor / elapsed)));
    format!(
        "{} minor{}, {} major (waited for a disk)",
        figure(&faults.minor, count),
        rate.unwrap_or_default(),
        figure(&faults.major, count)
    )
}

fn machine(summary: &Summary, page: &mut Page) {
    let machine = &summary.machine;
    let age = match (summary.extra.calibrated, summary.extra.calibration_age) {
        (false, _) => String::new(),
        (true, age) if age < 3600 => "measured just before the run".to_owned(),
        (true, age) if age < 2 * 86_400 => format!("measured {} hours before the run", age / 3600),
        (true, age) => format!("measured {} days before the run", age / 86_400),
    };
    page.heading("What this machine's memory can do", &age);
    let host = &summary.host;
    if !host.cpu.is_empty() {
        let virtualised =
            host.virtualised.as_deref().map(|name| format!(", virtual machine ({name})"));
        let plural = if host.logical_cpus == 1 { "" } else { "s" };
        page.entry(
            "Machine",
            &printable(&format!(
                "{}, {} CPU{plural}, {}{}",
                host.cpu,
                host.logical_cpus,
                bytes(host.memory_bytes as f64),
                virtualised.unwrap_or_default()
            )),
        );
    }
    if !summary.extra.calibrated {
        page.item("n/a: this machine was not measured. `fathom machine` does it in about 20 s.");
        return;
    }
    let with = summary
        .extra
        .peak_kernel
        .as_deref()
        .map(|kernel| format!(" (reached by {})", printable(kernel)));
    let peak = figure(&machine.dram_bandwidth_peak, |value| {
        format!("{} GB/s{}", number(value), with.clone().unwrap_or_default())
    });
    page.entry("Peak bandwidth", &peak);
    let levels = [
        ("L1", &machine.load_latency.l1),
        ("L2", &machine.load_latency.l2),
        ("L3", &machine.load_latency.l3),
        ("DRAM", &machine.load_latency.dram),
    ];
    let ladder = levels.map(|(name, metric)| match metric.value {
        Some(value) => format!("{name} {} ns", number(value)),
        None => format!("{name} n/a"),
    });
    page.entry(
        "Time per load",
        &format!("{} (each waiting for the one before)", ladder.join(", ")),
    );
    let flops = |value| format!("{} GFLOP/s in double precision", number(value));
    page.entry("Peak arithmetic", &figure(&machine.flops_peak, flops));
    let one = figure(&machine.page_fault_4k, |nanos| seconds(nanos * 1e-9));
    page.entry("One page fault", &format!("{one} for a new page of 4 KiB"));
    for note in summary.extra.calibration_notes.clone() {
        page.item(&printable(&note));
    }
}

/// Figures that this version or this machine cannot give, by reason.
fn not_available(summary: &Summary, page: &mut Page) {
    let figures: [(&str, &Metric); 7] = [
        ("DRAM bandwidth used", &summary.dram_bandwidth.average),
        ("time bound by memory", &summary.memory_bound),
        ("loads and stores with their latency", &summary.loads),
        ("cache levels that served them", &summary.levels.l1),
        ("arithmetic per byte", &summary.arithmetic_intensity),
        ("address translation (DTLB)", &summary.dtlb.misses),
        ("heap allocations", &summary.heap.allocations),
    ];
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, metric) in figures.iter().filter(|(_, metric)| metric.value.is_none()) {
        let why = metric.note.as_deref().unwrap_or("not recorded");
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    if reasons.is_empty() {
        return;
    }
    page.heading("Not available", "");
    for (why, names) in reasons {
        page.item(&format!("{}: {why}", names.join(", ")));
    }
}

fn quality(summary: &Summary, page: &mut Page) {
    let sampling = &summary.sampling;
    page.heading("How it was measured", "");
    let rate = if sampling.period_seconds > 0.0 {
        format!(" at {} per second of CPU time", count(1.0 / sampling.period_seconds))
    } else {
        String::new()
    };
    let method = match sampling.method {
        "perf-events" => "by the kernel (perf events)",
        "ptrace" => "by stopping threads shortly (ptrace)",
        _ => "not possible here: only what /proc counts",
    };
    page.entry("Samples", &format!("{}{rate}, {method}", count(sampling.samples as f64)));
    let mut lost = Vec::new();
    for (number, what) in [
        (sampling.lost_samples, "samples"),
        (sampling.lost_faults, "page-fault records"),
        (sampling.lost_events, "mapping and thread records"),
        (sampling.lost_blocks, "records of heap blocks"),
        (sampling.lost_regions, "calls that mapped or unmapped memory"),
    ] {
        if number > 0 {
            lost.push(format!("{} {what}", count(number as f64)));
        }
    }
    page.entry(
        "Lost",
        &if lost.is_empty() { "nothing".to_owned() } else { page.paint.warn(&lost.join(", ")) },
    );
    if sampling.thinned_samples > 0 {
        let thinned = count(sampling.thinned_samples as f64);
        page.entry(
            "Thinned out",
            &format!("{thinned} samples, to keep the size limit; the others weigh more"),
        );
    }
    page.entry("Overhead", &overhead(summary));
    if summary.coverage.traced.value.is_some() {
        let refused =
            summary.coverage.refused.iter().map(|one| (one.reason.as_str(), &one.percent));
        page.entry("Bursts", &text::coverage(&summary.coverage.traced, refused));
    }
    if let Some(stolen) = summary.stolen_percent.value.filter(|value| *value >= DISTURBING) {
        let text = format!("{} % of the machine went to other virtual machines", percent(stolen));
        page.entry("Stolen CPU time", &page.paint.warn(&text));
    }
    page.entry("±", "half of the 95 % interval, from the number of samples");
}

/// Of the elapsed time, part by part.
fn overhead(summary: &Summary) -> String {
    let parts = &summary.overhead_parts;
    let Some(elapsed) = summary.elapsed.value.filter(|elapsed| *elapsed > 0.0) else {
        return figure(&summary.overhead, percent);
    };
    let of_elapsed = |time: f64| percent(time / elapsed * 100.0);
    let mut text = match parts.cpu_time.value {
        Some(time) => format!(
            "the profiler itself used {} of CPU time, {} % of the elapsed time",
            seconds(time),
            of_elapsed(time)
        ),
        None => figure(&summary.overhead, percent),
    };
    if let Some(time) = parts.stand_still.value {
        let (time, share) = (seconds(time), of_elapsed(time));
        text += &format!("; the program's threads stood still for {time} ({share} %) for bursts");
    }
    if let Some(time) = parts.slowdown.value {
        text += &format!(", which ran about {} longer than native code", seconds(time));
    }
    if let Some(cost) = summary.sampling_cost.value {
        let cost = percent(cost);
        text += &format!("; taking the samples cost the program about {cost} % of its CPU time");
    }
    text
}

fn notes(summary: &Summary, page: &mut Page) {
    if summary.notes.is_empty() {
        return;
    }
    page.heading("Notes", "");
    for note in &summary.notes {
        page.item(&printable(note));
    }
}

fn next(summary: &Summary, page: &mut Page) {
    let result = quoted(&summary.result);
    let mut commands = Vec::new();
    let named = |function: &&TopFunction| !function.function.starts_with('[');
    if let Some(function) = summary.top_functions.iter().find(named) {
        let filter =
            quoted(&format!("function={}", analysis::bare_function_name(&function.function)));
        if function.file.is_some() {
            commands.push(format!("fathom report source -r {result} --filter {filter}"));
        }
        commands.push(format!("fathom report callers -r {result} --filter {filter}"));
    }
    if summary.extra.top_faults.is_some() {
        commands.push(format!("fathom report faults -r {result} -g function,source-line"));
    }
    if summary.coverage.traced.value.is_some() {
        commands.push(format!("fathom report accesses -r {result}"));
    }
    if summary.kernel_entries.count.value.is_some() {
        commands.push(format!("fathom report kernel -r {result}"));
    }
    commands.push(format!("fathom report timeline -r {result}"));
    if !summary.extra.calibrated {
        commands.push("fathom machine".to_owned());
    }
    page.heading("Next", "");
    for command in commands {
        // Not wrapped: it must survive being copied.
        page.out += &format!("  {}\n", printable(&command));
    }
}

/// As a shell takes it as one word.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_its_width_and_shows_what_is_small() {
        assert_eq!(divide(&[1.0, 1.0, 1.0, 1.0], 8), [2, 2, 2, 2]);
        assert_eq!(divide(&[0.98, 0.01, 0.0, 0.01], 10), [8, 1, 0, 1]);
        for values in [[3.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [1.0, 2.0, 3.0, 4.0]] {
            assert_eq!(divide(&values, 71).iter().sum::<usize>(), 71);
        }
    }

    #[test]
    fn commands_survive_a_shell() {
        assert_eq!(quoted("function=main"), "function=main");
        assert_eq!(quoted("function=f(int)"), "'function=f(int)'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        let words = ["./a", "b c", "it's", "", "--n=3"].map(quoted).join(" ");
        assert_eq!(words, r"./a 'b c' 'it'\''s' '' --n=3");
    }
}
