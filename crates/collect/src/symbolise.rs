//! Names for the addresses of a recording, looked up after the collection.
//!
//! What for: opens the modules' files, finds and checks their debug files, reads the kernel's symbols, the vdso and
//! the maps of JIT compilers, and asks crate `symbols` about each address. Modules are handled in parallel; the
//! answer does not depend on the number of threads. What not: parsing (`symbols`), a cache between calls, downloads
//! of debug files.
//!
//! Assumptions: it runs on the machine of the recording, soon after it. A file that was not held open while the
//! program ran ([`Options::files`]) and was replaced since is recognised by its build-id and refused: wrong names are
//! worse than none.

mod assigned;
mod code;
mod complaints;
mod file;
mod jit;
mod naming;
mod sampled;
mod types;
mod variables;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};

use base::{CodeAddress, FileOffset, ModuleId, Pid, RemoteAddr};
use facts::{AccessType, Assignment, Frame, Module, ModuleKind, SampledCode};
use symbols::{Demangle, Elf, KernelSymbols, ModuleImage, SourceFrame, SymbolTable};

pub use self::assigned::assignments;
pub use self::code::traced_addresses;
use self::complaints::{Complaint, ModuleComplaint};
pub use self::naming::{Naming, Wanted};
pub use self::variables::{Globals, globals};
use crate::modules::{HeldFiles, vdso_image};

/// Stack of a worker: `symbols` may use 1 MiB of it.
const STACK_BYTES: usize = 4 << 20;

/// Addresses between two reports of progress.
const PROGRESS_STEP: usize = 256;

/// A module is judged by its share of addresses with source lines only if it has this many addresses.
const COVERAGE_AT_LEAST: usize = 10;

/// The user's choices.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where separate debug files are searched, besides the directories of the modules.
    pub debug_directories: Vec<PathBuf>,
    /// Whether C++ and Rust names are shown as written in the source.
    pub demangle: bool,
    /// Instructions whose accesses get types, with repetitions.
    pub typed: Vec<CodeAddress>,
    /// Instructions at which samples were taken, with how many: the code around the most frequent ones is kept.
    pub sampled: Vec<(CodeAddress, u64)>,
    /// Files that were open while the program ran; others are opened by their path.
    pub files: HeldFiles,
    /// Parts of the recording that are not of this machine and boot.
    pub elsewhere: Elsewhere,
}

/// Parts of a recording that belong to another machine, or an earlier boot of this one. Names from here would be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Elsewhere {
    /// Its files, unless they have a build-id; and the code that its programs generated.
    pub files: bool,
    /// Its kernel, or where that was loaded.
    pub kernel: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            debug_directories: vec![PathBuf::from("/usr/lib/debug")],
            demangle: true,
            typed: Vec::new(),
            sampled: Vec::new(),
            files: HeldFiles::new(),
            elsewhere: Elsewhere::default(),
        }
    }
}

/// The result.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Symbolised {
    /// Sorted by module, offset, depth. A function of which only the start is known is called `[FILE+START]`. An
    /// address without even that has no frame.
    pub frames: Vec<Frame>,
    /// The types of the accesses of [`Options::typed`], by module, offset and access.
    pub types: Vec<AccessType>,
    /// Functions around [`Options::sampled`], if short enough and while there is room; see [`sampled`].
    pub code: Vec<SampledCode>,
    /// The variables that the source lines of the frames assign to, where the source files can be read.
    pub assignments: Vec<Assignment>,
    /// Ways to better names: one sentence per kind of problem, with its modules; those with the most addresses first.
    pub problems: Vec<String>,
}

/// A report of progress.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// Number of distinct addresses that are done, and of all.
    Done(usize, usize),
    /// The frames of a module's addresses. Where reading takes long, first without lines; they are not sent again
    /// with lines.
    Named(&'a [Frame]),
}

