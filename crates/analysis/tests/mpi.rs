//! Ranks in calls of MPI: what waits, what moves data, and what samples leave open; by hand.

use analysis::summary::{MpiTime, overview};
use analysis::threading::{Reason, threading};
use analysis::{Profile, Selection};
use base::{CodeAddress, ModuleId};
use facts::{CounterKind, Metric, Rank, Recording, SamplingMethod, WaitKind};
use testkit::recording::RecordingBuilder;

/// Stacks of libraries as Debian has them, mostly without names of inner functions.
struct Rankful {
    builder: RecordingBuilder,
    kernel: ModuleId,
    exe: ModuleId,
    mpi: ModuleId,
    plugin: ModuleId,
    libc: ModuleId,
    places: u64,
}

impl Rankful {
    fn new() -> Rankful {
        let mut builder = RecordingBuilder::new();
        builder.recording.run.collector.kernel_samples = true;
        let kernel = builder.kernel();
        let [exe, mpi, plugin, libc] = [
            "/home/user/solver",
            "/usr/lib/libmpi.so.40.30.4",
            "/usr/lib/openmpi/mca_btl_vader.so",
            "/usr/lib/libc.so.6",
        ]
        .map(|path| builder.file(path));
        Rankful { builder, kernel, exe, mpi, plugin, libc, places: 0 }
    }

    fn named(&mut self, module: ModuleId, name: &str) -> CodeAddress {
        self.places += 0x10;
        self.builder.code(module, self.places, &[(name, "", 0)])
    }

    fn nameless(&mut self, module: ModuleId) -> CodeAddress {
        self.places += 0x10;
        self.builder.unnamed(module, self.places)
    }

    /// Samples in the program with these frames inside of `main`, innermost first.
    fn samples(&mut self, frames: &[CodeAddress], count: u64) {
        let main = self.named(self.exe, "main");
        let stack = self.builder.stack(&[frames, &[main]].concat());
        self.builder.samples(1, 1, stack, count);
    }

    fn built(mut self, count: u64) -> Recording {
        self.builder.counter(CounterKind::TaskClock, count * 1_000_000);
        self.builder.build()
    }
}

fn mpi(recording: &Recording) -> (Metric, Option<MpiTime>) {
    let split = overview(&Profile::new(recording)).split;
    (split.spinning, split.mpi)
}

#[track_caller]
fn is(metric: &Metric, milliseconds: f64) {
    let value = metric.value.expect("a value") * 1e3;
    assert!((value - milliseconds).abs() < 1e-6 * (1.0 + milliseconds), "{value}");
}

#[test]
fn waits_and_moves_are_distinguished() {
    let mut rank = Rankful::new();
    let (mpi_lib, plugin, kernel, libc) = (rank.mpi, rank.plugin, rank.kernel, rank.libc);
    let [recv, send, test, isend, init] =
        ["PMPI_Recv", "MPI_Send", "MPI_Test", "mpi_isend_", "MPI_Init"]
            .map(|name| rank.named(mpi_lib, name));
    let progress = rank.named(mpi_lib, "opal_progress");
    let poll = rank.nameless(plugin);
    let get = rank.named(plugin, "mca_btl_vader_get_cma");
    let memcpy = rank.named(libc, "__memcpy_avx512_unaligned_erms");
    let readv = rank.named(libc, "process_vm_readv");
    let copy = rank.named(kernel, "_copy_to_iter");
    let sched_yield = rank.named(libc, "__GI_sched_yield");
    let schedule = rank.named(kernel, "schedule");
    rank.samples(&[], 100);
    // Waits, one of them in the kernel, which the CPU meanwhile gives to another thread.
    rank.samples(&[poll, progress, recv], 200);
    rank.samples(&[test], 30);
    rank.samples(&[schedule, sched_yield, send], 20);
    // Data: within a wait, without one, and by the kernel.
    rank.samples(&[memcpy, get, poll, progress, recv], 60);
    rank.samples(&[memcpy, isend], 5);
    rank.samples(&[copy, readv, get, progress, recv], 40);
    // Neither.
    rank.samples(&[poll, init], 10);
    rank.samples(&[get, isend], 5);
    // Code of the program that MPI calls.
    let operation = rank.named(rank.exe, "my_maximum");
    rank.samples(&[operation, poll, progress, recv], 7);
    let (spinning, found) = mpi(&rank.built(477));
    let found = found.expect("calls of MPI");
    is(&found.wait, 250.0);
    is(&found.moving, 105.0);
    is(&found.calls, 370.0);
    is(&spinning, 250.0);
    let high = found.wait.high.expect("an upper end");
    assert!(found.wait.note.is_none() && high < 0.30, "{high}");
}

