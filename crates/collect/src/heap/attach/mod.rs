//! The heap of a process that we attach to: brings the agent into it, and redirects the calls of its allocator to the
//! agent.
//!
//! How: a thread of the process maps the agent and the shared memory for us (`burst::guest`). The rest is done from
//! outside: we write into the process's memory (`/proc/PID/mem`, proc_pid_mem(5)) while its threads run. Calls
//! between files go through words that hold the address of the function (the global offset table). We change one byte
//! of a word that holds the allocator's `malloc`. It then leads to an address that we have mapped at just that
//! distance, where a jump leads to the agent. One byte, because a thread that reads the word meanwhile finds the old
//! address or the new one, never a mixture: the kernel does not promise to write eight bytes at once.
//!
//! The program is never harmed. No function of it runs on our behalf, so none of its locks is taken. A word is
//! changed only while it holds exactly the expected address. Both values of it work at any time, even when we are
//! dead. At the end the bytes are restored. The agent stays, because a thread may be inside it, or hold the address
//! of one of its functions.
//!
//! What not: words that were not called through yet (the dynamic linker has not filled them; they are checked again
//! ten times a second). Files whose code compares a function's address with another, which could see the difference.
//! Calls within a file. Allocators in the program's own file, and programs without glibc.
//!
//! Assumption: in the microseconds between reading a word and writing its byte, no library is unloaded and replaced
//! by another file.

mod allocator;
mod image;
mod loaded;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use base::{Nanos, Pid, RemoteAddr};
use burst::{Guest, Wanted};
use sys::shared::SharedMemory;
use sys::trace::read_pieces;

use super::HeapOptions;
use allocator::{
    BYTE, MAPPING, agents, c_library, free_distance, is_c_library, is_former, page_of,
};
use image::Image;
use loaded::Loaded;

/// How long we search for a thread that can make our system calls.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time between two searches for newly loaded files.
const NEW_FILES: Nanos = Nanos(1_000_000_000);

