//! What a recording needs when it is over: names for the addresses in it, the hottest loops timed alone, closed tables.

use std::collections::BTreeSet;
use std::path::Path;

use base::{FileOffset, ModuleId, Pid};
use collect::floor::HotCode;
use collect::wait_objects::WaitObjects;
use collect::{HeldFiles, symbolise};
use facts::{Block, Fact, Module, Run, RunState, Sink, SinkError};
use store::Writer;

use super::store_failure;
use crate::commands::variables::DataPlaces;
use crate::exit::Failure;
use crate::progress::Progress;

/// Remembers, while facts pass, which addresses must be named at the end.
pub(super) struct Noting {
    writer: Writer,
    modules: Vec<Module>,
    addresses: BTreeSet<(ModuleId, FileOffset)>,
    /// Decoded at the end only: nobody waits then.
    blocks: Vec<Block>,
    hot_code: HotCode,
    /// Where memory objects are wanted.
    data: Option<DataPlaces>,
    pub(super) first_pid: Option<Pid>,
    wait_objects: WaitObjects,
}

impl Noting {
    pub(super) fn new(writer: Writer, objects: bool) -> Noting {
        Noting {
            writer,
            modules: Vec::new(),
            addresses: BTreeSet::new(),
            blocks: Vec::new(),
            hot_code: HotCode::default(),
            data: objects.then(DataPlaces::default),
            first_pid: None,
            wait_objects: WaitObjects::default(),
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
            Fact::StackNode(node) => {
                self.addresses.insert((node.module, node.offset));
            }
            Fact::Block(block) => self.blocks.push(block.clone()),
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

/// Measures what the hottest code takes without its memory; some two seconds at most, eight on a busy machine. Who
/// interrupts wants to be done.
pub(super) fn time_hot_code(sink: &mut Noting, run: &mut Run, quiet: bool) {
    let Some(hz) = run.host.tsc_hz.filter(|hz| *hz > 0.0) else { return };
    if run.stopped_by.as_deref() == Some("interrupted") {
        return;
    }
    let mut progress = Progress::new(!quiet);
    let measured = sink.hot_code.measure(&sink.blocks, 1.0 / hz, &mut |done| {
        progress.show(done, "timing hot code without its memory");
    });
    drop(progress);
    match measured {
        Ok(floors) => {
            let core = floors.core.into_iter().map(Fact::CoreFloor);
            for floor in core.chain(floors.kept.into_iter().map(Fact::KeptFloor)) {
                // A full disk: closing the tables fails too and says so.
                if sink.writer.push(floor).is_err() {
                    return;
                }
            }
        }
        Err(error) => run.notes.push(format!("hot code was not timed without its memory: {error}")),
    }
}

/// Names the symbols, by the files that were open while the program ran, and closes the tables.
pub(super) fn finish(
    mut sink: Noting,
    files: HeldFiles,
    run: &mut Run,
    directory: &Path,
    quiet: bool,
) -> Result<store::Finished, Failure> {
    let mut progress = Progress::new(!quiet);
    let mut addresses: Vec<_> = sink.addresses.iter().copied().collect();
    let traced = symbolise::traced_addresses(&sink.blocks);
    addresses.extend(&traced);
    let options = symbolise::Options { typed: traced, files, ..symbolise::Options::default() };
    let named = symbolise::symbolise(&sink.modules, &addresses, &options, &mut |done, all| {
        progress.show(done as f64 / all.max(1) as f64, "naming functions");
    });
    drop(progress);
    run.notes.extend(named.problems);
    for object in sink.wait_objects.name(&sink.modules) {
        // As below.
        if sink.writer.push(Fact::WaitObject(object)).is_err() {
            break;
        }
    }
    let frames = named.frames.into_iter().map(Fact::Frame);
    for fact in frames.chain(named.types.into_iter().map(Fact::AccessType)) {
        // A full disk: the tables below fail too and say so.
        if sink.writer.push(fact).is_err() {
            break;
        }
    }
    if let Some(data) = sink.data.take() {
        data.write(&sink.modules, &options, run, &mut sink.writer);
    }
    run.state = RunState::Complete;
    sink.writer.finish(run).map_err(|error| store_failure(error).hint(kept_in(directory)))
}

pub(super) fn kept_in(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "what was collected is kept in {directory} and opens with `fathom report summary -r {directory}`"
    )
}
