//! A round of the watch: chooses a workload, profiles it, reads the figures, and has waiting results sent.
//!
//! What for: the consequences of each failure for this result and the next rounds. What not: when a round begins (`mod`), how a
//! child is ended (`helper`), where results go (`send`).
//!
//! A result is in the spool before anything else happens to it, so that a kill at any moment loses no measurement.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use base::{Nanos, Pid};
use collect::busy::running_processes;
use facts::{Run, RunState};
use serde_json::{Value, json};

use super::choice::{Candidate, ChoiceFilters, choose};
use super::helper::{Ended, Stop};
use super::metrics::Figures;
use super::spool::{Removed, Spool};
use super::workload::Workload;
use super::{Shown, Watch, log, now};
use crate::arguments::AnalysisName;
use crate::exit::USAGE;

/// Between the two looks that tell who is busy now.
const BETWEEN: Duration = Duration::from_secs(1);
/// The largest result of one profile, MB. Less where the spool is small.
const LARGEST: u64 = 50;
/// Processes that are tried beyond those that are wanted, because some may not be profiled.
const MORE: usize = 2;
/// Upper bound of a sample's cost, as a share of the time between two (`fathom collect` states 5 to 16 us, every ms): used
/// where the cost was not measured on this machine.
const SAMPLING: f64 = 0.016;
/// Share of a program's time that bursts may take: used where the recording broke off before it knew its own.
const BURSTS: f64 = 0.03;

