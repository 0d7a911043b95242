//! Bursts alongside sampling: turns the tracer's observations, in addresses of processes, into facts.
//!
//! What for: the tracer knows addresses, the recorder knows the files at them. What not: tracing (crate `burst`).

use base::{CodeAddress, Nanos, Pid};
use burst::{Cost, NewBlock, Observation, Tracer};
pub use burst::{NativeAddresses, Options as BurstOptions, is_our_mapping};
use facts::{Block, BurstFlavour, BurstRefused, CodePiece, Fact, SinkError, TimedLoadOverhead};
use sys::kernels::time_cached_loads;

use crate::recorder::Recorder;

/// A running tracer.
pub struct Bursts {
    tracer: Tracer,
}

impl Bursts {
    /// Starts taking bursts.
    pub fn start(options: BurstOptions, start: Nanos) -> std::io::Result<Bursts> {
        Ok(Bursts { tracer: Tracer::start(options, start)? })
    }

    /// The native addresses of translated code.
    #[must_use]
    pub fn native_addresses(&self) -> NativeAddresses {
        self.tracer.native_addresses()
    }

    /// Takes no bursts from now on, or takes them again.
    pub fn pause(&self, paused: bool) {
        self.tracer.pause(paused);
    }

    /// Runs `wait`, which waits for the program, while no thread is traced. Does nothing if a thread is about to
    /// stop.
    pub fn undisturbed(&self, wait: impl FnOnce()) {
        self.tracer.undisturbed(wait);
    }

    /// Passes on new observations, and updates the tracer's list of processes.
    pub fn look(&self, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
        self.tracer.set_processes(recorder.processes().collect());
        self.tracer.note_code(recorder.take_code());
        for one in self.tracer.observed() {
            record(one, recorder)?;
        }
        Ok(())
    }

    /// Ends tracing; the program is left unchanged.
    pub fn stop(&mut self, recorder: &mut Recorder<'_>) -> Result<Cost, SinkError> {
        self.tracer.stop();
        for one in self.tracer.observed() {
            record(one, recorder)?;
        }
        Ok(self.tracer.cost())
    }
}

/// Measures the time that timed loads contain besides the load. Takes less than a tenth of a millisecond.
#[must_use]
pub fn timed_load_overhead() -> Option<TimedLoadOverhead> {
    // The first loads bring the line and the code into the caches and raise the clock.
    const WARM_UP: usize = 100;
    let mut cycles = [0; WARM_UP + 900];
    if !time_cached_loads(&mut cycles) {
        return None;
    }
    let warm = &mut cycles[WARM_UP..];
    warm.sort_unstable();
    let at = |tenths: usize| warm[warm.len() * tenths / 10];
    let (p10, median, p90) = (at(1), at(5), at(9));
    let usual: Vec<f64> =
        warm.iter().filter(|one| **one <= 2 * p90).map(|one| f64::from(*one)).collect();
    let mean = Some(usual.iter().sum::<f64>() / usual.len().max(1) as f64);
    Some(TimedLoadOverhead { p10, median, p90, mean })
}

fn record(observation: Observation, recorder: &mut Recorder<'_>) -> Result<(), SinkError> {
    match observation {
        Observation::Block(pid, flavour, block) => {
            let block = translated(pid, flavour, block, recorder)?;
            recorder.push(Fact::Block(block))
        }
        Observation::Burst(burst) => recorder.push(Fact::Burst(burst)),
        Observation::Records(records) => recorder.push(Fact::Records(records)),
        Observation::WordAdvance(advance) => recorder.push(Fact::WordAdvance(advance)),
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
        let CodeAddress { module, offset } = recorder.locate_or_unknown(pid, piece.address)?;
        pieces.push(CodePiece { address: piece.address, module, offset, bytes: piece.bytes });
    }
    Ok(Block { id: block.id, pid, flavour, pieces, record: block.record })
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_overhead_of_timed_loads_is_measured() {
        let no_miss = super::timed_load_overhead().expect("a time-stamp counter");
        assert!(
            0 < no_miss.p10 && no_miss.p10 <= no_miss.median && no_miss.median <= no_miss.p90,
            "{no_miss:?}"
        );
    }
}
