//! The summary as text or Markdown: the first screen at the end of `fathom run`, or all of it with `--detail`.
//!
//! What not: figures; the model has them.

mod faults;
mod findings;
mod first;
mod first_checks;
mod functions;
mod kernel;
mod machine;
mod memory;
mod quality;
mod threading;
mod time_split;

use facts::{Evidence, Metric};

use super::{Summary, repeat};
use crate::table::Table;
use crate::text::{self, PROSE, Paint, count, markdown, percent, printable, seconds, share, wrap};

/// Width of the names before figures.
const LABEL: usize = 18;
/// From this share of the machine on, others disturb the figures; below is the system's ordinary noise, %.
const DISTURBING: f64 = 5.0;

/// From this part of the threads' lives on, what they wait for is worth a look.
const MOSTLY: f64 = 0.5;

pub(crate) fn text(summary: &Summary, width: usize, paint: Paint) -> String {
    let mut page = Page { out: String::new(), width, paint, markdown: false };
    screen(summary, &mut page);
    next(summary, &mut page);
    page.out
}

/// The same without what to type next: who reads it does not sit at the result.
pub(crate) fn markdown(summary: &Summary) -> String {
    let (width, paint) = (markdown::FENCED_WIDTH, Paint { colour: false });
    let mut page = Page { out: String::new(), width, paint, markdown: true };
    screen(summary, &mut page);
    page.out
}

fn screen(summary: &Summary, page: &mut Page) {
    headline(summary, page);
    first::verdict(summary, page);
    match summary.extra.detail {
        true => detail(summary, page),
        false => first::screen(summary, page),
    }
}

/// Everything: the small print last.
fn detail(summary: &Summary, page: &mut Page) {
    threading::threads(summary, page);
    threading::at_once(summary, page);
    time_split::time_split(summary, page);
    first_checks::first_checks(summary, page);
    memory::traffic(summary, page);
    memory::top_objects(summary, page);
    functions::top_functions(summary, page, usize::MAX);
    faults::memory_and_faults(summary, page);
    kernel::entries(summary, page);
    machine::machine(summary, page);
    quality::not_available(summary, page);
    quality::quality(summary, page);
    notes(summary, page);
    findings::findings(summary, page);
}

/// What is written so far, for a terminal or as Markdown.
struct Page {
    out: String,
    width: usize,
    paint: Paint,
    markdown: bool,
}

impl Page {
    fn title(&mut self, name: &str, analysis: &str, command: &str, attached: &str) {
        if self.markdown {
            let (name, command) = (markdown::code(name), markdown::code(command));
            self.out += &format!("### {name} {analysis}\n\n{command}{attached}\n\n");
            return;
        }
        let title = format!("{name}  {analysis}  {command}");
        let title = text::fit(printable(&title).trim_end(), self.width - attached.len());
        self.out += &(self.paint.bold(&format!("{title}{attached}")) + "\n\n");
    }

    fn verdict(&mut self, verdict: &str, decided_by: Option<&str>) {
        self.out.push('\n');
        if self.markdown {
            self.out += &format!("**{}**\n", markdown::escaped(verdict));
            if let Some(by) = decided_by {
                self.out += &format!("{}\n", markdown::escaped(by));
            }
            return;
        }
        for line in wrap(verdict, self.width.min(PROSE) - 2) {
            self.out += &format!("  {}\n", self.paint.bold(&line));
        }
        for line in decided_by.iter().flat_map(|by| wrap(by, self.width - 2)) {
            self.out += &format!("  {line}\n");
        }
    }

    /// A table without its title.
    fn grid(&mut self, table: &Table) {
        let grid = match self.markdown {
            true => markdown::grid(table),
            false => text::table(table, self.width, self.paint),
        };
        // Without the empty line below the title, which is empty too.
        self.out += grid.trim_start_matches('\n');
    }

    /// Lines that were drawn of characters.
    fn drawing(&mut self, lines: &str) {
        self.out += &if self.markdown { markdown::fenced(lines) } else { lines.to_owned() };
    }

    fn heading(&mut self, heading: &str, remark: &str) {
        if self.markdown {
            self.out += &format!("\n#### {}\n\n", markdown::escaped(heading));
            if !remark.is_empty() {
                self.out += &format!("*{}*\n\n", markdown::escaped(remark));
            }
            return;
        }
        self.out += &format!("\n{}", self.paint.bold(heading));
        let room = self.width.saturating_sub(heading.chars().count());
        if remark.is_empty() {
            // Nothing next to it.
        } else if remark.chars().count() + 2 <= room {
            self.out += &self.paint.faint(&format!("  {remark}"));
        } else {
            for line in wrap(remark, self.width.saturating_sub(2)) {
                self.out += &self.paint.faint(&format!("\n  {line}"));
            }
        }
        self.out.push('\n');
    }

