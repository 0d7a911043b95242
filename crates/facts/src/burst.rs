//! What bursts of translated code observed.
//!
//! What for: a burst is a short time in which one thread ran translated code that recorded where it read and wrote. A
//! [`Block`] says which code was translated and what its records hold. [`Records`] are those of one burst, in order,
//! so that every address can be rebuilt exactly. What not: rebuilding (`analysis`, with the decoder of `x86`).

use base::{
    BlockId, BurstId, CodeAddress, FileOffset, ModuleId, Nanos, Picos, Pid, RemoteAddr, Tid,
};

/// The purpose of a burst's translated code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BurstFlavour {
    /// Record every address.
    Trace,
    /// Count blocks.
    Count,
    /// Time single loads.
    Timed,
    /// Count only blocks that run seldom, in the copies of [`BurstFlavour::Count`]: gives the cost of counters, and
    /// the native pace.
    Sparse,
}

impl BurstFlavour {
    /// The flavour of the blocks that its records name.
    #[must_use]
    pub fn of_blocks(self) -> BurstFlavour {
        match self {
            BurstFlavour::Sparse => BurstFlavour::Count,
            own => own,
        }
    }
}

/// Contiguous code.
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

impl CodePiece {
    /// The first byte's address in the file.
    #[must_use]
    pub const fn code_address(&self) -> CodeAddress {
        CodeAddress::new(self.module, self.offset)
    }
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
    /// Its room for records was full, or a counter had reached its limit.
    Full,
    /// The program reached an instruction that must run natively: a system call, for example.
    Native,
    /// The program reached code that was not translated (yet).
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
    /// The purpose.
    pub flavour: BurstFlavour,
    /// Why it ended.
    pub end: BurstEnd,
    /// From its start to its end.
    pub elapsed: Nanos,
    /// CPU time of the thread in it (schedstat), without stopped time and without entering and leaving. `None` if
    /// unknown.
    pub cpu_time: Option<Nanos>,
    /// How long the thread was stopped for it, in and around it.
    pub stand_still: Nanos,
    /// How many times it was stopped. Before format 18, waits for new code without a stop are among these.
    pub stops: u32,
    /// The thread's base of fs.
    pub fs_base: RemoteAddr,
    /// Number of records, lost ones included.
    pub records: u64,
    /// Its records were dropped: the consumer lagged behind, the result reached its limit, or the program had
    /// overwritten some.
    pub records_lost: bool,
    /// How often its thread went into translated code: once, and again behind new code for which it stopped, and behind system calls.
    /// Before format 18, waits for new code without a stop are among these. `None` in results of format 14 and before, where bursts
    /// ended at the first call.
    pub entries: Option<u32>,
    /// How long the system calls took behind which it went on, waiting included: a part of `elapsed`, but not of `cpu_time`.
    pub in_calls: Option<Nanos>,
    /// Minor faults of the thread in it, for bursts that record accesses. `None` if unknown.
    pub faults: Option<u32>,
    /// How often its thread waited for new code without a stop. These waits are part of `stand_still`, and not of `cpu_time`. `None`
    /// before format 18.
    pub answers: Option<u32>,
}

impl Burst {
    /// From its start to its end, without its system calls.
    #[must_use]
    pub fn in_code(&self) -> Nanos {
        self.elapsed - self.in_calls.unwrap_or_default().min(self.elapsed)
    }

    /// How often its thread went into translated code: each costs it a median of CPU time that `cpu_time` does not have.
    #[must_use]
    pub fn entered(&self) -> u32 {
        self.entries.unwrap_or(self.stops.saturating_sub(1))
    }
}

/// Records of a burst, encoded by [`RecordEncoder`](crate::RecordEncoder): none or more of these per burst, in order,
/// before or after their [`Burst`]. The store keeps pieces of up to 512 KiB; a burst with a longer one loses its
/// records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Records {
    /// The burst.
    pub burst: BurstId,
    /// The encoded records.
    pub bytes: Vec<u8>,
}

