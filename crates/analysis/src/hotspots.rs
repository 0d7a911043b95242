//! Self and total time per function, source line, module, thread, process or call stack, or combinations.
//!
//! *Self* is the time in which the innermost frame (inlined functions count as frames) belongs to the row; *total* the time in
//! which any frame does. A recursive function counts once per sample, not once per frame. What not: trees (`calltree`).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use base::{CpuId, NodeId, Pid};

use crate::code_keys::InLoop;
use crate::heap::AskedBy;
use crate::objects::{ObjectId, Piece};
use crate::profile::{Cell, Profile, StackCell, over_threads};
use crate::selection::Selection;
use crate::stack::{CallPathId, CallPaths, FunctionId, LineId, LocationId, ModuleIndex, Stacks};
use crate::threads::ThreadIndex;
use crate::traced::Site;
use crate::types::{FieldId, SiteTypes, TypeId};
use crate::weight::Weight;

/// What rows are grouped by. The names are VTune's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// `function`.
    Function,
    /// `call-stack`: the innermost function and all its callers.
    CallStack,
    /// `source-line`: file and line.
    SourceLine,
    /// `module`: program, library, kernel.
    Module,
    /// `thread`.
    Thread,
    /// `process`.
    Process,
    /// `cause`: why the kernel ran.
    Cause,
    /// `cpu`.
    Cpu,
    /// `time`: bins of it.
    Time,
    /// `object`: the memory object that is accessed.
    Object,
    /// `cache-line`: lines of the object, counted from the start of its blocks.
    CacheLine,
    /// `offset`: the distance of the access from the start of the object's block.
    Offset,
    /// `type`: what type of value a memory access is in.
    Type,
    /// `field`: which member of which type.
    Field,
    /// `free-stack`: who frees heap blocks, with all callers.
    FreeStack,
    /// `size-class`: sizes of heap blocks with as many binary digits.
    SizeClass,
    /// `call`: the function that heap blocks are asked from.
    Call,
    /// `waker`: the thread that ends a wait.
    Waker,
    /// `lifetime`: classes of how long heap blocks lived.
    Lifetime,
    /// `bandwidth-domain`: memory of a socket, of all, or of a NUMA node.
    BandwidthDomain,
    /// `loop`: the innermost loop with a share of the CPU time; of other code the function.
    Loop,
    /// `region`: the innermost region that the program marks and the thread is in. Not a part of [`RowKey`]: each region is a
    /// selection of its own (`Selection::by_region`).
    Region,
}

impl Key {
    /// All keys.
    pub const ALL: [Key; 22] = [
        Key::Function,
        Key::CallStack,
        Key::SourceLine,
        Key::Module,
        Key::Thread,
        Key::Process,
        Key::Type,
        Key::Field,
        Key::Object,
        Key::CacheLine,
        Key::Offset,
        Key::Cause,
        Key::Cpu,
        Key::Time,
        Key::FreeStack,
        Key::SizeClass,
        Key::Call,
        Key::Waker,
        Key::Lifetime,
        Key::Loop,
        Key::Region,
        Key::BandwidthDomain,
    ];

    /// Those that a sample has: code and threads without any data.
    pub const OF_SAMPLES: [Key; 6] =
        [Key::Function, Key::CallStack, Key::SourceLine, Key::Module, Key::Thread, Key::Process];

    /// Those that a sample of a counted event has.
    pub const OF_EVENTS: [Key; 7] = [
        Key::Function,
        Key::CallStack,
        Key::SourceLine,
        Key::Module,
        Key::Thread,
        Key::Process,
        Key::Cpu,
    ];

    /// Those that only a memory object has.
    pub const OF_OBJECTS: [Key; 3] = [Key::Object, Key::CacheLine, Key::Offset];

    /// Those of entries into the kernel, which have no code.
    pub const OF_KERNEL: [Key; 5] = [Key::Cause, Key::Process, Key::Thread, Key::Cpu, Key::Time];

    /// Its name as typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Key::Function => "function",
            Key::CallStack => "call-stack",
            Key::SourceLine => "source-line",
            Key::Module => "module",
            Key::Thread => "thread",
            Key::Process => "process",
            Key::Cause => "cause",
            Key::Cpu => "cpu",
            Key::Time => "time",
            Key::Object => "object",
            Key::CacheLine => "cache-line",
            Key::Offset => "offset",
            Key::Type => "type",
            Key::Field => "field",
            Key::FreeStack => "free-stack",
            Key::SizeClass => "size-class",
            Key::Call => "call",
            Key::Waker => "waker",
            Key::Lifetime => "lifetime",
            Key::Loop => "loop",
            Key::Region => "region",
            Key::BandwidthDomain => "bandwidth-domain",
        }
    }
}

