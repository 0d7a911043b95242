//! Collects, while facts pass, the processes and modules whose variables need names.
//!
//! What not: reading the modules (`collect::symbolise`).

use std::collections::BTreeMap;

use base::Pid;
use facts::{Fact, Mapping, Module, ModuleKind};

/// Most mappings of code that are kept. Libraries that a program loads beyond these have no variables.
const MOST_MAPPINGS: usize = 100_000;

/// What was noted.
#[derive(Default)]
pub struct DataPlaces {
    mappings: Vec<Mapping>,
    /// Number of data addresses per process: from bursts, sampled faults and accesses, registers of clock
    /// samples.
    processes: BTreeMap<Pid, u64>,
}

impl DataPlaces {
    /// Notes a fact that matters; `modules` are those so far.
    pub fn note(&mut self, fact: &Fact, modules: &[Module]) {
        match fact {
            Fact::Mapping(mapping) if self.mappings.len() < MOST_MAPPINGS => {
                let module = modules.iter().rev().find(|module| module.id == mapping.module);
                if module.is_some_and(|module| module.kind == ModuleKind::File) {
                    self.mappings.push(*mapping);
                }
            }
            Fact::Burst(burst) => *self.processes.entry(burst.pid).or_default() += 1,
            Fact::Fault(fault) => *self.processes.entry(fault.pid).or_default() += 1,
            Fact::MemorySample(sample) => *self.processes.entry(sample.pid).or_default() += 1,
            Fact::SampleRegisters(piece) => {
                *self.processes.entry(piece.pid).or_default() += u64::from(piece.samples);
            }
            _ => {}
        }
    }

    /// The mappings, and the processes, those with the most addresses first.
    pub fn into_parts(self) -> (Vec<Mapping>, Vec<Pid>) {
        let mut processes: Vec<(u64, Pid)> =
            self.processes.into_iter().map(|(pid, count)| (count, pid)).collect();
        processes.sort_unstable_by(|a, b| b.cmp(a));
        (self.mappings, processes.into_iter().map(|(_, pid)| pid).collect())
    }
}
