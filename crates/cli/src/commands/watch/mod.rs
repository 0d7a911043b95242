//! `fathom watch`: again and again, for a few seconds, a profile of the process that uses most memory time on this machine.
//!
//! ```text
//!   off? budget? ──> choose ──> collect --pid ──> report summary ──> export pprof ──> export otlp, dataset add ──> log, metrics
//!     guard, budget   choice      (each is a command of Fathom as a child: helper, round, send)
//! ```
//! What for: the schedule, the log, and what survives a restart. What not: profiling, which is an ordinary `fathom collect`
//! with its rules for what may be attached to; the steps of a round (`round`).
//!
//! Assumption: one watch per spool. A failure in a round is logged, and the next round begins in time.

mod budget;
mod choice;
mod helper;
mod log;
mod metrics;
mod round;
mod send;
mod spool;
mod workload;

pub use choice::Selection;

use std::collections::BTreeMap;
use std::io::Read;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Nanos, Pid};
use serde_json::{Value, json};
use sys::process::{Signal, SignalFd};

use self::budget::{Budget, HOUR};
use self::helper::{Guard, Stop};
use self::log::Log;
use self::metrics::{Counts, Figures, Watched};
use self::spool::Spool;
use self::workload::Workload;
use crate::arguments::{Format, WatchOptions};
use crate::exit::{CANNOT_MEASURE, Failure};

/// Seconds for which memory's share of a workload's time is remembered: programs change.
const BELIEVED: f64 = 86_400.0;
/// Number of remembered workloads; beyond it the oldest are forgotten.
const MOST_REMEMBERED: usize = 500;
/// Number of the last hour's profiles that are among the metrics.
const MOST_SHOWN: usize = 20;

/// A profile among the metrics.
struct Shown {
    when: f64,
    program: String,
    workload: Workload,
    figures: Figures,
}

/// A watch that runs.
struct Watch<'a> {
    options: &'a WatchOptions,
    guard: Guard<'a>,
    spool: Spool,
    log: Log,
    budget: Budget,
    cpus: usize,
    counts: Counts,
    /// Memory's share of each workload's time, and when that was measured.
    memory: BTreeMap<String, (f64, f64)>,
    shown: Vec<Shown>,
    /// Processes that may not be profiled, with their beginning.
    refused: Vec<(Pid, u64)>,
    /// Number of results that could not be read to their end.
    tries: BTreeMap<String, u32>,
    /// CPU time of ours that is in the budget already.
    charged: Nanos,
    last_profile: Option<f64>,
    /// The dataset that results were added to: it is not made anew.
    sent_to: Option<String>,
    /// What `--listen` answers.
    page: Arc<Mutex<String>>,
}

/// Watches until a signal ends it, or for one round.
pub fn watch(options: &WatchOptions) -> Result<ExitCode, Failure> {
    if !matches!(options.format, Format::Text | Format::Json) {
        return Err(Failure::usage("a log has the formats text and json"));
    }
    // Now: each round would fail with it.
    crate::knobs::parse(&options.knobs)?;
    if let Some(dataset) = &options.dataset {
        crate::commands::dataset::bucket(dataset)?;
    }
    if let Some(address) = &options.otlp {
        address.parse::<crate::http::Address>().map_err(Failure::usage)?;
    }
    // Before any thread is started: threads inherit the mask.
    let signals = SignalFd::of(&[Signal::Interrupt, Signal::Terminate, Signal::HangUp])
        .map_err(|error| Failure::new(CANNOT_MEASURE, error))?;
    let spool = Spool::open(&options.spool, options.spool_limit * 1_000_000)?;
    let page = Arc::new(Mutex::new(String::new()));
    let mut watch =
        Watch::new(options, Guard::new(&signals, &options.off_file), spool, page.clone());
    if let Some(port) = options.listen {
        let text = move || page.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let port = web::serve_text(port, "/metrics", text)
            .map_err(|error| Failure::new(CANNOT_MEASURE, error))?;
        watch.log.say(
            "listening",
            &format!("metrics at http://127.0.0.1:{port}/metrics"),
            json!({ "port": port }),
        );
    }
    watch.log.say(
        "started",
        &watch.plan(),
        json!({ "budget_seconds_per_hour": watch.budget.allowed }),
    );
    let began = Instant::now();
    let made = loop {
        let wait = watch.budget.wait(now());
        let made = wait == 0.0 && watch.round();
        if wait > 0.0 {
            watch.say_waiting(wait);
        }
        watch.show();
        let next = moment(began.elapsed().as_secs_f64(), options.every.as_secs_f64(), random());
        if options.once || watch.guard.sleep(Duration::from_secs_f64(next.max(wait))).is_some() {
            break made;
        }
    };
    let asked = watch.guard.stop() == Some(Stop::Signal);
    watch.log.say("ended", "ended", json!({}));
    Ok(if made || asked || !options.once {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(CANNOT_MEASURE)
    })
}

