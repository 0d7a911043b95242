//! What clock samples waited for: time by memory object, without any counter of the processor.
//!
//! What for: samples have skid: they are some instructions after the one that the core waited for. Registers and code bytes of a
//! sample identify that instruction's data, and so the object ([`Stalls::new`], [`stall_rows`]). What not: traffic, latencies.
//!
//! ```text
//! sample's registers + code -> suspects at the usual distance -> address -> object, at the sample's time
//! ```
//! * *Skid* is calibrated per machine and kind (`facts::host::SampleDistance`); for a kind without calibration, the instruction
//!   itself and the one before it are both possible.
//! * *Several suspects* share the sample equally.
//! * *Waiting or busy*: samples also follow loads that do not stall, as they follow any instruction. So the mean number of samples
//!   at instructions of the same basic block after which nothing can be waited for is deducted from the value; the upper end of
//!   the interval keeps it.
//! * *Lost addresses*: if bursts show one object only for the site, it is that. Otherwise a chase has the object of its next
//!   address, and a gather that of its base. Else the time belongs to no object, and a note says so.
//!
//! Assumptions: those of `x86::Surroundings`. Hypervisor and kernel time is no wait of an instruction, and spinning is none for
//! data. The facts are allegations:
//! what does not decode is counted and left out.

mod place;
mod rows;

use std::collections::{BTreeMap, HashMap};

use base::{CodeAddress, CpuId, FileOffset, Nanos, Pid, RemoteAddr, ThreadId, Tid};
use facts::{Privilege, Recording, SampledFrame, SampledState};
use x86::{Access, Gpr, Operand, Suspect, Term, WaitKind, Whereabouts};

use self::place::{Distances, SampledAddress, places};
use crate::profile::Profile;
use crate::stack::{LocationId, NodeIndex};
use crate::threading::SpinTable;
use crate::threads::ThreadIndex;
use crate::traced::SiteName;
use crate::weight::Weight;

pub use self::rows::{ObjectsOfSites, StallRow, StallRows, stall_rows};

/// Where the data lies that a sample waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Data {
    /// There.
    Address(RemoteAddr),
    /// Somewhere in what begins, or is, at this base of a gather.
    Base(RemoteAddr),
    /// It was lost; the load takes its next turn there.
    NextTurn(RemoteAddr),
    /// Not known.
    Lost,
}

/// Who waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) time: Nanos,
    pub(crate) pid: Pid,
    pub(crate) thread: ThreadIndex,
    pub(crate) cpu: Option<CpuId>,
    /// Where the sample's stack ends.
    pub(crate) at: LocationId,
}

/// The access that a sample waited for, or one of those it may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) who: Waiting,
    pub(crate) site: SiteName,
    pub(crate) access: Access,
    pub(crate) data: Data,
    /// CPU time, ns: its part where several share a sample.
    pub(crate) weight: u64,
    /// The part of it that is beyond what stands at any instruction of the block.
    pub(crate) excess: f64,
}

/// What is known of all samples.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StallTotals {
    /// Samples in the program's code with registers and known code.
    pub examined: Weight,
    /// Those after an access.
    pub waiting: Weight,
    /// Those of them whose address is known.
    pub addressed: Weight,
    /// Those of them with several suspects.
    pub shared: Weight,
    /// Those among accesses, at instructions that follow none: core time, or waits that the clock
    /// does not place.
    pub among: Weight,
    /// Those after a division.
    pub dividing: Weight,
    /// Those of which it is not known what ran before.
    pub unknown: Weight,
    /// Pieces of registers that do not decode.
    pub damaged: u64,
}

/// What all samples waited for.
pub struct Stalls {
    pub(crate) waited: Vec<Waited>,
    /// Sums.
    pub totals: StallTotals,
    /// The kinds whose distance was not calibrated on this machine.
    pub uncalibrated: Vec<WaitKind>,
    missing: Option<&'static str>,
}

/// A sample of the clock.
#[derive(Clone, Copy)]
struct Ticked {
    weight: u64,
    cpu: Option<CpuId>,
    stack: Option<NodeIndex>,
}

impl Stalls {
    /// Looks at every sample twice. Linear in their number.
    #[must_use]
    pub fn new(profile: &Profile<'_>) -> Stalls {
        let recording = profile.recording;
        let distances = Distances::read(recording);
        let mut stalls = Stalls {
            waited: Vec::new(),
            totals: StallTotals::default(),
            uncalibrated: distances.unknown(),
            missing: why_nothing(recording),
        };
        if stalls.missing.is_some() {
            return stalls;
        }
        let ticks = ticks(profile);
        let mut weights: BTreeMap<CodeAddress, u64> = BTreeMap::new();
        each_sample(recording, &ticks, |_, state, tick| {
            *weights.entry(state.place.code_address()).or_default() += tick.weight;
        });
        let places = places(recording, &distances, &weights);
        let bases: HashMap<ThreadId, u64> = recording
            .bursts
            .iter()
            .map(|burst| (ThreadId::new(burst.pid, burst.tid), burst.fs_base.0))
            .collect();
        let mut spinning = SpinTable::new(&profile.stacks);
        stalls.totals.damaged =
            each_sample(recording, &ticks, |ThreadId { pid, tid }, state, tick| {
                let at = state.place.code_address();
                let (Some(thread), Some(place)) = (profile.threads.find(pid, tid), places.get(&at))
                else {
                    return;
                };
                if spinning.spins(tick.stack) {
                    return;
                }
                let at = profile.stacks.innermost_user(tick.stack);
                let who = Waiting { time: state.time, pid, thread, cpu: tick.cpu, at };
                stalls.add(
                    place,
                    state,
                    tick.weight,
                    who,
                    bases.get(&ThreadId::new(pid, tid)).copied(),
                );
            });
        stalls
    }

