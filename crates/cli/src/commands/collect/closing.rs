//! Closes a recording: names its addresses, measures no-miss times of the hottest code, closes the tables.
//!
//! What not: the report afterwards (`afterwards`).

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use base::{CodeAddress, Nanos, Pid};
use collect::no_miss::HotCode;
use collect::symbolise::{Elsewhere, Globals, Naming, Symbolised, Wanted};
use collect::wait_objects::WaitObjects;
use collect::{HeldFiles, symbolise};
use facts::{Block, Fact, Module, Run, RunState, Sink, SinkError, decode_registers};
use store::{Opened, Writer};

use super::store_failure;
use crate::commands::report::print_early_summary;
use crate::commands::variables::DataPlaces;
use crate::exit::Failure;
use crate::progress::Progress;

/// Most bytes of registers that wait to be counted: some two minutes of a thread.
const MOST_PIECES_BYTES: usize = 4 << 20;

/// Collects, while facts pass, the addresses to be named at the end.
pub(in crate::commands) struct Noting {
    writer: Writer,
    modules: Vec<Module>,
    /// With duplicates, which are not removed while the program runs; at most as many as the stack tree has nodes.
    addresses: Vec<CodeAddress>,
    /// Those that an imported file names itself.
    named: HashSet<CodeAddress>,
    /// Decoded at the end, when no thread waits.
    blocks: Vec<Block>,
    hot_code: HotCode,
    /// Samples with registers, by address: the code there is kept.
    sampled: BTreeMap<CodeAddress, u64>,
    /// Pieces of registers that are not among these yet, and their bytes. Short programs have ended before they are decoded.
    pieces: Vec<Vec<u8>>,
    pieces_bytes: usize,
    /// The data addresses, if memory objects are wanted.
    data: Option<DataPlaces>,
    pub(in crate::commands) first_pid: Option<Pid>,
    wait_objects: WaitObjects,
}

impl Noting {
    pub(in crate::commands) fn new(writer: Writer, objects: bool) -> Noting {
        Noting {
            writer,
            modules: Vec::new(),
            addresses: Vec::new(),
            named: HashSet::new(),
            blocks: Vec::new(),
            hot_code: HotCode::default(),
            sampled: BTreeMap::new(),
            pieces: Vec::new(),
            pieces_bytes: 0,
            data: objects.then(DataPlaces::default),
            first_pid: None,
            wait_objects: WaitObjects::default(),
        }
    }

    fn count_sampled(&mut self) {
        self.pieces_bytes = 0;
        for bytes in self.pieces.drain(..) {
            // Encoded by ourselves.
            let _ = decode_registers(&bytes, |state| {
                *self.sampled.entry(state.place.code_address()).or_default() += 1;
            });
        }
    }
}

impl Sink for Noting {
    fn push(&mut self, fact: Fact) -> Result<(), SinkError> {
        self.hot_code.note(&fact);
        self.wait_objects.note(&fact);
        if let Some(data) = &mut self.data {
            data.note(&fact, &self.modules);
        }
        match &fact {
            Fact::Module(module) => self.modules.push(module.clone()),
            Fact::StackNode(node) => self.addresses.push(node.code_address()),
            Fact::Frame(frame) => {
                self.named.insert(frame.code_address());
            }
            Fact::Block(block) => self.blocks.push(block.clone()),
            Fact::SampleRegisters(piece) => {
                self.pieces_bytes += piece.bytes.len();
                self.pieces.push(piece.bytes.clone());
                if self.pieces_bytes > MOST_PIECES_BYTES {
                    self.count_sampled();
                }
            }
            Fact::ThreadEvent(event) => {
                self.first_pid.get_or_insert(event.pid);
            }
            _ => {}
        }
        self.writer.push(fact)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.writer.flush().map_err(SinkError::from)
    }
}

/// The time limits of the steps after a program's end, so that its report appears soon.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Deadline {
    end: Nanos,
    allowed: f64,
}