/// The key of a row: the parts that were grouped by are set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[expect(missing_docs, reason = "each field is named after the key it holds")]
pub struct RowKey {
    pub function: Option<FunctionId>,
    pub line: Option<LineId>,
    pub module: Option<ModuleIndex>,
    pub stack: Option<CallPathId>,
    pub thread: Option<ThreadIndex>,
    pub process: Option<Pid>,
    pub cpu: Option<CpuId>,
    pub object: Option<ObjectId>,
    pub piece: Option<Piece>,
    pub node: Option<NodeId>,
    pub value_type: Option<TypeId>,
    pub field: Option<FieldId>,
    pub call: Option<AskedBy>,
    pub in_loop: Option<InLoop>,
}

impl RowKey {
    /// The part of the key that the code decides.
    pub(crate) fn at(keys: &[Key], stacks: &Stacks, place: LocationId) -> RowKey {
        let place = &stacks.places[place.index()];
        let module = stacks.functions[place.function.index()].module;
        RowKey {
            function: keys.contains(&Key::Function).then_some(place.function),
            line: keys.contains(&Key::SourceLine).then_some(place.source),
            module: keys.contains(&Key::Module).then_some(module),
            ..RowKey::default()
        }
    }

    /// With the parts that only a memory access has.
    pub(crate) fn with_site(self, keys: &[Key], types: &SiteTypes, site: &Site) -> RowKey {
        RowKey {
            value_type: keys.contains(&Key::Type).then(|| types.type_of(site)),
            field: keys.contains(&Key::Field).then(|| types.field_of(site)),
            ..self
        }
    }

    /// The part of the key that the thread decides.
    pub(crate) fn of_thread(keys: &[Key], profile: &Profile<'_>, thread: ThreadIndex) -> RowKey {
        RowKey {
            thread: keys.contains(&Key::Thread).then_some(thread),
            process: keys.contains(&Key::Process).then(|| profile.threads.get(thread).pid),
            ..RowKey::default()
        }
    }

    pub(crate) fn with_thread_of(self, other: RowKey) -> RowKey {
        RowKey { thread: other.thread, process: other.process, ..self }
    }
}

/// One row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hotspot {
    /// What it is.
    pub key: RowKey,
    /// The place in it with the most self time (total time when it has no self time).
    pub place: LocationId,
    /// Time in it itself.
    pub self_time: Weight,
    /// Time in it and in what it called. With [`Key::CallStack`] the same as `self_time`.
    pub total_time: Weight,
}

/// All rows, largest self time first, and the paths that [`RowKey::stack`] points to.
pub struct Hotspots {
    /// The rows.
    pub rows: Vec<Hotspot>,
    /// Samples that any row was made from, each once.
    pub selected: Weight,
    /// Present with [`Key::CallStack`].
    pub paths: Option<CallPaths>,
}

/// Groups the selected samples and frames by `keys`. No keys mean [`Key::Function`].
#[must_use]
pub fn hotspots(profile: &Profile<'_>, selection: &Selection, keys: &[Key]) -> Hotspots {
    let keys = if keys.is_empty() { &[Key::Function] } else { keys };
    let mut rows = Rows::new(profile, selection, keys);
    let paths = keys.contains(&Key::CallStack).then(|| profile.stacks.call_paths());
    for (context, cells) in cells_by_thread(profile, selection, keys) {
        match &paths {
            Some(paths) => rows.add_paths(context, &cells, paths),
            None => rows.add_frames(context, &cells),
        }
    }
    let Rows { mut done, selected, .. } = rows;
    sort(profile, &mut done);
    Hotspots { rows: done, selected, paths }
}

/// The selected samples by what the thread decides of the key, summed per stack.
fn cells_by_thread<'p>(
    profile: &'p Profile<'_>,
    selection: &Selection,
    keys: &[Key],
) -> Vec<(RowKey, Cow<'p, [StackCell]>)> {
    let of_threads = keys.contains(&Key::Thread) || keys.contains(&Key::Process);
    if !of_threads && !selection.chooses_threads() && selection.time().is_none() {
        return vec![(RowKey::default(), Cow::Borrowed(profile.stack_cells()))];
    }
    let mut groups: BTreeMap<RowKey, Vec<Cell>> = BTreeMap::new();
    for cell in profile.cells(selection) {
        groups.entry(RowKey::of_thread(keys, profile, cell.thread)).or_default().push(cell);
    }
    groups.into_iter().map(|(key, cells)| (key, Cow::Owned(over_threads(&cells)))).collect()
}

