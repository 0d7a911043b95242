//! `fathom mpi`: the ranks of a job, side by side.
//!
//! What for: which rank has most work, and which wait for it. What not: figures (`summary`), many jobs (`dataset`).

use facts::{ExitKind, Metric, Run, RunState};

use crate::Document;
use crate::summary::{Summary, signal_name};
use crate::table::{Cell, CellStyle, Column, Table};
use crate::text::seconds;

/// A job.
pub struct Job {
    /// Its directory.
    pub name: String,
    /// The ranks that left a result.
    pub ranks: Vec<RankOfJob>,
    /// The others.
    pub missing: Vec<u32>,
}

/// A rank, and what its result says.
pub struct RankOfJob {
    rank: u32,
    host: Option<String>,
    traced: bool,
    end: String,
    /// CPU time outside waits in MPI, and that in them.
    work: Option<Work>,
    figures: [Metric; 6],
    result: String,
}

/// Seconds of CPU time of a rank.
#[derive(Clone, Copy)]
struct Work {
    /// Outside waits in MPI, likely and at least.
    done: [f64; 2],
    /// Waiting in MPI: likely, at least and at most.
    waited: [f64; 3],
    cpu: f64,
}

impl Work {
    fn new(cpu: &Metric, wait: &Metric) -> Option<Work> {
        let (cpu, best) = cpu.value.zip(wait.value)?;
        let (low, high) = (wait.low.unwrap_or(best), wait.high.unwrap_or(best));
        Some(Work { done: [cpu - best, cpu - high], waited: [best, low, high], cpu })
    }
}

impl RankOfJob {
    /// From its result.
    #[must_use]
    pub fn new(rank: u32, run: &Run, summary: &Summary) -> RankOfJob {
        let end = match (run.state, run.exit) {
            (RunState::Incomplete, _) => "recording broke off".to_owned(),
            (_, Some(ExitKind::Code(0))) => "ended".to_owned(),
            (_, Some(ExitKind::Code(code))) => format!("exit code {code}"),
            (_, Some(ExitKind::Signal(signal))) => signal_name(signal),
            (_, Some(ExitKind::StillRunning)) => "still runs".to_owned(),
            (_, Some(ExitKind::Unknown) | None) => "unknown".to_owned(),
        };
        let wait = summary.time_split.mpi_wait.clone();
        let wait = wait.unwrap_or_else(|| Metric::unavailable("s", "no rank is known"));
        let moving = summary.time_split.mpi_moving.clone();
        let moving = moving.unwrap_or_else(|| Metric::unavailable("s", "no rank is known"));
        let share = match summary.cpu_time.value.filter(|cpu| *cpu > 0.0) {
            Some(cpu) => wait.times(100.0 / cpu, "percent"),
            None => Metric::unavailable("percent", "the CPU time is not known"),
        };
        let (cpu, elapsed) = (summary.cpu_time.clone(), summary.elapsed.clone());
        RankOfJob {
            rank,
            host: run.host_name.clone(),
            traced: summary.coverage.bursts.value.is_some_and(|bursts| bursts > 0.0),
            end,
            work: Work::new(&cpu, &wait),
            figures: [elapsed, cpu, wait, share, moving, summary.memory_bound.clone()],
            result: summary.result.clone(),
        }
    }

    /// Seconds in which it moves data in MPI.
    fn moving(&self) -> Option<f64> {
        let [.., moving, _memory_bound] = &self.figures;
        moving.value
    }

    fn row(&self) -> Vec<Cell> {
        let mut cells = vec![
            Cell::Number(self.rank.into()),
            Cell::text_or_missing(self.host.as_deref()),
            Cell::text(if self.traced { "traced" } else { "sampled" }),
            Cell::text(&self.end),
        ];
        cells.extend(self.figures.iter().cloned().map(Cell::metric));
        cells.push(Cell::text(&self.result));
        cells
    }
}

