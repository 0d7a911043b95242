//! Which code only waits while it runs: spin locks, OpenMP libraries, and calls of MPI that wait for other ranks.
//!
//! What for: time in it is no work, and lasts as long as what is waited for. What not: why threads wait that do not run (`reason`).
//!
//! Assumptions: names are those of libgomp (`config/linux/bar.c`, `mutex.c`, `wait.h`) and LLVM's libomp (`kmp_barrier.cpp`,
//! `kmp_wait_release.h`); of MPI, those of `mpi`.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::ModuleId;
use facts::Recording;

use super::mpi::{InMpi, MPI_LIBRARIES, MpiTable};
use super::reason::{OPENMP_LIBRARIES, bare, is_one_of};
use crate::profile::Profile;
use crate::stack::{FunctionId, NodeIndex, Stacks};

/// Functions of OpenMP libraries in which a thread spins: it uses a CPU and gets no further.
const SPINNING: [&str; 19] = [
    "gomp_barrier_wait_end",
    "gomp_barrier_wait",
    "gomp_team_barrier_wait",
    "gomp_team_barrier_wait_end",
    "gomp_team_barrier_wait_final",
    "gomp_thread_start",
    "do_spin",
    "do_wait",
    "futex_wait",
    "cpu_relax",
    "GOMP_barrier",
    "GOMP_parallel_end",
    "kmp_hardware_timestamp",
    "kmp_yield",
    "kmp_x86_pause",
    "kmp_tas_lock",
    "kmp_acquire_tas_lock",
    "kmp_acquire_ticket_lock",
    "kmp_acquire_queuing_lock",
];

/// Whether a thread whose innermost function in the program is this one spins. OpenMP libraries mostly come without names of their
/// own functions. Nameless code of theirs counts, because all that they do for long is to wait.
fn spins(stacks: &Stacks, function: FunctionId) -> bool {
    let function = &stacks.functions[function.index()];
    let openmp = is_one_of(&stacks.modules[function.module.index()], &OPENMP_LIBRARIES);
    let nameless = function.name.starts_with('[');
    let bare = bare(&function.name);
    // `do_wait` and its like mean nothing outside of these libraries.
    bare == "pthread_spin_lock"
        || openmp && (nameless || SPINNING.contains(&bare) || bare.contains("wait"))
}

/// Which stacks spin. Samples share few innermost functions, and names are compared once for each of these.
pub(crate) struct SpinTable<'a> {
    stacks: &'a Stacks,
    known: BTreeMap<FunctionId, bool>,
    mpi: MpiTable<'a>,
}

impl<'a> SpinTable<'a> {
    pub(crate) fn new(stacks: &'a Stacks) -> SpinTable<'a> {
        SpinTable { stacks, known: BTreeMap::new(), mpi: MpiTable::new(stacks) }
    }

    pub(crate) fn spins(&mut self, stack: Option<NodeIndex>) -> bool {
        if let Some(does) = self.in_mpi(stack) {
            return does == InMpi::Waits;
        }
        let place = self.stacks.innermost_user(stack);
        self.function_spins(self.stacks.places[place.index()].function)
    }

    fn function_spins(&mut self, function: FunctionId) -> bool {
        let stacks = self.stacks;
        *self.known.entry(function).or_insert_with(|| spins(stacks, function))
    }

    pub(crate) fn waits_in_mpi(&mut self, stack: Option<NodeIndex>) -> bool {
        self.in_mpi(stack) == Some(InMpi::Waits)
    }

    /// `None` outside of calls of MPI.
    pub(crate) fn in_mpi(&mut self, stack: Option<NodeIndex>) -> Option<InMpi> {
        self.mpi.of(stack)
    }
}

/// Functions of which a thread spins most of the time that it is in them: for what has a function but no stack, as bursts.
pub(crate) struct SpinningFunctions<'a> {
    table: SpinTable<'a>,
    /// By samples outside of the kernel: in a call of MPI that waits, and in all.
    waits: HashMap<FunctionId, [u64; 2]>,
    /// In libraries of MPI.
    in_libraries: [u64; 2],
}

impl<'a> SpinningFunctions<'a> {
    pub(crate) fn new(profile: &'a Profile<'_>) -> SpinningFunctions<'a> {
        let stacks = &profile.stacks;
        let mut found = SpinningFunctions {
            table: SpinTable::new(stacks),
            waits: HashMap::new(),
            in_libraries: [0; 2],
        };
        for cell in profile.stack_cells().iter().filter(|cell| !cell.kernel) {
            let function = stacks.compiled_user(cell.stack);
            let waits = found.table.waits_in_mpi(cell.stack);
            let amount = cell.weight.amount();
            let amounts = [if waits { amount } else { 0 }, amount];
            let of_library = of_mpi(stacks, function);
            let sums = found.waits.entry(function).or_default();
            add(sums, amounts);
            if of_library {
                add(&mut found.in_libraries, amounts);
            }
        }
        found
    }

    pub(crate) fn has(&mut self, function: FunctionId) -> bool {
        let most = |[waits, all]: [u64; 2]| waits > all / 2;
        self.table.function_spins(function)
            || match self.waits.get(&function) {
                Some(sums) => most(*sums),
                None => of_mpi(self.table.stacks, function) && most(self.in_libraries),
            }
    }
}

fn add(sums: &mut [u64; 2], amounts: [u64; 2]) {
    sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum = sum.saturating_add(amount));
}

fn of_mpi(stacks: &Stacks, function: FunctionId) -> bool {
    let module = stacks.functions[function.index()].module;
    is_one_of(&stacks.modules[module.index()], &MPI_LIBRARIES)
}

/// Libraries of OpenMP and MPI: their loops mostly wait for other threads and ranks.
pub(crate) fn waiting_modules(recording: &Recording) -> HashSet<ModuleId> {
    let waits = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        OPENMP_LIBRARIES.iter().chain(&MPI_LIBRARIES).any(|library| name.starts_with(library))
    };
    recording.modules.iter().filter(|module| waits(&module.path)).map(|module| module.id).collect()
}