/// Largest self time first, then total; equal rows by name, so that the order never depends on ids.
fn sort(profile: &Profile<'_>, rows: &mut [Hotspot]) {
    rows.sort_by(|a, b| {
        let amounts = |row: &Hotspot| (row.self_time.amount(), row.total_time.amount());
        let names = |row: &Hotspot| {
            let function = profile.stacks.function_of(row.place);
            (&function.name, &function.file, profile.stacks.places[row.place.index()].line)
        };
        amounts(b)
            .cmp(&amounts(a))
            .then_with(|| names(a).cmp(&names(b)))
            .then_with(|| a.key.cmp(&b.key))
    });
}

/// Marks a place that no row is made for.
const NOT_CHOSEN: u32 = u32::MAX;

struct Rows<'a> {
    profile: &'a Profile<'a>,
    keys: &'a [Key],
    /// Distinct code keys, and which of them each place belongs to.
    codes: Vec<RowKey>,
    code_of_place: Vec<u32>,
    done: Vec<Hotspot>,
    selected: Weight,
}

#[derive(Clone, Default)]
struct Sums {
    self_time: Weight,
    total_time: Weight,
    /// The last cell that was counted into `total_time`: a cell counts once.
    stamp: usize,
    best: Option<(u64, u64, LocationId)>,
}

impl<'a> Rows<'a> {
    fn new(profile: &'a Profile<'a>, selection: &Selection, keys: &'a [Key]) -> Rows<'a> {
        let stacks = &profile.stacks;
        let mut known: HashMap<RowKey, u32> = HashMap::new();
        let mut codes = Vec::new();
        let code = |at: usize| {
            if !selection.has_place(LocationId::new(at)) {
                return NOT_CHOSEN;
            }
            *known.entry(RowKey::at(keys, stacks, LocationId::new(at))).or_insert_with_key(|key| {
                codes.push(*key);
                (codes.len() - 1) as u32
            })
        };
        let code_of_place = (0..stacks.places.len()).map(code).collect();
        Rows { profile, keys, codes, code_of_place, done: Vec::new(), selected: Weight::default() }
    }

    fn add_frames(&mut self, context: RowKey, cells: &[StackCell]) {
        let mut sums = vec![Sums::default(); self.codes.len()];
        let mut touched = Vec::new();
        let mut place_times = vec![(0u64, 0u64); self.code_of_place.len()];
        for (at, cell) in cells.iter().enumerate() {
            let stamp = at + 1;
            let mut chosen = false;
            for (depth, place) in self.profile.stacks.frames(cell.stack).enumerate() {
                let code = self.code_of_place[place.index()];
                if code == NOT_CHOSEN {
                    continue;
                }
                chosen = true;
                let sum = &mut sums[code as usize];
                let times = &mut place_times[place.index()];
                if sum.stamp == 0 {
                    touched.push(code);
                }
                if sum.stamp != stamp {
                    sum.stamp = stamp;
                    sum.total_time.merge(&cell.weight);
                    times.1 = times.1.saturating_add(cell.weight.amount());
                }
                if depth == 0 {
                    sum.self_time.merge(&cell.weight);
                    times.0 = times.0.saturating_add(cell.weight.amount());
                }
                let candidate = (times.0, times.1, place);
                let better = |best: (u64, u64, LocationId)| (best.0, best.1) < (times.0, times.1);
                if sum.best.is_none_or(better) {
                    sum.best = Some(candidate);
                }
            }
            if chosen {
                self.selected.merge(&cell.weight);
            }
        }
        for code in touched {
            let sum = &sums[code as usize];
            self.done.push(Hotspot {
                key: self.codes[code as usize].with_thread_of(context),
                place: sum.best.map_or(crate::stack::NO_STACK, |best| best.2),
                self_time: sum.self_time,
                total_time: sum.total_time,
            });
        }
    }

    fn add_paths(&mut self, context: RowKey, cells: &[StackCell], paths: &CallPaths) {
        let mut sums: BTreeMap<RowKey, (Weight, LocationId, u64)> = BTreeMap::new();
        for cell in cells {
            let place = self.profile.stacks.innermost(cell.stack);
            let code = self.code_of_place[place.index()];
            if code == NOT_CHOSEN {
                continue;
            }
            self.selected.merge(&cell.weight);
            let key = RowKey { stack: Some(paths.of(cell.stack)), ..self.codes[code as usize] };
            let sum =
                sums.entry(key.with_thread_of(context)).or_insert((Weight::default(), place, 0));
            sum.0.merge(&cell.weight);
            if cell.weight.amount() > sum.2 {
                (sum.1, sum.2) = (place, cell.weight.amount());
            }
        }
        debug_assert!(self.keys.contains(&Key::CallStack));
        self.done.extend(sums.into_iter().map(|(key, (weight, place, _))| Hotspot {
            key,
            place,
            self_time: weight,
            total_time: weight,
        }));
    }
}
