//! The rounds of a trial: what runs next, and when to stop. After an interrupt the complete rounds count.
//!
//! What not: the statistics (`analysis::trial`), the table (`report::trials`).

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use analysis::trial::{LOOKS, Round, Verdict, effect, more_rounds};
use report::trials::Tried;

use crate::exit::{CANNOT_MEASURE, Failure};
use crate::order::Order;
use crate::progress::Progress;
use crate::timed_run::{TimedRun, take_over_interrupts, timed_run};
use sys::process::SignalFd;

/// A remedy that is tried.
pub struct Candidate {
    pub name: String,
    what: String,
    variables: Vec<(String, String)>,
    before: Vec<OsString>,
    line: String,
    rounds: Vec<Round>,
    /// Decided, or pointless: not run any more.
    done: bool,
    trouble: Option<String>,
}

impl Candidate {
    pub fn new(
        name: &str,
        what: &str,
        variables: Vec<(String, String)>,
        before: Vec<OsString>,
        line: String,
    ) -> Candidate {
        let (name, what) = (name.to_owned(), what.to_owned());
        let (rounds, done, trouble) = (Vec::new(), false, None);
        Candidate { name, what, variables, before, line, rounds, done, trouble }
    }
}

/// The output of the plain program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    NotSeen,
    Always(u64),
    /// Times, addresses: it differs from run to run.
    Varies,
}

/// What a trial found.
pub struct Outcome {
    /// Seconds that the runs without a remedy took.
    pub plain: Vec<f64>,
    /// The largest gain first.
    pub tried: Vec<Tried>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// A trial that runs.
pub struct Rounds<'a> {
    command: &'a [OsString],
    candidates: Vec<Candidate>,
    plain: Vec<f64>,
    /// How the first plain run ended: each run must end with the same code, whatever it is.
    exit: Option<ExitStatus>,
    output: Output,
    budget: Duration,
    progress: Progress,
    order: Order,
    notes: Vec<String>,
    interrupts: SignalFd,
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextStep {
    GoOn,
    Stop,
}

impl<'a> Rounds<'a> {
    pub fn new(
        command: &'a [OsString],
        candidates: Vec<Candidate>,
        budget: Duration,
        quiet: bool,
    ) -> Result<Rounds<'a>, Failure> {
        let interrupts =
            take_over_interrupts().map_err(|error| Failure::new(CANNOT_MEASURE, error))?;
        Ok(Rounds {
            interrupts,
            command,
            candidates,
            plain: Vec::new(),
            exit: None,
            output: Output::NotSeen,
            budget,
            progress: Progress::new(!quiet),
            order: Order(0x9E37_79B9_7F4A_7C15 ^ u64::from(std::process::id())),
            notes: Vec::new(),
        })
    }

    /// Runs until all remedies are decided or the budget is used up, at least two rounds; or until an interrupt.
    pub fn run(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        let most = LOOKS.last().copied().unwrap_or(0);
        for round in 1..=most {
            let round_began = Instant::now();
            if self.round(began)? == NextStep::Stop {
                return self.interrupted(round);
            }
            if LOOKS.contains(&round) {
                self.decide();
            }
            if self.candidates.iter().all(|candidate| candidate.done) {
                return Ok(());
            }
            if round >= 2 && began.elapsed() + round_began.elapsed() > self.budget {
                let seconds = self.budget.as_secs();
                self.notes.push(format!("{round} rounds within the budget of {seconds} s."));
                self.say_what_is_missing(round_began.elapsed());
                return Ok(());
            }
        }
        self.notes.push(format!("Stopped after {most} rounds."));
        Ok(())
    }

    /// The measurements before round `round` are shown if a remedy ran at all.
    fn interrupted(&mut self, round: usize) -> Result<(), Failure> {
        if self.candidates.iter().all(|candidate| candidate.rounds.is_empty()) {
            let message = "interrupted before any remedy ran";
            return Err(Failure::new(CANNOT_MEASURE, anyhow::Error::msg(message)));
        }
        self.notes.push(format!("Interrupted in round {round}: the runs before count."));
        Ok(())
    }

