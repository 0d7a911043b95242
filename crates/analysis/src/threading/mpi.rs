//! What a thread does in a call of MPI: waits for other ranks, moves data, or else; from the functions of its stack.
//!
//! What for: ranks that wait ask again and again whether others have come, and use CPU time that is neither memory's nor their
//! code's. What not: times (`summary`, `threading`), and how long single calls take, which samples cannot tell.
//!
//! ```text
//! moves    a function that copies is on the stack, of the library or of the kernel
//! waits    the call only asks (`MPI_Wait`, `MPI_Test`, `MPI_Barrier`, ...); or a function that asks the network is on the stack
//! unclear  a call that may wait, outside of such functions; or code without a name of the C library, which may copy
//! works    everything else: calls that return at once, `MPI_Init`
//! ```
//! Assumptions: names are those of MPI 4.1 (appendix A), Open MPI 4 and 5, MPICH 4, UCX and libfabric. Libraries mostly come without
//! names of their inner functions. A nameless one that calls a named one that asks the network, asks, too. Code of the program that
//! MPI calls, as the operation of a reduction, is in no call of MPI.

use std::collections::{BTreeMap, BTreeSet};

use super::reason::{WAITING_LIBRARIES, bare, in_library, is_kernel};
use crate::stack::{FunctionId, LocationId, NodeIndex, Stacks};

/// How libraries are called that run in a call of MPI: Open MPI with its plugins and event loop, PMIx, MPICH and Intel MPI, and the
/// networks' own (UCX, libfabric, PSM2, verbs).
pub(super) const MPI_LIBRARIES: [&str; 17] = [
    "libmpi",
    "libmpich",
    "libopen-pal",
    "libopen-rte",
    "mca_",
    "libmca",
    "libpmix",
    "libevent",
    "libucp",
    "libuct",
    "libucs",
    "libucm",
    "libfabric",
    "libpsm2",
    "libibverbs",
    "libmlx",
    "libhwloc",
];
/// What else may be between: the kernel's page for the clock, and the library that counts heap blocks.
const BETWEEN: [&str; 2] = ["[vdso", "libfathom"];
/// How functions of MPI libraries begin that a program has in itself, as static code.
const STATIC: [&str; 14] = [
    "MPIR_",
    "MPID_",
    "MPIDI_",
    "MPIDU_",
    "MPII_",
    "MPL_",
    "internal_",
    "ompi_",
    "opal_",
    "mca_",
    "ucp_",
    "uct_",
    "ucs_",
    "fi_",
];
/// Parts of names of functions that move data, or combine it: `memcpy`, `opal_datatype_copy`, `process_vm_readv`,
/// `opal_convertor_pack`, `ompi_op_base_2buff_sum_double`.
const MOVING: [&str; 8] =
    ["memcpy", "copy", "memmove", "process_vm", "convertor_pack", "unpack", "ompi_op_", "yaksu"];
/// Functions that ask the network or give way to others meanwhile, besides those that end in `progress`.
const ASKING: [&str; 8] = [
    "ompi_request_default_wait",
    "ompi_request_default_wait_all",
    "ompi_request_default_wait_any",
    "ompi_request_default_wait_some",
    "MPID_Progress_wait",
    "MPIDI_progress_test",
    "sched_yield",
    "epoll_wait",
];
/// How calls begin that only ask, after `MPI_`, in small letters.
const ONLY_ASK: [&str; 9] =
    ["wait", "test", "probe", "iprobe", "mprobe", "improbe", "barrier", "win_wait", "win_test"];
/// How other calls begin that may wait for other ranks.
const MAY_WAIT: [&str; 17] = [
    "send",
    "ssend",
    "rsend",
    "bsend",
    "recv",
    "mrecv",
    "bcast",
    "gather",
    "scatter",
    "all",
    "reduce",
    "scan",
    "exscan",
    "neighbor_",
    "win_",
    "comm_",
    "file_",
];

/// What a thread does in a call of MPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InMpi {
    /// It waits for other ranks, and runs.
    Waits,
    /// It copies or combines data.
    Moves,
    /// It waits, or it does the library's own work.
    Unclear,
    /// Neither of these.
    Works,
}

/// What a call may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    OnlyAsks,
    MayWait,
    /// Starts or ends MPI: it may wait, but mostly works.
    Setup,
    /// Returns at once.
    Starts,
}

/// The call of MPI that has this name, of C or as Fortran compilers write it.
fn call(name: &str) -> Option<Call> {
    let name = name.split('@').next().unwrap_or(name);
    let of_c = name.starts_with("MPI_") || name.starts_with("PMPI_");
    let of_fortran = (name.starts_with("mpi_") || name.starts_with("pmpi_")) && name.ends_with('_');
    let name = name.trim_end_matches('_').to_ascii_lowercase();
    let name = name.strip_prefix('p').unwrap_or(&name).strip_prefix("mpi_")?;
    let begins = |beginnings: &[&str]| beginnings.iter().any(|begin| name.starts_with(begin));
    (of_c || of_fortran).then(|| match () {
        () if begins(&ONLY_ASK) => Call::OnlyAsks,
        () if name == "init" || name == "init_thread" || name == "finalize" => Call::Setup,
        () if begins(&MAY_WAIT) => Call::MayWait,
        () => Call::Starts,
    })
}