impl Watch<'_> {
    /// Does all of a round. Whether it was as it should be: a profile was made, or there was nothing to do.
    pub(super) fn round(&mut self) -> bool {
        self.counts.rounds += 1;
        let before = self.counts.cost;
        let tried = match self.guard.stop() {
            Some(Stop::Off) => {
                let file = self.options.off_file.display();
                self.log.say("off", &format!("off: {file} is there"), json!({}));
                None
            }
            Some(_) => None,
            None => self.profile_busiest(),
        };
        if self.guard.stop().is_none() {
            self.send_waiting();
        }
        self.charge(0.0);
        if tried.is_some() {
            self.budget.note_round(self.counts.cost - before);
        }
        tried != Some(0)
    }

    /// How many profiles were made; `None` where there was nothing to profile.
    fn profile_busiest(&mut self) -> Option<usize> {
        let (before, began) = (running_processes(), sys::process::monotonic());
        if self.guard.sleep(BETWEEN).is_some() {
            return None;
        }
        let after = running_processes();
        let between = sys::process::monotonic() - began;
        self.refused
            .retain(|(pid, began)| after.get(pid).is_some_and(|process| process.began == *began));
        let shares = self.memory.iter().map(|(key, (share, _))| (key.clone(), *share)).collect();
        let wanted = ChoiceFilters {
            select: &self.options.select,
            exclude: &self.options.exclude,
            own: Pid(std::process::id().cast_signed()),
            memory_shares: &shares,
        };
        let mut found = choose(&before, after, between, &wanted, Workload::of);
        let all = found.len();
        found.retain(|one| !self.refused.contains(&(one.pid, one.process.began)));
        if found.is_empty() {
            let which = if self.options.select.is_empty() {
                "no process"
            } else {
                "nothing that was selected"
            };
            let message = match all - found.len() {
                0 => format!("idle: {which} used 5 % of a CPU"),
                refused => format!("idle: the {refused} busy workloads may not be profiled"),
            };
            self.log.say("idle", &message, json!({}));
            return None;
        }
        if self.guard.stop().is_some() {
            return None;
        }
        let (mut made, top) = (0, usize::from(self.options.top));
        for candidate in found.iter().take(top + MORE) {
            if made == top || self.guard.stop().is_some() {
                break;
            }
            made += usize::from(self.profile(candidate));
        }
        Some(made)
    }

    pub(super) fn left(&self) -> Nanos {
        Nanos((self.budget.left(now()) * 1e9) as u64)
    }

    /// Runs a command of Fathom; what it cost is charged. A command that could not be started is a failure like others.
    pub(super) fn run(&mut self, words: Vec<OsString>, urgent: bool) -> Option<Ended> {
        let ended = self.guard.run(&words, urgent, self.left());
        self.charge(0.0);
        ended
            .inspect_err(|error| {
                self.log.say("failed", &format!("cannot start fathom: {error}"), json!({}))
            })
            .ok()
    }

    /// Profiles a process. Whether there is a result.
    fn profile(&mut self, candidate: &Candidate) -> bool {
        let megabytes = LARGEST.min(self.options.spool_limit / 4).max(1);
        let removed = self.spool.make_room(megabytes * 1_000_000);
        self.note_removed(&removed, "the spool is full");
        let (program, pid) = (&candidate.process.name, candidate.pid);
        let target = candidate.workload.json(pid, program);
        let name = format!("{}-{pid}", log::time(now() as u64).replace(['-', ':'], ""));
        let result = match self.spool.new_result(&name, &target) {
            Ok(result) => result,
            Err(error) => {
                self.failed(candidate, &format!("cannot write into the spool: {error}"));
                self.note_full_disk();
                return false;
            }
        };
        let Some(ended) = self.run(self.collect_words(pid, &result, megabytes), true) else {
            return false;
        };
        let run = store::read_run(&result).ok();
        let Some(run) = run.filter(|_| ended.status.success() || ended.stopped.is_some()) else {
            Spool::remove(&result);
            if ended.stopped.is_none() {
                self.failed(candidate, &ended.why());
                match ended.status.code().map(i32::cast_unsigned) {
                    // It is gone, or was another one by then.
                    Some(code) if code == u32::from(USAGE) => {}
                    _ if is_full(&ended) => self.note_full_disk(),
                    _ => self.refused.push((pid, candidate.process.began)),
                }
            }
            return false;
        };
        let figures = self.figures(&result).unwrap_or_default();
        self.charge(cost_to_program(&run, candidate.cpus, self.options.length, &figures));
        let broke_off = ended.stopped.is_none() && run.state == RunState::Incomplete;
        if broke_off && figures.cpus.is_none() {
            // Nothing was written before the disk was full.
            Spool::remove(&result);
            self.failed(candidate, &ended.why());
            self.note_full_disk();
            return false;
        }
        if ended.stopped.is_none() {
            self.export(&result, &name);
        }
        if !self.sends()
            && let Err(error) = self.spool.keep(&result)
        {
            self.failed(candidate, &format!("cannot keep its result: {error}"));
        }
        self.counts.profiles += 1;
        self.say_profiled(candidate, &run, &figures, &name, &ended);
        if is_full(&ended) {
            self.note_full_disk();
        }
        let workload = candidate.workload.clone();
        let shown = Shown { when: now(), program: program.clone(), workload, figures };
        self.note(candidate.key(), shown);
        true
    }

    fn collect_words(&self, pid: Pid, result: &Path, megabytes: u64) -> Vec<OsString> {
        let analysis = self.options.analysis;
        let length = self.options.length.as_secs_f64().to_string();
        let (pid, megabytes) = (pid.to_string(), megabytes.to_string());
        let name = clap::ValueEnum::to_possible_value(&analysis);
        let name = name.map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut words: Vec<OsString> = [
            "collect",
            &name,
            "-q",
            "-d",
            &length,
            "--limit",
            &megabytes,
            "--pid",
            &pid,
            "-k",
            "dram-bandwidth-limits=false",
        ]
        .map(OsString::from)
        .to_vec();
        if matches!(analysis, AnalysisName::MemoryAccess | AnalysisName::UarchExploration) {
            // The heap library stays in a process that was attached to: every ten minutes another one.
            words.extend(["-k", "analyze-mem-objects=false"].map(OsString::from));
        }
        for knob in &self.options.knobs {
            words.extend(["-k", knob].map(OsString::from));
        }
        words.extend(["-r".into(), result.as_os_str().to_owned()]);
        words
    }

    /// What the report says of a result.
    fn figures(&mut self, result: &Path) -> Option<Figures> {
        let mut words =
            ["report", "summary", "--format", "json", "-r"].map(OsString::from).to_vec();
        words.push(result.as_os_str().to_owned());
        let ended = self.run(words, false)?;
        let summary: Value = serde_json::from_slice(&ended.output).ok()?;
        Some(Figures::of_summary(&summary))
    }

    /// Writes pprof, where that is wanted. A reader of the folder sees whole files only.
    fn export(&mut self, result: &Path, name: &str) {
        let Some(folder) = &self.options.pprof else { return };
        let file = folder.join(format!("{name}.pb.gz"));
        let temporary = folder.join(format!(".{name}.new"));
        if let Err(error) = std::fs::create_dir_all(folder) {
            let message = format!("cannot make {}: {error}", folder.display());
            return self.log.say("failed", &message, json!({}));
        }
        let mut words: Vec<OsString> = ["export", "pprof", "-r"].map(OsString::from).to_vec();
        words.extend([result.as_os_str().to_owned(), "-o".into(), temporary.clone().into()]);
        words.extend(self.redaction());
        let Some(ended) = self.run(words, false) else { return };
        let written = ended.status.success() && std::fs::rename(&temporary, &file).is_ok();
        if !written {
            let _ = std::fs::remove_file(&temporary);
            self.log.say("failed", &format!("no pprof of {name}: {}", ended.why()), json!({}));
        }
    }

    pub(super) fn redaction(&self) -> Vec<OsString> {
        let name = |what: &crate::redact::Redact| clap::ValueEnum::to_possible_value(what);
        let names = self.options.redact.iter().filter_map(name);
        names.flat_map(|value| ["--redact".into(), OsString::from(value.get_name())]).collect()
    }

    /// Makes room after a disk was full.
    fn note_full_disk(&mut self) {
        // Without others there is nothing to remove: what was recorded stays.
        if self.spool.size().results > 1
            && let Some(removed) = self.spool.remove_oldest()
        {
            self.note_removed(&[removed], "the disk is full");
        }
    }

    pub(super) fn note_removed(&mut self, removed: &[Removed], why: &str) {
        let names: Vec<&str> = removed.iter().map(|one| one.name.as_str()).collect();
        for name in &names {
            if let Some(folder) = &self.options.pprof {
                let _ = std::fs::remove_file(folder.join(format!("{name}.pb.gz")));
            }
        }
        // Where they go nowhere, the spool is all there is, and old ones are meant to go.
        let lost = match self.sends() {
            true => removed.iter().filter(|one| one.is_lost).count() as u64,
            false => 0,
        };
        self.counts.dropped += lost;
        if !names.is_empty() {
            let message = format!(
                "removed {} from the spool, {lost} of them not sent: {why}",
                names.join(", ")
            );
            self.log.say("dropped", &message, json!({ "results": names, "not_sent": lost }));
        }
    }

    fn failed(&mut self, candidate: &Candidate, why: &str) {
        self.counts.failures += 1;
        let message = format!("no profile of {}: {why}", named(candidate));
        let target = candidate.workload.json(candidate.pid, &candidate.process.name);
        self.log.say("failed", &message, json!({ "target": target, "why": why }));
    }

    fn say_profiled(
        &self,
        candidate: &Candidate,
        run: &Run,
        figures: &Figures,
        name: &str,
        ended: &Ended,
    ) {
        let seconds = run.elapsed_ns as f64 / 1e9;
        let mut parts = vec![format!("profiled {}", named(candidate))];
        let until = match (ended.stopped, run.state) {
            (Some(Stop::Off), _) => ", until it was turned off".to_owned(),
            (Some(Stop::Signal), _) => ", until a signal".to_owned(),
            (Some(Stop::Budget), _) => ", until the budget was used up".to_owned(),
            (None, RunState::Incomplete) => format!(", broken off: {}", ended.why()),
            (None, RunState::Complete) => String::new(),
        };
        parts.push(format!("{seconds:.1} s{until}"));
        parts.extend(figures.cpus.map(|cpus| format!("{cpus:.2} CPUs")));
        parts.extend(
            figures.memory_bound.map(|share| format!("memory {:.0} % of its time", share * 100.0)),
        );
        parts.extend(figures.function.as_ref().map(|function| format!("most in {function}")));
        let cost = self.cost();
        parts.push(format!("Fathom took {:.3} % of this host in the last hour", cost * 100.0));
        let fields = json!({
            "target": candidate.workload.json(candidate.pid, &candidate.process.name),
            "result": name,
            "seconds": seconds,
            "state": match run.state { RunState::Complete => "complete", RunState::Incomplete => "incomplete" },
            "cpus": figures.cpus,
            "memory_bound": figures.memory_bound,
            "dram_bytes_per_second": figures.dram_bandwidth,
            "function": figures.function,
            "verdict": figures.verdict,
            "cost_ratio": cost,
        });
        self.log.say("profiled", &parts.join(", "), fields);
    }
}