/// Why the heap of a process is not recorded.
#[derive(Debug, thiserror::Error)]
pub enum NoHeap {
    /// No thread could map the agent.
    #[error("{0}")]
    NotBrought(#[from] burst::NotBrought),
    /// The calls of its allocator cannot be redirected, or cannot be identified.
    #[error("{0}")]
    Process(&'static str),
    /// The memory of another process cannot be written here.
    #[error("writing into the process's memory failed: {0}")]
    Memory(#[from] std::io::Error),
}

/// A function whose calls are redirected.
#[derive(Clone, Copy)]
struct Function {
    real: RemoteAddr,
    /// The address that leads to the agent.
    lead: RemoteAddr,
}

/// A word that holds a function's address.
struct Slot {
    at: RemoteAddr,
    function: Function,
}

/// A process with the agent in it.
pub struct Attached {
    pid: Pid,
    functions: HashMap<String, Function>,
    /// By file and its address.
    slots: BTreeMap<(String, RemoteAddr), Vec<Slot>>,
    /// A word of the agent and its value: memory that has this value has the agent.
    mark: (RemoteAddr, RemoteAddr),
    /// Mappings of agents from earlier recordings.
    former: Vec<Range<RemoteAddr>>,
    left_alone: BTreeSet<String>,
    files_looked_at: Nanos,
}

impl Attached {
    /// Brings the agent into a process; no call leads to it yet. Also returns the memory that both share, of `bytes`
    /// bytes.
    ///
    /// # Errors
    /// Why the process's heap will not be recorded. The process continues unchanged.
    pub fn bring(
        pid: Pid,
        options: &HeapOptions,
        bytes: usize,
    ) -> Result<(Attached, SharedMemory), NoHeap> {
        let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/pid")).ok();
        if namespace(&pid.to_string()) != namespace("self") {
            return Err(NoHeap::Process(
                "in its pid name space (a container's) it has another number",
            ));
        }
        let file = std::fs::read(&options.agent)?;
        let image = Image::parse(&file).ok_or(NoHeap::Process("the agent's file is damaged"))?;
        let files = loaded::files(pid);
        let library = c_library(&files)?;
        let former = agents(pid);
        let memory = open_memory(pid)?;
        let wanted: Vec<&str> =
            image.replaced().filter(|name| options.regions || !MAPPING.contains(name)).collect();
        let real = allocator::functions(&memory, pid, &files, library, &wanted, &former)?;
        let flip = free_distance(pid, real.values().copied())
            .ok_or(NoHeap::Process("there is no room for the library next to the allocator"))?;
        let functions: HashMap<String, Function> = real
            .into_iter()
            .map(|(name, real)| (name, Function { real, lead: RemoteAddr(real.0 ^ flip) }))
            .collect();
        let pages: BTreeSet<RemoteAddr> =
            functions.values().map(|function| page_of(function.lead)).collect();
        let pages: Vec<RemoteAddr> = pages.into_iter().collect();
        let name = options.agent.file_name().unwrap_or_default().to_string_lossy();
        let wanted = Wanted {
            name: &name,
            file: &file,
            segments: &image.segments,
            span: image.span,
            pages: &pages,
            page_offset: image.code,
            memory_bytes: bytes,
        };
        let guest = burst::bring(pid, &wanted, PATIENCE)?;
        let mark = fill(pid, &image, &guest, library, &functions)?;
        let attached = Attached {
            pid,
            functions,
            slots: BTreeMap::new(),
            mark,
            former,
            left_alone: BTreeSet::new(),
            files_looked_at: Nanos(0),
        };
        Ok((attached, guest.memory))
    }

    /// Redirects calls to the agent: all of them at first, later those of newly loaded files and those that the
    /// dynamic linker has resolved since. `now` is since the recording began.
    pub fn look(&mut self, now: Nanos) {
        if self.slots.is_empty() || now - self.files_looked_at >= NEW_FILES {
            self.files_looked_at = now;
            self.find_slots();
        }
        self.lead(self.pid, |function, value| {
            let is_old = || is_former(value, function.real, &self.former);
            (value == function.real || value != function.lead && is_old()).then_some(function.lead)
        });
    }

    fn find_slots(&mut self) {
        let names: Vec<&str> = self.functions.keys().map(String::as_str).collect();
        let files = loaded::files(self.pid);
        let key = |file: &Loaded| (file.name.clone(), file.start);
        // The words of an unloaded library are no longer checked.
        self.slots.retain(|known, _| files.iter().any(|file| key(file) == *known));
        for file in &files {
            if self.slots.contains_key(&key(file)) {
                continue;
            }
            let mut imports = file.imports(&names);
            let defined = file.defined(&names);
            let allocates = |(name, at): (&String, &RemoteAddr)| {
                self.functions.get(name).is_some_and(|function| function.real == *at)
            };
            if is_c_library(&file.name) {
                // Its code compares none of these addresses, and it calls the allocator like other files do.
            } else if imports.iter().any(|import| import.may_be_seen) {
                self.left_alone.insert(file.name.clone());
                imports.clear();
            } else if defined.iter().any(allocates) {
                // Calls of the allocator within itself are not redirected.
                imports.clear();
            }
            let slots = imports.iter().filter_map(|import| {
                let function = *self.functions.get(&import.function)?;
                Some(Slot { at: import.at, function })
            });
            self.slots.insert(key(file), slots.collect());
        }
    }

    /// Changes the words for which `to` gives another value, in a process that has the agent.
    fn lead(&self, pid: Pid, to: impl Fn(&Function, RemoteAddr) -> Option<RemoteAddr>) {
        let slots: Vec<&Slot> = self.slots.values().flatten().collect();
        let held = values(pid, &slots);
        let due = slots
            .into_iter()
            .zip(held)
            .filter(|(slot, value)| value.is_some_and(|value| to(&slot.function, value).is_some()));
        let mut due = due.map(|(slot, _)| slot).peekable();
        if due.peek().is_none() {
            return;
        }
        // By descriptor from here on: it refers to this memory even if the process executes another program.
        let Ok(memory) = open_memory(pid) else { return };
        let (mark, content) = self.mark;
        if read_word(&memory, mark) != Some(content) {
            return;
        }
        for slot in due {
            let place = read_word(&memory, slot.at).and_then(|value| to(&slot.function, value));
            if let Some(place) = place {
                // An error means that the word is gone, with its file.
                let _ = write_byte(&memory, slot.at, place);
            }
        }
    }

    /// Restores the words, in the process and in its children, which have copies of them.
    pub fn put_back(&self, children: impl Iterator<Item = Pid>) {
        let processes: BTreeSet<Pid> = children.chain([self.pid]).collect();
        for pid in processes {
            self.lead(pid, |function, value| (value == function.lead).then_some(function.real));
        }
    }

    /// Notes for the reader.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "heap blocks are known from the attach on; what was allocated before is shown as from before the attach"
                .to_owned(),
        ];
        let mut names = self.left_alone.iter().map(String::as_str);
        if let Some(first) = names.next() {
            let others = names.count();
            let others = if others > 0 { format!(" and {others} others") } else { String::new() };
            notes.push(format!(
                "heap blocks that {first}{others} asked for or freed were not seen: its code compares addresses of the \
                 allocator's functions, which were therefore left as they are"
            ));
        }
        notes
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Reached if the recording does not begin after all.
        self.put_back(std::iter::empty());
    }
}

/// Makes the agent ready: its addresses, the functions that it passes calls on to, and the jumps to it. Returns the
/// word that was written last, and its value.
fn fill(
    pid: Pid,
    image: &Image,
    guest: &Guest,
    library: &Loaded,
    functions: &HashMap<String, Function>,
) -> Result<(RemoteAddr, RemoteAddr), NoHeap> {
    let memory = open_memory(pid)?;
    let put = |at: RemoteAddr, bytes: &[u8]| memory.write_all_at(bytes, at.0);
    for (at, bytes) in image.filled(guest.base, &library.defined(&image.needed())) {
        put(at, &bytes)?;
    }
    let word = |name: &str, value: u64| match image.address(name, guest.base) {
        Some(at) => put(at, &value.to_le_bytes()),
        None => Err(std::io::ErrorKind::NotFound.into()),
    };
    let mut leads = BTreeSet::new();
    for (name, function) in functions {
        word(&format!("fathom_real_{name}"), function.real.0)?;
        let Some(to) = image.address(name, guest.base) else { continue };
        // Two names of one function share an address.
        if leads.insert(function.lead) {
            // jmp [rip+0] (SDM vol. 2, JMP: FF /4), and its target.
            let mut jump = vec![0xff, 0x25, 0, 0, 0, 0];
            jump.extend(to.0.to_le_bytes());
            put(function.lead, &jump)?;
        }
    }
    word("fathom_thread_id", thread_number_offset(pid, library))?;
    word("fathom_header", guest.memory_at.0)?;
    let mark = image.address("fathom_header", guest.base).unwrap_or_default();
    Ok((mark, guest.memory_at))
}

/// Offset of the thread's number in its control block, as the C library tells debuggers (see the agent's
/// `thread_id`); 0 if it does not.
fn thread_number_offset(pid: Pid, library: &Loaded) -> u64 {
    const NAME: &str = "_thread_db_pthread_tid";
    // The description comes from the process: an offset beyond any `struct pthread` is not believed.
    const LARGEST: u32 = 4096;
    let Some(at) = library.defined(&[NAME]).get(NAME).copied() else { return 0 };
    let mut bytes = [0; 12];
    if !read_pieces(pid, &[(at, bytes.len())], &mut bytes) {
        return 0;
    }
    let word = |from: usize| {
        u32::from_le_bytes([bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]])
    };
    let [bits, count, offset] = [word(0), word(4), word(8)];
    if bits == 32 && count == 1 && offset < LARGEST { offset.into() } else { 0 }
}