    fn round(&mut self, began: Instant) -> Result<NextStep, Failure> {
        let Some(plain) = self.timed(None, began)? else { return Ok(NextStep::Stop) };
        let expected = *self.exit.get_or_insert(plain.exit);
        if plain.exit != expected || plain.exit.code().is_none() {
            let message = match plain.exit == expected {
                true => format!("the program failed: {}", plain.exit),
                false => format!(
                    "the program ends differently from run to run and cannot be compared: {expected}, then {}",
                    plain.exit
                ),
            };
            return Err(Failure::new(CANNOT_MEASURE, anyhow::Error::msg(message)));
        }
        self.output = match self.output {
            Output::NotSeen => Output::Always(plain.output),
            Output::Always(before) if before == plain.output => self.output,
            _ => Output::Varies,
        };
        self.plain.push(plain.seconds);
        for index in self.open_in_random_order() {
            let Some(run) = self.timed(Some(index), began)? else { return Ok(NextStep::Stop) };
            let (output, rounds) = (self.output, self.plain.len());
            let candidate = &mut self.candidates[index];
            candidate.rounds.push(Round { plain: plain.seconds, changed: run.seconds });
            let differs = matches!(output, Output::Always(always) if always != run.output);
            // One plain run alone does not tell whether its output is always the same.
            let trouble = match () {
                () if run.exit != expected => Some(format!("fails: {}", run.exit)),
                () if differs && rounds >= 2 => Some("prints something else".to_owned()),
                () => None,
            };
            candidate.done |= trouble.is_some();
            candidate.trouble = trouble;
        }
        Ok(NextStep::GoOn)
    }

    /// Reports what more rounds would decide, and how long these take.
    fn say_what_is_missing(&mut self, round: Duration) {
        let changes = self.candidates.len();
        for candidate in self.candidates.iter().filter(|candidate| !candidate.done) {
            if effect(&candidate.rounds, changes).verdict != Verdict::Open {
                continue;
            }
            let name = &candidate.name;
            self.notes.push(match more_rounds(&candidate.rounds, changes) {
                Some(more) => {
                    let budget = self.budget + round * u32::try_from(more).unwrap_or(u32::MAX);
                    format!(
                        "About {more} more rounds would decide {name}: --budget {:.0}.",
                        budget.as_secs_f64().ceil()
                    )
                }
                None => format!("The number of rounds that would decide {name} is not known yet."),
            });
        }
    }

    /// The undecided remedies in random order, so that no remedy always follows the same other one. Those that the
    /// findings advise come first, for a user who interrupts soon.
    fn open_in_random_order(&mut self) -> Vec<usize> {
        let open: Vec<usize> =
            (0..self.candidates.len()).filter(|index| !self.candidates[*index].done).collect();
        if self.plain.len() == 1 {
            return open;
        }
        self.order.shuffled(open.len()).into_iter().map(|at| open[at]).collect()
    }

    /// `None` when it was interrupted.
    fn timed(&mut self, index: Option<usize>, began: Instant) -> Result<Option<TimedRun>, Failure> {
        let candidate = index.map(|index| &self.candidates[index]);
        let name = candidate.map_or("as it is", |candidate| candidate.name.as_str());
        let done = began.elapsed().as_secs_f64() / self.budget.as_secs_f64().max(1e-3);
        self.progress.show(done.min(1.0), &format!("round {}: {name}", self.plain.len() + 1));
        let before = candidate.map_or(&[][..], |candidate| &candidate.before);
        let variables = candidate.map_or(&[][..], |candidate| &candidate.variables);
        let command: Vec<OsString> = before.iter().chain(self.command).cloned().collect();
        timed_run(&command, variables, &self.interrupts)
            .map_err(|error| Failure::new(CANNOT_MEASURE, error))
    }

    fn decide(&mut self) {
        let changes = self.candidates.len();
        for candidate in self.candidates.iter_mut().filter(|candidate| !candidate.done) {
            candidate.done = effect(&candidate.rounds, changes).verdict != Verdict::Open;
        }
    }

    /// Ends the trial.
    pub fn finish(self) -> Outcome {
        let changes = self.candidates.len();
        let tried = self.candidates.into_iter().map(|candidate| Tried {
            effect: effect(&candidate.rounds, changes),
            times: candidate.rounds.iter().map(|round| round.changed).collect(),
            name: candidate.name,
            what: candidate.what,
            trouble: candidate.trouble,
            line: candidate.line,
        });
        let mut tried: Vec<Tried> = tried.collect();
        let gain = |tried: &Tried| tried.effect.change.value.unwrap_or(0.0);
        tried.sort_by(|a, b| gain(a).total_cmp(&gain(b)));
        let mut notes = self.notes;
        if self.output == Output::Varies {
            notes.push(
                "The program's output differs from run to run: whether remedies change it was not checked."
                    .to_owned(),
            );
        }
        Outcome { plain: self.plain, tried, notes }
    }
}
