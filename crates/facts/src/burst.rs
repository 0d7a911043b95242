//! What bursts of translated code observed.
//!
//! What for: a burst is a short time in which one thread ran translated code that recorded where it read and wrote.
//! A [`Block`] says what code was translated and what its records hold; [`Records`] are those of one burst, in order, so
//! that every address can be rebuilt exactly. What not: rebuilding (`analysis`, with the decoder of `x86`).

use base::{BlockId, BurstId, FileOffset, ModuleId, Nanos, Picos, Pid, RemoteAddr, Tid};

/// What the translated code of a burst was for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BurstFlavour {
    /// Record every address.
    Trace,
    /// Count blocks.
    Count,
    /// Time single loads.
    Timed,
    /// Count only blocks that run seldom, in the copies of [`BurstFlavour::Count`]: what counters cost, and the native pace.
    Sparse,
}

impl BurstFlavour {
    /// Of which flavour the blocks are that its records name.
    #[must_use]
    pub fn of_blocks(self) -> BurstFlavour {
        match self {
            BurstFlavour::Sparse => BurstFlavour::Count,
            own => own,
        }
    }
}

/// Code that lies together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodePiece {
    /// Address of its first byte in the process.
    pub address: RemoteAddr,
    /// The module of that address.
    pub module: ModuleId,
    /// The first byte's offset in it.
    pub offset: FileOffset,
    /// Whole instructions.
    pub bytes: Vec<u8>,
}

/// A translated block. Emitted once, before the first [`Records`] that name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The id records use.
    pub id: BlockId,
    /// The process.
    pub pid: Pid,
    /// What its records are.
    pub flavour: BurstFlavour,
    /// Its instructions in order of execution: a new piece begins where a direct jump or call was followed.
    pub pieces: Vec<CodePiece>,
    /// What a record holds, as `x86::translate::RecordLayout` writes it.
    pub record: String,
}

/// Why a burst ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BurstEnd {
    /// Its time was over.
    Time,
    /// Its buffer was full.
    Full,
    /// The program came to an instruction that runs natively only: a system call and the like.
    Native,
    /// The program came to code that was not translated (yet).
    Untranslated,
    /// The thread was stopped: a signal, a fault, job control.
    Stopped,
    /// The thread is gone.
    Gone,
}

/// One burst.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Burst {
    /// The id records use.
    pub id: BurstId,
    /// When its thread entered translated code.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// What for.
    pub flavour: BurstFlavour,
    /// Why it ended.
    pub end: BurstEnd,
    /// From its begin to its end.
    pub elapsed: Nanos,
    /// CPU time of the thread in it (schedstat), without stand-still and without what the way in and out takes. `None` when
    /// unknown.
    pub cpu_time: Option<Nanos>,
    /// How long the thread stood still for it, in and around it.
    pub stand_still: Nanos,
    /// How often it stood still.
    pub stops: u32,
    /// The base of fs in it.
    pub fs_base: RemoteAddr,
    /// Records it made, those lost included.
    pub records: u64,
    /// Its records were thrown away: the consumer was behind, the result at its limit, or the program had written over
    /// some.
    pub records_lost: bool,
}

/// Records of a burst, encoded by [`RecordEncoder`](crate::RecordEncoder): none or more of these per burst, in order.
/// They may come before or behind their [`Burst`]. The store keeps pieces of up to 512 KiB; a burst with a longer one loses
/// its records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Records {
    /// The burst.
    pub burst: BurstId,
    /// The encoded records.
    pub bytes: Vec<u8>,
}

/// A burst that could not begin where the thread was: that share of its time cannot be traced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BurstRefused {
    /// When.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Where it was, when that is known.
    pub at: Option<(ModuleId, FileOffset)>,
    /// A word of the table `burst::Refused`, `jit code` for example.
    pub reason: String,
}

/// How far a general-purpose register of a thread went in a burst that recorded addresses, and natively behind it, up to
/// the thread's next stop. Only registers that changed in both. Results of before have some; nothing is made of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NativeAdvance {
    /// The burst.
    pub burst: BurstId,
    /// The register, as `rdi`.
    pub register: String,
    /// CPU time of the thread natively behind the burst (schedstat).
    pub cpu_time: Nanos,
    /// By how much the register rose in the burst, modulo 2^64.
    pub inside: u64,
    /// By how much it rose natively, modulo 2^64.
    pub natively: u64,
}

/// What instructions take when all their data is in the first-level cache: measured after the recording, in a process of
/// our own in which every page is one of a few. This over the native time is the share that is not memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreFloor {
    /// The loop: a block for addresses that leads back to its start. At most one floor of a loop names a block. Or the
    /// first block of a path.
    pub block: BlockId,
    /// The path; `None` for a loop.
    pub path: Option<CodePath>,
    /// Iterations, or passes over the path, in a row that one repetition adds, 1 or more.
    pub iterations: u64,
    /// What came of it.
    pub outcome: FloorOutcome,
}

/// A stretch of the code that a burst ran outside of the loops whose floor was measured, drawn at random: each of their
/// instructions has the same chance to be where one begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodePath {
    /// The burst.
    pub burst: BurstId,
    /// How many instructions, 1 or more.
    pub instructions: u64,
}

/// What came of measuring a floor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FloorOutcome {
    /// The time of one iteration, or pass.
    Measured(FloorTime),
    /// Nothing, for this reason.
    Refused(String),
}

/// The time of one iteration, or pass, over the repetitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FloorTime {
    /// How many repetitions.
    pub repetitions: u32,
    /// The middle one.
    pub median: Picos,
    /// A tenth of all is below (or at) this.
    pub low: Picos,
    /// A tenth of all is above (or at) this.
    pub high: Picos,
}

/// A loop with a floor, timed once more likewise, with registers for the places in memory that it loads in each iteration
/// though they stay where they are (`x86::keep`). Its floor less this is what these loads cost while nothing is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptFloor {
    /// The block of the loop, which has a measured [`CoreFloor`].
    pub block: BlockId,
    /// How many repetitions.
    pub repetitions: u32,
    /// Time of one iteration: the middle one of the repetitions.
    pub median: Picos,
    /// A tenth of all is below (or at) this.
    pub low: Picos,
    /// A tenth of all is above (or at) this.
    pub high: Picos,
}