impl Deadline {
    /// A second after the program's end, or 5 % of its run if that is more, but at most three. Response times above a
    /// second break a user's train of thought (Nielsen, Usability Engineering, 1993, 5.5).
    pub(in crate::commands) fn new(end: Nanos, elapsed: Nanos) -> Deadline {
        Deadline { end, allowed: (elapsed.seconds() * 0.05).clamp(1.0, 3.0) }
    }

    /// The end of this part of the time (CLOCK_MONOTONIC).
    fn after(self, part: f64) -> Nanos {
        self.end + self.part(part)
    }

    fn part(self, part: f64) -> Nanos {
        Nanos((self.allowed * part * 1e9) as u64)
    }
}

/// Shares of the time: hot code is timed for the first, naming is awaited until the second, and the rest is for the
/// report (`analysis` limits its work accordingly).
const TIMED: f64 = 0.35;
const NAMED: f64 = 0.6;
/// Below this share of a CPU we wait for other programs, until `LATEST` at most.
const STARVED: f64 = 0.6;
const LATEST: Nanos = Nanos(3_000_000_000);

/// Measures the no-miss time of the hottest code. Skipped after an interrupt: the user wants to be done.
pub(in crate::commands) fn time_hot_code(
    sink: &mut Noting,
    run: &mut Run,
    deadline: Deadline,
    quiet: bool,
) {
    let Some(hz) = run.host.tsc_hz.filter(|hz| *hz > 0.0) else { return };
    if run.stopped_by.as_deref() == Some("interrupted") {
        return;
    }
    // Not until then: on a busy machine all of it may have passed.
    let mut progress = Progress::new(!quiet);
    let left = deadline.part(TIMED);
    let measured = sink.hot_code.measure(&sink.blocks, 1.0 / hz, left, &mut |done| {
        progress.show(done, "timing hot code with all data in L1");
    });
    drop(progress);
    match measured {
        Ok(no_miss_times) => {
            if no_miss_times.left_out > 0 {
                run.notes.push(format!(
                    "{} pieces of hot code were timed with all data in L1; there was no time for {} more",
                    no_miss_times.core.len(),
                    no_miss_times.left_out
                ));
            }
            run.branch_replays = no_miss_times.branches;
            let core = no_miss_times.core.into_iter().map(Fact::NoMissTime);
            for no_miss in core.chain(no_miss_times.kept.into_iter().map(Fact::NoReloadTime)) {
                // A full disk: closing the tables fails too and says so.
                if sink.writer.push(no_miss).is_err() {
                    return;
                }
            }
        }
        Err(error) => {
            run.notes.push(format!("hot code was not timed with all data in L1: {error}"))
        }
    }
}

/// A recording whose symbols are being looked up.
pub(in crate::commands) struct Closing {
    writer: Writer,
    naming: Naming,
    named: Option<(Symbolised, Globals)>,
}

impl Closing {
    /// Starts to look symbols up, in the files that were open while the program ran, and waits for them as long as
    /// the limit allows.
    pub(in crate::commands) fn begin(
        mut sink: Noting,
        files: HeldFiles,
        elsewhere: Elsewhere,
        deadline: Deadline,
        quiet: bool,
    ) -> Closing {
        sink.count_sampled();
        let mut addresses = sink.addresses;
        addresses.retain(|address| !sink.named.contains(address));
        let traced = symbolise::traced_addresses(&sink.blocks);
        addresses.extend(&traced);
        let (typed, sampled) = (traced, sink.sampled.into_iter().collect());
        let options = symbolise::Options {
            typed,
            sampled,
            files,
            elsewhere,
            ..symbolise::Options::default()
        };
        for object in sink.wait_objects.name(&sink.modules) {
            // A full disk: closing the tables fails too and says so.
            if sink.writer.push(Fact::WaitObject(object)).is_err() {
                break;
            }
        }
        let (mappings, processes) = sink.data.map(DataPlaces::into_parts).unwrap_or_default();
        let mut naming = Naming::start(Wanted {
            modules: sink.modules,
            addresses,
            options,
            mappings,
            processes,
        });
        let named = wait_on_busy_machine(&mut naming, deadline, quiet);
        Closing { writer: sink.writer, naming, named }
    }