fn asks(name: &str) -> bool {
    name.ends_with("progress") || ASKING.contains(&name)
}

/// What threads do in calls of MPI, by their stacks.
pub(super) struct MpiTable<'a> {
    stacks: &'a Stacks,
    known: BTreeMap<NodeIndex, Option<InMpi>>,
    /// Functions without a name that ask the network.
    nameless: BTreeSet<FunctionId>,
}

impl<'a> MpiTable<'a> {
    pub(super) fn new(stacks: &'a Stacks) -> MpiTable<'a> {
        let any = stacks.functions.iter().any(|function| call(&function.name).is_some());
        let nameless = if any { nameless_that_ask(stacks) } else { BTreeSet::new() };
        MpiTable { stacks, known: BTreeMap::new(), nameless }
    }

    /// `None` outside of calls of MPI.
    pub(super) fn of(&mut self, stack: Option<NodeIndex>) -> Option<InMpi> {
        let node = stack?;
        if let Some(known) = self.known.get(&node) {
            return *known;
        }
        let found = self.find(stack);
        self.known.insert(node, found);
        found
    }

    fn find(&self, stack: Option<NodeIndex>) -> Option<InMpi> {
        let stacks = self.stacks;
        let (mut moves, mut asks_network, mut nameless_copy) = (false, false, false);
        let mut innermost = true;
        let mut called = None;
        for place in stacks.frames(stack) {
            let function = stacks.places[place.index()].function;
            let name = stacks.functions[function.index()].name.as_str();
            moves |= MOVING.iter().any(|word| name.contains(word));
            if is_kernel(stacks, place) {
                continue;
            }
            called = call(name).filter(|_| of_library(stacks, place, name));
            if called.is_some() {
                break;
            }
            let of_c = in_library(stacks, place, &WAITING_LIBRARIES);
            nameless_copy |= innermost && of_c && name.starts_with('[');
            innermost = false;
            asks_network |= asks(bare(name)) || self.nameless.contains(&function);
            if !of_c && !in_library(stacks, place, &BETWEEN) && !of_library(stacks, place, name) {
                return None;
            }
        }
        Some(match called? {
            Call::Setup if asks_network && !moves => InMpi::Waits,
            Call::Setup => InMpi::Works,
            _ if moves => InMpi::Moves,
            Call::Starts => InMpi::Works,
            _ if stacks.in_page_fault(stack) => InMpi::Works,
            _ if nameless_copy => InMpi::Unclear,
            Call::MayWait if !asks_network => InMpi::Unclear,
            Call::OnlyAsks | Call::MayWait => InMpi::Waits,
        })
    }
}

/// Whether this is code of an MPI library, or of one that it uses: in a file of its own, or in the program.
fn of_library(stacks: &Stacks, place: LocationId, name: &str) -> bool {
    let own_name = || {
        let of_call = name.starts_with("MPI_") || name.starts_with("PMPI_");
        of_call || STATIC.iter().any(|begin| name.starts_with(begin))
    };
    in_library(stacks, place, &MPI_LIBRARIES) || own_name()
}

/// Functions without a name that call one that asks the network: loops around it.
fn nameless_that_ask(stacks: &Stacks) -> BTreeSet<FunctionId> {
    let callers = stacks.of_each_node(|node| {
        let mut frames = stacks.frames(node);
        let (callee, caller) = frames.next().zip(frames.next())?;
        let name = |place| stacks.function_of(place).name.as_str();
        let loops = asks(bare(name(callee)))
            && name(caller).starts_with('[')
            && in_library(stacks, caller, &MPI_LIBRARIES);
        loops.then(|| stacks.places[caller.index()].function)
    });
    callers.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_mpi_are_those_of_c_and_of_fortran() {
        for (name, found) in [
            ("MPI_Barrier", Call::OnlyAsks),
            ("PMPI_Waitall", Call::OnlyAsks),
            ("MPI_Iprobe", Call::OnlyAsks),
            ("mpi_allreduce_", Call::MayWait),
            ("pmpi_recv__", Call::MayWait),
            ("MPI_SENDRECV", Call::MayWait),
            ("mpi_alltoallv_f08_", Call::MayWait),
            ("PMPI_Comm_split", Call::MayWait),
            ("MPI_Init_thread", Call::Setup),
            ("MPI_Isend", Call::Starts),
            ("MPI_Iallreduce", Call::Starts),
            ("MPI_Wtime", Call::Starts),
        ] {
            assert_eq!(call(name), Some(found), "{name}");
        }
        for name in ["MPIR_Barrier", "mpi_setup", "my_MPI_Barrier", "opal_progress", "P", ""] {
            assert_eq!(call(name), None, "{name}");
        }
    }
}