    /// A name, and text that continues below itself when it is too long.
    fn entry(&mut self, label: &str, text: &str) {
        if self.markdown {
            let text = markdown::escaped(text);
            self.out += &match label {
                // It continues the line above.
                "" => format!("  <br>{text}\n"),
                label => format!("- **{}** {text}\n", markdown::escaped(label.trim())),
            };
            return;
        }
        let mut label = format!("  {label:<LABEL$}");
        if !label.ends_with(' ') {
            label.push_str("  ");
        }
        let indent = label.chars().count();
        let width = self.width.min(PROSE).saturating_sub(indent).max(20);
        for (at, line) in wrap(text, width).iter().enumerate() {
            let before = if at == 0 { label.clone() } else { " ".repeat(indent) };
            self.out += &format!("{before}{line}\n");
        }
    }

    /// A name, a figure, and text next to it that continues below itself when it is too long.
    fn row(&mut self, label: &str, figure: &str, text: &str, warn: bool) {
        if self.markdown {
            let text = if text.is_empty() { text.to_owned() } else { format!(", {text}") };
            return self.entry(label, &format!("{figure}{text}"));
        }
        let start = format!("  {label:<LABEL$}{figure:<12}");
        let indent = start.chars().count();
        for (at, line) in wrap(text, self.width.saturating_sub(indent).max(20)).iter().enumerate() {
            let before = if at == 0 { start.clone() } else { " ".repeat(indent) };
            let line = if warn { self.paint.warn(line) } else { line.clone() };
            self.out += &format!("{before}{line}\n");
        }
    }

    /// Where more is: a command, on a line of its own when there is no room next to `what`, because it must survive being copied.
    fn more(&mut self, what: &str, command: &str) {
        if self.markdown {
            self.out += &format!("\n*{}: {}*\n", markdown::escaped(what), markdown::code(command));
            return;
        }
        let room = what.chars().count() + command.chars().count() + 6 <= self.width;
        let line = match room {
            true => format!("  … {what}: {command}\n"),
            false => format!("  … {what}:\n  {command}\n"),
        };
        self.out += &self.paint.faint(&line);
    }