/// Seconds until a random moment of the next interval. So what other programs do every ten minutes is neither always met nor
/// always missed, and the hosts of a fleet do not write at the same moment. `random`: 0 to 1.
fn moment(elapsed: f64, interval: f64, random: f64) -> f64 {
    ((elapsed / interval).floor() + 1.0 + random) * interval - elapsed
}

fn random() -> f64 {
    let mut bytes = [0; 4];
    let file = std::fs::File::open("/dev/urandom");
    // Without randomness, the middle.
    let read = file.and_then(|mut file| file.read_exact(&mut bytes));
    read.map_or(0.5, |()| f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX))
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl<'a> Watch<'a> {
    fn new(
        options: &'a WatchOptions,
        guard: Guard<'a>,
        spool: Spool,
        page: Arc<Mutex<String>>,
    ) -> Watch<'a> {
        let state = spool.state();
        let cpus = super::collect::online_cpus().len();
        let pair = |value: &Value| Some((value[0].as_f64()?, value[1].as_f64()?));
        let spent = state["spent"].as_array().into_iter().flatten().filter_map(pair);
        let memory = state["memory"].as_object().into_iter().flatten();
        let count = |name: &str| state["counts"][name].as_u64().unwrap_or(0);
        Watch {
            options,
            guard,
            log: Log { json: options.format == Format::Json },
            budget: Budget::new(options.budget, cpus, spent),
            cpus,
            counts: Counts {
                rounds: count("rounds"),
                profiles: count("profiles"),
                failures: count("failures"),
                sent: count("sent"),
                dropped: count("dropped"),
                cost: state["counts"]["cost"].as_f64().unwrap_or(0.0),
            },
            memory: memory.filter_map(|(key, value)| Some((key.clone(), pair(value)?))).collect(),
            shown: Vec::new(),
            refused: Vec::new(),
            tries: BTreeMap::new(),
            charged: Nanos(0),
            last_profile: state["last_profile"].as_f64(),
            sent_to: state["dataset"].as_str().map(str::to_owned),
            spool,
            page,
        }
    }

    /// What it is going to do.
    fn plan(&self) -> String {
        let WatchOptions { every, length, top, budget, .. } = self.options;
        let dataset = match &self.options.dataset {
            Some(dataset) => format!("adds them to {}", dataset.display()),
            None => "adds them to no dataset (--dataset)".to_owned(),
        };
        let sends = match &self.options.otlp {
            Some(address) => format!("sends profiles to {address}"),
            None => "sends nothing (--otlp)".to_owned(),
        };
        let processes =
            if *top == 1 { "one process".to_owned() } else { format!("{top} processes") };
        format!(
            "every {:.0} s: profiles {processes} for {:.1} s, keeps results in {}, {dataset}, {sends}; may take {budget} % of this host, \
             {:.1} s of CPU time in an hour; {} turns it off",
            every.as_secs_f64(),
            length.as_secs_f64(),
            self.options.spool.display(),
            self.budget.allowed,
            self.options.off_file.display(),
        )
    }

    fn say_waiting(&self, wait: f64) {
        let message = format!(
            "waits {wait:.0} s: {:.1} s of the {:.1} s that Fathom may take in an hour are used",
            self.budget.spent(now()),
            self.budget.allowed
        );
        self.log.say("waiting", &message, json!({ "seconds": wait }));
    }

    /// Puts what was spent since the last call into the budget, with what it cost the programs.
    fn charge(&mut self, programs: f64) {
        let used = sys::process::own_usage().cpu() + sys::process::children_usage().cpu();
        let cost = (used.saturating_sub(self.charged)).seconds() + programs;
        self.charged = used;
        self.counts.cost += cost;
        self.budget.spend(now(), cost);
    }

    /// Share of the host's time in the last hour.
    fn cost(&self) -> f64 {
        self.budget.spent(now()) / (self.cpus as f64 * HOUR)
    }

    /// Remembers the figures of a profile.
    fn note(&mut self, key: String, shown: Shown) {
        if let Some(share) = shown.figures.memory_bound_at_most {
            self.memory.insert(key, (share, shown.when));
        }
        while self.memory.len() > MOST_REMEMBERED {
            let oldest = self.memory.iter().min_by(|one, other| one.1.1.total_cmp(&other.1.1));
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.memory.remove(&oldest);
        }
        self.last_profile = Some(shown.when);
        // Of two with the same labels Prometheus would take none.
        let labels = |one: &Shown| -> Vec<String> {
            one.workload.names().map(|(key, value)| format!("{key}={value}")).collect()
        };
        self.shown.retain(|one| one.program != shown.program || labels(one) != labels(&shown));
        self.shown.insert(0, shown);
        self.shown.truncate(MOST_SHOWN);
    }

    /// Writes the metrics, and what the next process must know.
    fn show(&mut self) {
        let waiting = self.sends().then(|| self.spool.waiting().len() as u64);
        self.charge(0.0);
        let now = now();
        self.shown.retain(|one| now - one.when < HOUR);
        self.memory.retain(|_, (_, when)| now - *when < BELIEVED);
        let watched = Watched {
            counts: self.counts.clone(),
            cost: self.cost(),
            budget: self.options.budget / 100.0,
            off: self.guard.stop() == Some(Stop::Off),
            waiting,
            spool_bytes: self.spool.size().bytes,
            last_round: now,
            last_profile: self.last_profile,
        };
        let profiles =
            self.shown.iter().map(|one| (one.program.as_str(), &one.workload, &one.figures));
        let text = metrics::text(&watched, profiles);
        if let Some(file) = &self.options.metrics
            && let Err(error) = spool::replace(file, text.as_bytes(), 0o644)
        {
            let message = format!("cannot write {}: {error}", file.display());
            self.log.say("failed", &message, json!({}));
        }
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = text;
        let Counts { rounds, profiles, failures, sent, dropped, cost } = self.counts;
        let memory: BTreeMap<_, _> =
            self.memory.iter().map(|(key, (share, when))| (key, [share, when])).collect();
        let state = json!({
            "spent": self.budget.entries().map(|(when, cost)| [when, cost]).collect::<Vec<_>>(),
            "counts": { "rounds": rounds, "profiles": profiles, "failures": failures, "sent": sent, "dropped": dropped, "cost": cost },
            "memory": memory,
            "last_profile": self.last_profile,
            "dataset": self.sent_to,
        });
        if let Err(error) = self.spool.keep_state(&state) {
            let message =
                format!("cannot store the CPU time used, which the next start needs: {error}");
            self.log.say("failed", &message, json!({}));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn each_interval_has_one_moment() {
        assert_eq!(moment(0.0, 600.0, 0.0), 600.0);
        assert_eq!(moment(700.0, 600.0, 0.5), 800.0);
        assert_eq!(moment(1199.0, 600.0, 1.0), 601.0);
    }
}