/// Whether a command failed because of a full disk: the words of `store` and `dataset`.
fn is_full(ended: &Ended) -> bool {
    ended.said.contains("no space left")
}

/// `walk (pid 4242, 17 inside, pod shop-7)`.
fn named(candidate: &Candidate) -> String {
    let inner = candidate.workload.inner_pid.map(|inner| format!(", {inner} inside"));
    let names: String =
        candidate.workload.names().map(|(key, value)| format!(", {key} {value}")).collect();
    format!(
        "{} (pid {}{}{names})",
        candidate.process.name,
        candidate.pid,
        inner.unwrap_or_default()
    )
}

/// Seconds that a recording took from the program's threads.
fn cost_to_program(run: &Run, cpus: f64, length: Duration, figures: &Figures) -> f64 {
    if run.state == RunState::Incomplete {
        return (SAMPLING + BURSTS) * cpus * length.as_secs_f64();
    }
    let own = &run.own_cost;
    let parts = [
        own.burst_stand_still_ns,
        own.burst_slowdown_ns,
        own.fault_watching_ns,
        own.switch_watching_ns,
    ];
    let measured = parts.into_iter().flatten().sum::<u64>() as f64 / 1e9;
    let cpu = figures.cpus.unwrap_or(cpus) * run.elapsed_ns as f64 / 1e9;
    measured + figures.sampling_cost.unwrap_or(cpu * SAMPLING)
}