    /// Prints the report now, if names are still missing. Returns whether it did.
    pub(in crate::commands) fn report_early(
        &mut self,
        run: &Run,
        directory: &Path,
        quiet: bool,
    ) -> Result<bool, Failure> {
        if self.named.is_some() || quiet {
            return Ok(false);
        }
        self.writer.flush().map_err(|error| store_failure(error).hint(kept_in(directory)))?;
        let mut run = run.clone();
        run.notes.push(
            "much debug information is still being read: some functions have no names or lines here, and variables and \
             types none; later reports have them"
                .to_owned(),
        );
        print_early_summary(directory, &run, self.naming.so_far())?;
        eprintln!(
            "fathom: reading the remaining debug information (Ctrl-C leaves it to later reports)"
        );
        Ok(true)
    }

    /// Waits for the rest of the names, and closes the tables, while `report` gets what they will hold.
    pub(in crate::commands) fn finish(
        mut self,
        run: &mut Run,
        directory: &Path,
        quiet: bool,
        report: Option<&dyn Fn(Opened) -> Result<(), Failure>>,
    ) -> Result<store::Finished, Failure> {
        let kept = |error| store_failure(error).hint(kept_in(directory));
        let named = self.named.or_else(|| wait(&mut self.naming, Nanos(u64::MAX), quiet));
        let (named, globals) = named.unwrap_or_default();
        run.notes.extend(named.problems);
        run.notes.extend(globals.problems);
        let frames = named.frames.into_iter().map(Fact::Frame);
        let types = named.types.into_iter().map(Fact::AccessType);
        let assigned = named.assignments.into_iter().map(Fact::Assignment);
        let code = named.code.into_iter().map(Fact::SampledCode);
        let globals = globals.globals.into_iter().map(Fact::Global);
        for fact in frames.chain(types).chain(assigned).chain(code).chain(globals) {
            // A full disk: the tables below fail too and say so.
            if self.writer.push(fact).is_err() {
                break;
            }
        }
        run.state = RunState::Complete;
        let report = report.map(|report| Ok((report, self.writer.recording(run)?)));
        let report = report.transpose().map_err(kept)?;
        let (finished, shown) = analysis::parallel::both(
            || self.writer.finish(run),
            || report.map_or(Ok(()), |(report, recording)| report(recording)),
        );
        let finished = finished.map_err(kept)?;
        run.notes.extend(finished.notes.iter().cloned());
        shown.map(|()| finished)
    }
}

/// Waits until the time limit. Waits longer if other programs use the CPUs: then the cause is not the amount of debug
/// information, and reading it after the report would not help.
fn wait_on_busy_machine(
    naming: &mut Naming,
    deadline: Deadline,
    quiet: bool,
) -> Option<(Symbolised, Globals)> {
    let (begin, used) = (sys::process::monotonic(), sys::process::own_usage().cpu());
    // On a busy machine, timing hot code may have taken all of the time.
    let mut until = deadline.after(NAMED).max(begin + deadline.part(NAMED - TIMED));
    loop {
        let named = wait(naming, until, quiet);
        let now = sys::process::monotonic();
        let starved =
            (sys::process::own_usage().cpu() - used).seconds() < STARVED * (now - begin).seconds();
        if named.is_some() || !starved || now >= deadline.end + LATEST {
            return named;
        }
        until = now + Nanos(100_000_000);
    }
}

fn wait(naming: &mut Naming, until: Nanos, quiet: bool) -> Option<(Symbolised, Globals)> {
    let mut progress = Progress::new(!quiet);
    naming.wait(until, &mut |done, all| {
        progress.show(done as f64 / all.max(1) as f64, "naming functions");
    })
}

pub(in crate::commands) fn kept_in(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "the recording is kept in {directory}; open it with `fathom report summary -r {directory}`"
    )
}