/// Looks up `addresses`, in any order and with repetitions. Calls `tell` on this thread.
pub fn symbolise(
    modules: &[Module],
    addresses: &[CodeAddress],
    options: &Options,
    tell: &mut dyn FnMut(Step<'_>),
) -> Symbolised {
    let jobs = jobs(modules, addresses, options);
    let named = jobs.iter().map(|job| job.offsets.len()).sum();
    let total = jobs.iter().map(|job| job.offsets.len() + job.typed.len()).sum();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let (mut answers, mut quick) = (BTreeMap::new(), BTreeSet::new());
    std::thread::scope(|scope| {
        let wanted = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
        let mut running = 0;
        for _ in 0..wanted {
            let (jobs, next, sender) = (&jobs, &next, sender.clone());
            let worker =
                std::thread::Builder::new().name("symbols".to_owned()).stack_size(STACK_BYTES);
            let spawned = worker.spawn_scoped(scope, move || work(jobs, next, options, &sender));
            running += usize::from(spawned.is_ok());
        }
        if running == 0 {
            // No thread can be created (limit of the user or the container): do the work here.
            work(&jobs, &next, options, &sender);
        }
        drop(sender);
        let mut done = 0;
        for message in receiver {
            match message {
                Message::Done(count) => {
                    done += count;
                    tell(Step::Done(done, total));
                }
                Message::Quick(id, frames) => {
                    quick.insert(id);
                    tell(Step::Named(&frames));
                }
                Message::Answer(id, answer) => {
                    if !quick.contains(&id) {
                        tell(Step::Named(&answer.frames));
                    }
                    answers.insert(id, answer);
                }
            }
        }
    });
    let (mut frames, mut types, mut complaints) = (Vec::new(), Vec::new(), Vec::new());
    let mut code = Vec::new();
    for answer in answers.into_values() {
        frames.extend(answer.frames);
        types.extend(answer.types);
        code.extend(answer.code);
        complaints.extend(answer.complaints);
    }
    let problems = complaints::sentences(complaints, named);
    let assignments = assignments(modules, &frames);
    Symbolised { frames, types, code: sampled::hottest(code), assignments, problems }
}

/// The addresses of one module.
struct Job<'a> {
    module: &'a Module,
    /// Ascending and distinct.
    offsets: Vec<FileOffset>,
    /// Likewise: those whose accesses get types.
    typed: Vec<FileOffset>,
    /// Where samples were taken, and how many.
    sampled: Vec<(FileOffset, u64)>,
}

impl Job<'_> {
    fn about(&self, complaint: Complaint) -> ModuleComplaint {
        let name = file_name(self.module).to_owned();
        ModuleComplaint { name, addresses: self.offsets.len(), complaint }
    }

    fn own_sentence(&self, sentence: impl std::fmt::Display) -> ModuleComplaint {
        self.about(Complaint::Own(format!("{}: {sentence}", self.module.path)))
    }
}

/// The largest jobs first, so that none of them starts when all others are done.
fn jobs<'a>(modules: &'a [Module], addresses: &[CodeAddress], options: &Options) -> Vec<Job<'a>> {
    let by_id: HashMap<ModuleId, &Module> =
        modules.iter().map(|module| (module.id, module)).collect();
    let mut typed = by_module(&options.typed);
    let mut jobs: Vec<_> = by_module(addresses)
        .into_iter()
        .filter_map(|(id, offsets)| {
            let typed = typed.remove(&id).unwrap_or_default();
            let sampled = options.sampled.iter().filter(|(at, _)| at.module == id);
            let sampled = sampled.map(|(at, samples)| (at.offset, *samples)).collect();
            Some(Job { module: by_id.get(&id)?, offsets, typed, sampled })
        })
        .collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.offsets.len()));
    jobs
}

fn by_module(addresses: &[CodeAddress]) -> BTreeMap<ModuleId, Vec<FileOffset>> {
    let mut by_module: BTreeMap<ModuleId, Vec<FileOffset>> = BTreeMap::new();
    for address in addresses {
        by_module.entry(address.module).or_default().push(address.offset);
    }
    for offsets in by_module.values_mut() {
        offsets.sort_unstable();
        offsets.dedup();
    }
    by_module
}

enum Message {
    /// Adds to the number of addresses that were looked up.
    Done(usize),
    /// The functions of a module whose debug information takes long to read.
    Quick(ModuleId, Vec<Frame>),
    Answer(ModuleId, Answer),
}

/// What is known about one module's addresses.
#[derive(Default)]
struct Answer {
    frames: Vec<Frame>,
    types: Vec<AccessType>,
    code: Vec<(u64, SampledCode)>,
    complaints: Vec<ModuleComplaint>,
}