/// By how much a word of memory rose in a count window, and natively behind it, until the thread stopped next. No other thread was seen
/// to store to it. Words that move both ways are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordAdvance {
    /// The window.
    pub burst: BurstId,
    /// The word.
    pub address: RemoteAddr,
    /// By how much it rose in the window, modulo 2^64.
    pub inside: u64,
    /// By how much it rose natively, modulo 2^64.
    pub natively: u64,
    /// CPU time of the thread from the end of the window to its next stop, that in the kernel included.
    pub cpu_time: Nanos,
}

/// How often a thread natively executed one instruction of a block, soon behind a count window (before version 18, behind a sparse
/// one): counted by a debug register or a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NativeCount {
    /// The window.
    pub burst: BurstId,
    /// The block, which ran there.
    pub block: BlockId,
    /// How often.
    pub executions: u64,
    /// How long the thread ran meanwhile, with the exceptions by which each was counted. Time that a host stole is in it.
    pub time: Nanos,
    /// Where in the block the instruction begins, bytes; `None`, before version 16: where the block does.
    pub offset: Option<u32>,
}

/// A burst that could not begin where the thread was: this share of its time cannot be traced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BurstRefused {
    /// When.
    pub time: Nanos,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Where it was, if known.
    pub at: Option<CodeAddress>,
    /// A word of the table `burst::Refused`, for example `jit code`.
    pub reason: String,
}

/// How far a general-purpose register advanced in a burst that recorded addresses, and natively after it, until the
/// thread's next stop. Only registers that changed in both. Older results have some; nothing uses them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NativeAdvance {
    /// The burst.
    pub burst: BurstId,
    /// The register, as `rdi`.
    pub register: String,
    /// CPU time of the thread natively after the burst (schedstat).
    pub cpu_time: Nanos,
    /// Its advance in the burst, modulo 2^64.
    pub inside: u64,
    /// Its native advance, modulo 2^64.
    pub natively: u64,
}

/// The no-miss time of code: its time when all its data is in the first-level cache. Measured after the recording, in
/// a process of our own in which every page is one of a few. One minus this over the native time is memory's share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoMissTime {
    /// The loop: a traced block that branches to its own start. At most one row of a loop names a block. Or the first
    /// block of a path.
    pub block: BlockId,
    /// The path; `None` for a loop.
    pub path: Option<CodePath>,
    /// Iterations, or passes over the path, that one repetition adds, 1 or more.
    pub iterations: u64,
    /// The outcome.
    pub outcome: NoMissOutcome,
    /// What its branches wait for, where that was measured.
    pub resolution: Option<BranchResolution>,
}

/// A stretch of the code that a burst ran outside the loops that were timed, drawn at random: each of their
/// instructions has the same probability to begin one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodePath {
    /// The burst.
    pub burst: BurstId,
    /// Number of instructions, 1 or more.
    pub instructions: u64,
}

/// What branches at the ends of blocks wait for: how much longer an iteration or pass takes when each block begins after all instructions
/// before it are done, less what that order costs where there is nothing to wait for. After a mispredicted branch it is so.
/// (S. Eyerman et al., "Characterizing the branch misprediction penalty", ISPASS 2006: its cost is the refill of the front end and
/// the branch resolution time.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BranchResolution {
    /// Blocks of an iteration or a pass, 1 or more.
    pub blocks: u32,
    /// The time for all of them.
    pub time: Picos,
}

/// The outcome of measuring a no-miss time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoMissOutcome {
    /// The time of one iteration, or pass.
    Measured(IterationTime),
    /// Not measured, for this reason.
    Refused(String),
}

/// The time of one iteration, or pass, over the repetitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IterationTime {
    /// Number of repetitions.
    pub repetitions: u32,
    /// The median.
    pub median: Picos,
    /// A tenth of all is below (or at) this.
    pub low: Picos,
    /// A tenth of all is above (or at) this.
    pub high: Picos,
}

/// A loop with a no-miss time, timed once more with registers in place of the constant memory locations that it loads
/// in each iteration (`x86::keep`). The no-miss time less this is the cost of these loads without misses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoReloadTime {
    /// The block of the loop, which has a measured [`NoMissTime`].
    pub block: BlockId,
    /// Number of repetitions.
    pub repetitions: u32,
    /// Time of one iteration: the median of the repetitions.
    pub median: Picos,
    /// A tenth of all is below (or at) this.
    pub low: Picos,
    /// A tenth of all is above (or at) this.
    pub high: Picos,
}