    fn item(&mut self, text: &str) {
        if self.markdown {
            self.out += &format!("- {}\n", markdown::escaped(text));
            return;
        }
        for (at, line) in wrap(text, self.width.min(PROSE) - 4).iter().enumerate() {
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

/// `12.3 ±0.8 %`; of a share that may be nothing, or all there is, `0.0 to 61.2 %`.
fn percent_with_error(metric: &Metric) -> String {
    figure(metric, |value| format!("{} %", share(metric, value)))
}

fn headline(summary: &Summary, page: &mut Page) {
    let command = printable(&summary.command.join(" "));
    let attached = if summary.target == "attached" { " (attached)" } else { "" };
    page.title(&summary.result, summary.analysis, &command, attached);
    let incomplete =
        if summary.state == "incomplete" { "; the recording is incomplete" } else { "" };
    let failed = summary.exit_code.is_some_and(|code| code != 0);
    let exit = format!("{}{}{incomplete}", runs(summary), summary.exit);
    page.row("Elapsed", &figure(&summary.elapsed, seconds), &exit, failed);
    if let (Some(paused), Some(elapsed)) = (&summary.paused, summary.elapsed.value) {
        let rest = match summary.observed() {
            Some(_) => "figures are of the rest",
            None => "nothing was observed",
        };
        let of = format!("of {}; {rest}", seconds(elapsed));
        page.row("Paused", &figure(paused, seconds), &of, false);
    }
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
        who += " (from samples: no counter was available)";
    }
    if summary.cpu_time.value.is_some() {
        page.row("CPU time", &cpu, &format!("{utilisation}{who}"), false);
    } else if summary.extra.detail {
        page.entry("CPU time", &cpu);
    }
}

/// `2`, `1.5`.
fn number_of(cpus: f64) -> String {
    if cpus.fract() == 0.0 { format!("{cpus:.0}") } else { format!("{cpus:.1}") }
}

/// `3 runs (0.40 to 0.43 s), totals are of one of them, on average; `; nothing of a single one.
fn runs(summary: &Summary) -> String {
    let spread = &summary.spread;
    match (spread.fastest.value, spread.slowest.value) {
        (Some(fastest), Some(slowest)) if summary.runs > 1 => format!(
            "{} runs ({} to {}), totals are means per run; ",
            summary.runs,
            seconds(fastest),
            seconds(slowest)
        ),
        _ => String::new(),
    }
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

/// What to type next, and what it shows, as a comment that a shell takes along.
fn next(summary: &Summary, page: &mut Page) {
    let result = quoted(&summary.result);
    let detail = summary.extra.detail;
    let mut commands = Vec::new();
    if !detail {
        commands.push(first::detail(summary));
    }
    let mut add = |command: String, says: &str| commands.push((command, says.to_owned()));
    if let Some(function) = summary.top_functions.first() {
        let filter =
            quoted(&format!("function={}", analysis::bare_function_name(&function.function)));
        match function.file {
            Some(_) => {
                add(format!("fathom report source -r {result} --filter {filter}"), "its lines")
            }
            None => {
                add(format!("fathom report callers -r {result} --filter {filter}"), "who calls it")
            }
        }
    }
    if summary.extra.sampled_loads.is_some() {
        add(format!("fathom report latency -r {result} -g function"), "sampled loads");
        add(format!("fathom report sharing -r {result}"), "lines that threads share");
    }
    if summary.extra.only_counted {
        add(format!("fathom report events -r {result}"), "what was counted");
    }
    if summary.extra.cross_check.is_some() {
        add(format!("fathom report cross-check -r {result}"), "bursts against the hardware");
    }
    if !summary.top_objects.is_empty() {
        add(format!("fathom report objects -r {result}"), "all objects");
    }
    // What is left of a program that mostly waits is not in its samples.
    let split = &summary.time_split;
    let waits = split.waiting.value.zip(split.thread_time.value);
    let mostly_waits = waits.is_some_and(|(waiting, lived)| waiting >= lived * MOSTLY);
    if mostly_waits && summary.threading.is_none() && summary.target == "launched" {
        let words: Vec<String> = summary.command.iter().map(|word| quoted(word)).collect();
        add(format!("fathom collect threading -- {}", words.join(" ")), "what it waits for");
    }
    if !summary.regions.is_empty() {
        const NAMED: usize = 3;
        let (named, all) = (summary.regions.iter().take(NAMED), summary.regions.len());
        let more = if all > NAMED { format!(" and {} more", all - NAMED) } else { String::new() };
        let names: Vec<String> = named.map(|name| printable(name)).collect();
        let says = format!("the program's regions: {}{more}", names.join(", "));
        commands.push((format!("fathom report regions -r {result}"), says));
    }
    let mut add = |command: String, says: &str| commands.push((command, says.to_owned()));
    if summary.analysis == "memory-access" {
        add(format!("fathom report findings -r {result}"), "evidence, and what is undecided");
    }
    if detail && summary.extra.top_faults.is_some() {
        add(format!("fathom report faults -r {result} -g function,source-line"), "");
    }
    if detail && summary.coverage.traced.value.is_some_and(|traced| traced > 0.0) {
        add(format!("fathom report accesses -r {result}"), "");
    }
    if summary.kernel_entries.count.value.is_some() {
        add(format!("fathom report kernel -r {result}"), "entries by cause");
    }
    if summary.analysis == "uarch-exploration" {
        add(format!("fathom report uarch -r {result}"), "the top-down tree");
    }
    if detail {
        add(format!("fathom report timeline -r {result}"), "");
    }
    if let Some(command) = repeat::advice(summary).and_then(|advice| advice.command) {
        add(command, "narrower intervals");
    }
    if !summary.extra.calibrated {
        add("fathom machine".to_owned(), "measures this machine, in about 16 s");
    }
    page.heading("Next", "");
    for (command, says) in commands {
        // Not wrapped: it must survive being copied.
        let command = printable(&command);
        let room = command.chars().count() + says.chars().count() + 6 <= page.width;
        let says = match room && !says.is_empty() {
            true => page.paint.faint(&format!("  # {says}")),
            false => String::new(),
        };
        page.out += &format!("  {command}{says}\n");
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
    fn commands_survive_a_shell() {
        assert_eq!(quoted("function=main"), "function=main");
        assert_eq!(quoted("function=f(int)"), "'function=f(int)'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        let words = ["./a", "b c", "it's", "", "--n=3"].map(quoted).join(" ");
        assert_eq!(words, r"./a 'b c' 'it'\''s' '' --n=3");
    }
}