/// Takes jobs until there are none. The receiver lives as long as the scope, so failed sends are ignored.
fn work(jobs: &[Job<'_>], next: &AtomicUsize, options: &Options, sender: &Sender<Message>) {
    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
        // The parsers below should never panic. If one does on some strange file, the recording must not be lost.
        // Nothing of the job is used afterwards.
        let answer = catch_unwind(AssertUnwindSafe(|| answer(job, options, sender)));
        let answer = answer.unwrap_or_else(|_| Answer {
            complaints: vec![job.own_sentence(
                "reading its symbols failed by a bug in Fathom; please report it with this file",
            )],
            ..Answer::default()
        });
        let _ = sender.send(Message::Answer(job.module.id, answer));
    }
}

fn answer(job: &Job<'_>, options: &Options, sender: &Sender<Message>) -> Answer {
    let demangle = if options.demangle { Demangle::Yes } else { Demangle::No };
    let mut collector = Collector { job, sender, answer: Answer::default(), looked_up: 0 };
    match job.module.kind {
        ModuleKind::File => file::look_up(&mut collector, options, demangle),
        ModuleKind::Kernel if options.elsewhere.kernel => collector.problem(
            "of another boot or machine: its functions cannot be named here; import the file where it was recorded",
        ),
        ModuleKind::Anonymous { .. } if options.elsewhere.files => collector.problem(
            "generated code of another machine: its functions cannot be named here",
        ),
        ModuleKind::Kernel => kernel(&mut collector),
        ModuleKind::Vdso => vdso(&mut collector, demangle),
        ModuleKind::Anonymous { pid } => generated_code(&mut collector, pid, demangle),
        ModuleKind::Unknown => {}
    }
    // Addresses that could not be looked up are done, too.
    let _ = sender.send(Message::Done(job.offsets.len() + job.typed.len() - collector.looked_up));
    collector.answer
}

/// Gathers the answer to one job.
struct Collector<'a> {
    job: &'a Job<'a>,
    sender: &'a Sender<Message>,
    answer: Answer,
    looked_up: usize,
}

impl Collector<'_> {
    /// Adds a problem that few other modules share.
    fn problem(&mut self, sentence: impl std::fmt::Display) {
        self.answer.complaints.push(self.job.own_sentence(sentence));
    }

    /// Adds a problem of the kind `what`, see [`Complaint::Shared`].
    fn shared_problem(
        &mut self,
        what: impl Into<String>,
        detail: Option<String>,
        advice: &'static str,
    ) {
        let complaint = Complaint::Shared { what: what.into(), detail, advice };
        self.answer.complaints.push(self.job.about(complaint));
    }

    /// Reports a program of which some objects have debug information and most do not: typically only the start-up
    /// code of the C library or a standard library has it.
    fn tell_poor_coverage(&mut self) {
        let all = self.job.offsets.len();
        let innermost = self.answer.frames.iter().filter(|frame| frame.depth == 0);
        let with_line = innermost.filter(|frame| frame.line.is_some()).count();
        if all >= COVERAGE_AT_LEAST && with_line < all / 2 {
            self.shared_problem(
                "debug information for less than half of the addresses seen",
                Some(format!("{with_line} of {all}")),
                "build all of it with -g",
            );
        }
    }

    fn look_up(&mut self, mut functions: impl FnMut(FileOffset) -> Vec<SourceFrame>) {
        for some in self.job.offsets.chunks(PROGRESS_STEP) {
            for offset in some {
                let frames = functions(*offset);
                self.answer.frames.extend(facts_of(self.job.module, *offset, frames));
            }
            self.looked_up += some.len();
            let _ = self.sender.send(Message::Done(some.len()));
        }
    }

    /// Reports functions by name, before debug information that takes long is read.
    fn tell_names(&self, table: &SymbolTable<'_>) {
        let module = self.job.module;
        let offsets = self.job.offsets.iter();
        let frames = offsets.flat_map(|offset| facts_of(module, *offset, table.lookup(*offset)));
        let _ = self.sender.send(Message::Quick(module.id, frames.collect()));
    }

    /// Looks addresses up in the symbol table, and in unwind information where they have no name.
    fn look_up_table(&mut self, table: &SymbolTable<'_>) {
        let module = self.job.module;
        self.look_up(|offset| {
            let frames = table.lookup(offset);
            if !frames.is_empty() {
                return frames;
            }
            table.function_start(offset).map(|start| nameless(module, start)).into_iter().collect()
        });
    }

    /// Looks up addresses that can have a name but no line.
    fn look_up_names(&mut self, name: impl Fn(RemoteAddr) -> Option<String>) {
        self.look_up(|offset| {
            // These modules' offsets are absolute addresses (`facts::ModuleKind`).
            let function = name(RemoteAddr(offset.0));
            let frame = |name: String| {
                let (function, file) = split_python(name);
                SourceFrame { function, file, line: None, inlined: false }
            };
            function.map(frame).into_iter().collect()
        });
    }
}

