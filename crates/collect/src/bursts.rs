//! Bursts beside sampling: from what the tracer observed, in addresses of processes, to facts.
//!
//! What for: the tracer knows addresses, the recorder knows which file lies there. What not: tracing (crate `burst`).

use std::time::Duration;

use base::{Nanos, Pid};
use burst::{NewBlock, Observation, Tracer};
use facts::{Block, BurstFlavour, BurstRefused, CodePiece, Fact, SinkError};

use crate::recorder::Recorder;

/// How bursts are taken.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BurstOptions {
    /// Share of the program's time that they may cost, 0..1.
    pub overhead: f64,
    /// Mean time between them; `None` lets it follow from `overhead`.
    pub interval: Option<Duration>,
    /// Longest burst.
    pub longest: Duration,
}

/// A running tracer.
pub struct Bursts {
    tracer: Tracer,
}

impl Bursts {
    /// Starts taking bursts.
    pub fn start(options: &BurstOptions, start: Nanos) -> std::io::Result<Bursts> {
        let BurstOptions { overhead, interval, longest } = *options;
        let options = burst::Options { start, overhead, interval, longest };
        Ok(Bursts { tracer: Tracer::start(options)? })
    }

    /// Where threads in translated code natively are.
    #[must_use]
    pub fn whereabouts(&self) -> burst::Whereabouts {
        self.tracer.whereabouts()
    }

    /// Does something that waits for the program, while no thread is traced; not now, if one is about to stop.
    pub fn undisturbed(&self, wait: impl FnOnce()) {
        self.tracer.undisturbed(wait);
    }

    /// Hands over what was observed, and learns which processes there are.
    pub fn look(&self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        self.tracer.set_processes(recorder.processes().collect());
        for one in self.tracer.observed() {
            record(one, recorder)?;
        }
        Ok(())
    }

    /// Ends; the program is left as it was.
    pub fn stop(&mut self, recorder: &mut Recorder<'_>) -> Result<burst::Cost, SinkError> {
        self.tracer.stop();
        for one in self.tracer.observed() {
            record(one, recorder)?;
        }
        Ok(self.tracer.cost())
    }
}

fn record(observation: Observation, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
    match observation {
        Observation::Block(pid, flavour, block) => {
            let block = translated(pid, flavour, block, recorder)?;
            recorder.push(Fact::Block(block))
        }
        Observation::Burst(burst) => recorder.push(Fact::Burst(burst)),
        Observation::Records(records) => recorder.push(Fact::Records(records)),
        Observation::Refused { time, pid, tid, at, reason } => {
            let at = at.and_then(|at| recorder.locate(pid, at));
            let reason = reason.word().to_owned();
            recorder.push(Fact::BurstRefused(BurstRefused { time, pid, tid, at, reason }))
        }
    }
}

fn translated(
    pid: Pid,
    flavour: BurstFlavour,
    block: NewBlock,
    recorder: &mut Recorder<'_>,
) -> Result<Block, SinkError> {
    let mut pieces = Vec::with_capacity(block.pieces.len());
    for piece in block.pieces {
        let (module, offset) = recorder.locate_or_unknown(pid, piece.address)?;
        pieces.push(CodePiece { address: piece.address, module, offset, bytes: piece.bytes });
    }
    Ok(Block { id: block.id, pid, flavour, pieces, record: block.record })
}