fn open_memory(pid: Pid) -> std::io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

fn read_word(memory: &File, at: RemoteAddr) -> Option<RemoteAddr> {
    let mut bytes = [0; 8];
    memory.read_exact_at(&mut bytes, at.0).ok()?;
    Some(RemoteAddr(u64::from_le_bytes(bytes)))
}

/// Changes the byte in which a function's address and its redirection differ.
fn write_byte(memory: &File, at: RemoteAddr, to: RemoteAddr) -> std::io::Result<()> {
    memory.write_all_at(&[to.0.to_le_bytes()[BYTE as usize]], at.0 + u64::from(BYTE))
}

/// The values of words; `None` for those that are gone.
fn values(pid: Pid, slots: &[&Slot]) -> Vec<Option<RemoteAddr>> {
    let word = |bytes: [u8; 8]| Some(RemoteAddr(u64::from_le_bytes(bytes)));
    let pieces: Vec<(RemoteAddr, usize)> = slots.iter().map(|slot| (slot.at, 8)).collect();
    let mut bytes = vec![0; 8 * pieces.len()];
    if read_pieces(pid, &pieces, &mut bytes) {
        return bytes.as_chunks::<8>().0.iter().map(|bytes| word(*bytes)).collect();
    }
    let one = |piece: &(RemoteAddr, usize)| {
        let mut bytes = [0; 8];
        read_pieces(pid, &[*piece], &mut bytes).then_some(bytes).and_then(word)
    };
    pieces.iter().map(one).collect()
}