/// CPython's `py::NAME:FILE` as function and file. A file such as `<string>` is none: it stays in the name.
fn split_python(name: String) -> (String, Option<String>) {
    let parts = name.strip_prefix("py::").and_then(|rest| rest.split_once(':'));
    match parts.filter(|(_, file)| !file.starts_with('<')) {
        Some((function, file)) => (format!("py::{function}"), Some(file.to_owned())),
        None => (name, None),
    }
}

fn facts_of(
    module: &Module,
    offset: FileOffset,
    frames: Vec<SourceFrame>,
) -> impl Iterator<Item = Frame> {
    let module = module.id;
    frames.into_iter().zip(0..).map(move |(frame, depth)| Frame {
        module,
        offset,
        depth,
        function: frame.function,
        file: frame.file,
        line: frame.line,
        inlined: frame.inlined,
    })
}

/// The frame of a function of which only the start is known: one row for all its addresses. The form is that of
/// `analysis` for code without a function, so that the reader meets one form.
fn nameless(module: &Module, start: FileOffset) -> SourceFrame {
    let name = match module.kind {
        ModuleKind::Vdso => "vdso",
        _ => file_name(module),
    };
    SourceFrame { function: format!("[{name}+{start}]"), file: None, line: None, inlined: false }
}

fn file_name(module: &Module) -> &str {
    let name = module.path.rsplit('/').next().filter(|name| !name.is_empty());
    name.unwrap_or(&module.path)
}

fn kernel(collector: &mut Collector<'_>) {
    /// The kernel returns a page at a time, whatever size is asked for.
    const PIECE: usize = 64 << 10;
    let mut symbols = KernelSymbols::of(collector.job.offsets.iter().map(|at| RemoteAddr(at.0)));
    let read = File::open("/proc/kallsyms").and_then(|mut file| {
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(symbols.finish().map(|_| ())),
                bytes => {
                    if let Err(error) = symbols.read(&piece[..bytes]) {
                        return Ok(Err(error));
                    }
                }
            }
        }
    });
    match read {
        Ok(Ok(())) => collector.look_up_names(|address| symbols.lookup(address)),
        Ok(Err(error)) => collector.problem(error),
        Err(error) => collector.problem(format!("/proc/kallsyms cannot be read: {error}")),
    }
}

fn vdso(collector: &mut Collector<'_>, demangle: Demangle) {
    // The kernel maps one image into all processes of a kind; ours is the same if its build-id is.
    let bytes = match vdso_image() {
        Ok(bytes) => bytes,
        Err(error) => return collector.problem(format!("the image cannot be read: {error}")),
    };
    let elf = match Elf::parse(&bytes) {
        Ok(elf) => elf,
        Err(error) => return collector.problem(error),
    };
    if elf.build_id().is_none() || elf.build_id() != collector.job.module.build_id {
        return collector
            .problem("is of another kernel or kind of process; its functions cannot be named");
    }
    let image = ModuleImage::new(elf, None, None);
    let table = image.symbol_table(demangle);
    // It never has debug information, so that is not reported.
    collector.look_up_table(&table);
}

fn generated_code(collector: &mut Collector<'_>, pid: Pid, demangle: Demangle) {
    let (path, bytes) = match jit::read_map(pid) {
        Ok(found) => found,
        Err(sentence) => return collector.problem(sentence),
    };
    let map = match symbols::PerfMap::parse(&bytes) {
        Ok(map) => map,
        Err(error) => return collector.problem(format!("{}: {error}", path.display())),
    };
    collector.look_up_names(|address| map.lookup(address, demangle));
    if map.skipped() > 0 {
        let sentence = format!("{} lines of {} were not understood", map.skipped(), path.display());
        collector.problem(sentence);
    }
}

#[cfg(test)]
mod tests;