    /// Why there is nothing to say, if so.
    #[must_use]
    pub fn missing(&self) -> Option<&'static str> {
        self.missing
    }

    fn add(
        &mut self,
        place: &SampledAddress,
        state: &SampledState<'_>,
        weight: u64,
        who: Waiting,
        fs_base: Option<u64>,
    ) {
        let Some(suspects) = &place.suspects else {
            self.totals.unknown.add(weight);
            return;
        };
        self.totals.examined.add(weight);
        let accesses = suspects.iter().filter_map(|one| Some((one, one.access?)));
        let Some(share) = weight.checked_div(suspects.len() as u64) else {
            if place.near_access {
                self.totals.among.add(weight);
            }
            return;
        };
        let mut known = [0u64; 2];
        for (suspect, (number, access)) in accesses {
            let data = data(suspect, state, fs_base);
            known[usize::from(data != Data::Lost)] += share;
            let offset = FileOffset(suspect.instruction.0);
            let instruction = CodeAddress::new(state.place.module, offset);
            let site = SiteName { instruction, number };
            let excess = share as f64 * place.beyond;
            self.waited.push(Waited { who, site, access, data, weight: share, excess });
        }
        let [lost, addressed] = known;
        let totals = &mut self.totals;
        let of = |sum: &mut Weight, part: u64| {
            if part > 0 {
                sum.add(part)
            }
        };
        of(&mut totals.waiting, lost + addressed);
        of(&mut totals.addressed, addressed);
        of(&mut totals.dividing, weight - lost - addressed);
        of(&mut totals.shared, if suspects.len() > 1 { weight } else { 0 });
    }
}

/// Where the data of a suspect lies, by the registers of the sample.
fn data(suspect: &Suspect, state: &SampledState<'_>, fs_base: Option<u64>) -> Data {
    let moved = state.place.address.0.wrapping_sub(state.place.offset.0);
    let resolve = |operand: &Operand| {
        operand.resolve(|register: Gpr| state.register(register.number()), fs_base, moved)
    };
    let word = |term| match term {
        Term::Register(register) => state.register(register.number()),
        Term::Slot(slot) => state.slot(slot),
    };
    let data = match &suspect.place {
        Whereabouts::Address(operand) => resolve(operand).map(Data::Address),
        Whereabouts::Sum(sum) => sum.resolve(word, moved).map(Data::Address),
        Whereabouts::Lanes(operand) => resolve(operand).map(Data::Base),
        Whereabouts::Next(operand) => resolve(operand).map(Data::NextTurn),
        Whereabouts::Lost(_) | Whereabouts::Nothing => None,
    };
    data.unwrap_or(Data::Lost)
}

/// Gives every sample in the program's own code that has registers, and says how many pieces do not decode.
fn each_sample(
    recording: &Recording,
    ticks: &HashMap<(Pid, Tid, Nanos), Ticked>,
    mut take: impl FnMut(ThreadId, &SampledState<'_>, &Ticked),
) -> u64 {
    let mut damaged = 0;
    for piece in &recording.sample_registers {
        let decoded = facts::decode_registers(&piece.bytes, |state| {
            let own = state.place.frame == SampledFrame::Own;
            let tick = ticks.get(&(piece.pid, piece.tid, state.time));
            if let Some(tick) = tick.filter(|_| own) {
                take(ThreadId::new(piece.pid, piece.tid), state, tick);
            }
        });
        damaged += u64::from(decoded.is_err());
    }
    damaged
}

fn why_nothing(recording: &Recording) -> Option<&'static str> {
    if recording.sample_registers.is_empty() {
        return Some("the clock samples of this result have no registers");
    }
    let none = recording.sampled_code.is_empty();
    none.then_some("the code around the clock samples of this result is not known")
}

/// The samples in the program's own code.
fn ticks(profile: &Profile<'_>) -> HashMap<(Pid, Tid, Nanos), Ticked> {
    let user =
        profile.recording.samples.iter().filter(|sample| sample.privilege == Privilege::User);
    user.map(|sample| {
        let stack = sample.stack.and_then(|id| profile.stacks.find(id));
        let tick = Ticked { weight: sample.weight.0, cpu: sample.cpu, stack };
        ((sample.pid, sample.tid, sample.time), tick)
    })
    .collect()
}