#[test]
fn what_samples_cannot_tell_is_in_the_upper_end() {
    let mut rank = Rankful::new();
    let (mpi_lib, libc) = (rank.mpi, rank.libc);
    let [recv, barrier] = ["MPI_Recv", "MPI_Barrier"].map(|name| rank.named(mpi_lib, name));
    let progress = rank.named(mpi_lib, "opal_progress");
    let (matching, string) = (rank.nameless(mpi_lib), rank.nameless(libc));
    rank.samples(&[], 300);
    rank.samples(&[progress, recv], 300);
    // The library's own work, or a loop of its own; and a function of the C library without a name, as memcpy of a stripped one.
    rank.samples(&[matching, recv], 200);
    rank.samples(&[string, progress, barrier], 200);
    let (_, found) = mpi(&rank.built(1000));
    let found = found.expect("calls of MPI");
    is(&found.wait, 300.0);
    is(&found.moving, 0.0);
    assert!(found.wait.high.expect("an end") > 0.7, "{:?}", found.wait);
    assert!(found.moving.high.expect("an end") > 0.4 && found.moving.note.is_some());
    is(&found.calls, 700.0);
}

#[test]
fn a_nameless_loop_around_what_asks_the_network_asks_too() {
    let mut rank = Rankful::new();
    let mpich = rank.builder.file("/usr/lib/libmpich.so.12.2.2");
    let ucp = rank.builder.file("/usr/lib/libucp.so.0");
    let recv = rank.named(mpich, "PMPI_Recv");
    let progress = rank.named(ucp, "ucp_worker_progress");
    let around = rank.nameless(mpich);
    rank.samples(&[progress, around, recv], 10);
    rank.samples(&[around, recv], 90);
    let (_, found) = mpi(&rank.built(100));
    is(&found.expect("calls of MPI").wait, 100.0);
}

#[test]
fn static_code_of_mpi_is_known_by_its_names() {
    let mut rank = Rankful::new();
    let exe = rank.exe;
    let [allreduce, inner, progress, setup] =
        ["PMPI_Allreduce", "MPIR_Allreduce_impl", "MPIDI_progress_test", "mpi_setup_"]
            .map(|name| rank.named(exe, name));
    rank.samples(&[progress, inner, allreduce], 50);
    // A subroutine of the program's own, whatever its name.
    rank.samples(&[setup], 50);
    let (_, found) = mpi(&rank.built(100));
    let found = found.expect("calls of MPI");
    is(&found.wait, 50.0);
    is(&found.calls, 50.0);
}

#[test]
fn only_programs_that_call_mpi_have_its_figures() {
    let alone = || {
        let mut rank = Rankful::new();
        rank.samples(&[], 100);
        rank.built(100)
    };
    assert_eq!(mpi(&alone()).1, None);
    let mut of_job = alone();
    of_job.run.rank = Some(Rank { rank: 1, ranks: Some(2), local_rank: None, job: None });
    is(&mpi(&of_job).1.expect("a rank").wait, 0.0);
}

#[test]
fn a_rank_that_sleeps_in_a_call_waits_for_mpi() {
    let mut rank = Rankful::new();
    let (mpi_lib, kernel, libc, exe) = (rank.mpi, rank.kernel, rank.libc, rank.exe);
    let recv = rank.named(mpi_lib, "MPI_Recv");
    let [poll, lock] = ["__GI___poll", "pthread_mutex_lock"].map(|name| rank.named(libc, name));
    let [do_poll, futex] = ["do_poll", "futex_do_wait"].map(|name| rank.named(kernel, name));
    let main = rank.named(exe, "main");
    let builder = &mut rank.builder;
    builder.recording.run.collector.method = SamplingMethod::PerfEvents;
    builder.recording.run.elapsed_ns = 1_000_000_000;
    builder.thread(1, 1, "main", 0.0, 1.0);
    builder.ran((1, 1), (0.0, 1.0), 0.4, 0.0);
    let sleeps = builder.stack(&[do_poll, poll, recv, main]);
    // Threads of the rank want the same lock of the library.
    let locked = builder.stack(&[futex, lock, recv, main]);
    builder.waits((1, 1), WaitKind::Blocked, (sleeps, None), (0.0, 1.0), (1, 0.5));
    builder.waits((1, 1), WaitKind::Blocked, (locked, None), (0.0, 1.0), (1, 0.1));
    let recording = rank.builder.build();
    let found = threading(&Profile::new(&recording), &Selection::default());
    let waited = |reason: Reason| found.threads[0].waiting[reason as usize] / 1e9;
    assert!((waited(Reason::Mpi) - 0.5).abs() < 1e-6, "{}", waited(Reason::Mpi));
    assert!((waited(Reason::Lock) - 0.1).abs() < 1e-6, "{}", waited(Reason::Lock));
}