const COLUMNS: [Column; 11] = [
    Column { key: "rank", label: "Rank", unit: None },
    Column { key: "host", label: "Host", unit: None },
    Column { key: "recorded", label: "Recorded", unit: None },
    Column { key: "end", label: "End", unit: None },
    Column { key: "elapsed", label: "Elapsed", unit: Some("s") },
    Column { key: "cpu_time", label: "CPU time", unit: Some("s") },
    Column { key: "mpi_wait", label: "Waiting in MPI", unit: Some("s") },
    Column { key: "mpi_wait_percent", label: "Of CPU time", unit: Some("percent") },
    Column { key: "mpi_moving", label: "Moving data in MPI", unit: Some("s") },
    Column { key: "memory_bound", label: "Memory bound", unit: Some("percent") },
    Column { key: "result", label: "Result", unit: None },
];

/// The rank with most work is named where it has this much more than the mean, percent.
const UNEVEN: f64 = 10.0;

impl Job {
    /// That ranks left no result.
    #[must_use]
    pub fn says_missing(&self) -> Option<String> {
        let names: Vec<String> = self.missing.iter().map(ToString::to_string).collect();
        let (ranks, their) = match names.len() {
            0 => return None,
            1 => ("Rank", "its node"),
            _ => ("Ranks", "their nodes"),
        };
        Some(format!(
            "{ranks} {} left no result: the job ended before, or {their} cannot write into {}.",
            names.join(", "),
            self.name
        ))
    }

    /// CPU time outside waits in MPI, where one rank has clearly more of it than the others, and how long these wait.
    fn says_imbalance(&self) -> Option<String> {
        let all = self.ranks.iter().map(|rank| Some((rank.rank, rank.work?)));
        let all = all.collect::<Option<Vec<_>>>().filter(|all| all.len() > 1)?;
        let mean = all.iter().map(|(_, work)| work.done[0]).sum::<f64>() / all.len() as f64;
        let most = all.iter().max_by(|(_, a), (_, b)| a.done[0].total_cmp(&b.done[0]))?;
        let (rank, Work { done: [done, at_least], .. }) = *most;
        let more = (done / mean - 1.0) * 100.0;
        if mean <= 0.0 || more < UNEVEN || at_least < mean {
            return None;
        }
        let others = || all.iter().filter(|(other, _)| *other != rank).map(|(_, work)| work);
        let cpu: f64 = others().map(|work| work.cpu).sum();
        let [best, low, high] =
            [0, 1, 2].map(|end| 100.0 * others().map(|work| work.waited[end]).sum::<f64>() / cpu);
        Some(format!(
            "Rank {rank} has most work: {} of CPU time outside waits in MPI, {more:.0} % more than the mean of all ranks. The \
             others wait in MPI for {best:.0} % of their CPU time ({low:.0} to {high:.0} %).",
            seconds(done)
        ))
    }
}

/// Makes the view.
#[must_use]
pub fn ranks(job: &Job) -> Document {
    let mut notes: Vec<String> =
        job.says_imbalance().into_iter().chain(job.says_missing()).collect();
    if let Some(first) = job.ranks.iter().find(|rank| rank.traced).or(job.ranks.first()) {
        notes.push(format!("One rank: fathom report summary -r {}/{}", job.name, first.result));
    }
    notes.push(format!("Many jobs: fathom dataset add fleet {}/rank.*", job.name));
    let moves = job.ranks.iter().any(|rank| rank.moving().is_some_and(|time| time > 0.0));
    Document::Table(Box::new(Table {
        view: "ranks",
        title: format!("ranks of {}", job.name),
        result: job.name.clone(),
        columns: COLUMNS.to_vec(),
        total: vec![Cell::Missing; COLUMNS.len()],
        rows: job.ranks.iter().map(RankOfJob::row).collect(),
        notes,
        text_columns: [
            CellStyle::Number("rank").titled("Rank"),
            CellStyle::Text("host").titled("Host"),
            CellStyle::Text("recorded").titled("Recorded"),
            CellStyle::Text("end").titled("End"),
            CellStyle::Time("elapsed").titled("Elapsed"),
            CellStyle::Time("cpu_time").titled("CPU time"),
            CellStyle::Time("mpi_wait").titled("Waiting"),
            CellStyle::Percent("mpi_wait_percent").titled("of it %"),
            CellStyle::Time("mpi_moving").titled("Moving"),
            CellStyle::Percent("memory_bound").titled("Memory bound %"),
        ]
        .into_iter()
        .filter(|column| moves || column.style != CellStyle::Time("mpi_moving"))
        .collect(),
        page: usize::MAX,
        empty: "No rank left a result.".to_owned(),
    }))
}
