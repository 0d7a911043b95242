//! The modules (files with code) that were seen, each with what unwinding through it needs.
//!
//! What for: one id per file for the whole recording, and the file's unwind sections mapped once. What not: symbols;
//! they are looked up after the collection (`symbolise`).
//!
//! Files are opened at their first mapping and stay open ([`HeldFiles`]): a running program may have no path (in a
//! memfd), and later a path may be gone or name another file.
//!
//! Assumption: a path names the same file for the whole recording. If a program replaces a library in use, frames in
//! the later one are looked up in the earlier; `symbolise` compares build-ids and refuses.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{ModuleId, Pid, RemoteAddr};
use facts::{Fact, Module, ModuleKind, Sink, SinkError};
use framehop::ExplicitModuleSectionInfo;
use object::read::elf::{ElfFile, FileHeader};
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use sys::map::FileMap;

use crate::address_space::changed_table;

/// Largest vdso image that is read, bytes; real ones have two pages.
const VDSO_LIMIT: u64 = 1 << 20;

/// The kernel's suffix for the name of a file that has no path any more, or never had one.
pub(crate) const DELETED: &str = " (deleted)";

/// The ELF files behind modules, as they were when they were mapped.
pub type HeldFiles = BTreeMap<ModuleId, Arc<FileMap>>;

/// A slice of a mapped file (or of the vdso image) that keeps the whole alive.
#[derive(Clone)]
pub struct SectionBytes {
    whole: Arc<dyn Deref<Target = [u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Deref for SectionBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.whole.get(self.range.clone()).unwrap_or(&[])
    }
}

impl SectionBytes {
    /// Of an `.eh_frame`.
    fn for_unwinder(self) -> SectionBytes {
        match changed_table(&self) {
            Some(changed) => SectionBytes { range: 0..changed.len(), whole: Arc::new(changed) },
            None => self,
        }
    }
}

/// A segment of code: which bytes of the file belong at which address. Other segments are left out: lld puts the end
/// of one segment and the start of the next into one page of the file, and the mapping of the code begins with that
/// page.
#[derive(Clone, Copy, Debug)]
struct Segment {
    file_offset: u64,
    file_size: u64,
    address: u64,
}

/// What unwinding needs to know about an ELF file.
#[derive(Clone)]
pub struct UnwindSections {
    segments: Vec<Segment>,
    /// Unwind sections with their stated addresses.
    pub sections: ExplicitModuleSectionInfo<SectionBytes>,
}

impl UnwindSections {
    /// The address stated in the file for the byte at `file_offset`.
    #[must_use]
    pub fn stated_address(&self, file_offset: u64) -> Option<u64> {
        // Mappings are rounded to pages, so they may begin a little before their segment.
        let page = sys::process::page_size() as u64;
        let page_start = |segment: &Segment| segment.file_offset / page * page;
        let segment = self.segments.iter().find(|segment| {
            file_offset >= page_start(segment)
                && file_offset < segment.file_offset.saturating_add(segment.file_size)
        })?;
        segment.address.checked_sub(segment.file_offset)?.checked_add(file_offset)
    }
}

/// A module as the recording knows it.
#[derive(Clone)]
pub struct KnownModule {
    /// Its id in the facts.
    pub id: ModuleId,
    /// Whether offsets in it are absolute addresses: memory without a file.
    pub absolute: bool,
    /// Unwind information, when the file could be read and is ELF.
    pub unwind: Option<Arc<UnwindSections>>,
    /// Whether this mapping of it has nothing but copies of [`TRAMPOLINE`].
    pub trampolines: bool,
}

/// CPython's frame for a Python function, where profilers are to name it (Python/asm_trampoline.S, 3.12 and 3.13): `sub rsp, 8; call rcx;
/// add rsp, 8; ret`. Each has a place in `/tmp/perf-PID.map`, none has unwind information, and rbp is any value.
const TRAMPOLINE: [u8; 11] = [0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3];
/// Before it where Python was built for Intel CET.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Whether memory of a process begins with a trampoline. Copies fill such a mapping from its start, before it becomes executable.
fn has_trampolines(pid: Pid, start: RemoteAddr) -> bool {
    let mut code = [0; ENDBR64.len() + TRAMPOLINE.len()];
    let got = sys::trace::read_memory(pid, start, &mut code);
    let code = &code[..got];
    code.strip_prefix(&ENDBR64).unwrap_or(code).starts_with(&TRAMPOLINE)
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    File(String),
    /// A program in a memfd, whose name others may share.
    InMemory(Pid, String),
    Kernel,
    Vdso,
    Anonymous(Pid),
    Unknown,
    Guest(&'static str),
}

/// What is known of the files behind a recording that was made before, perhaps on another machine.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The build-ids of its files and of `[vdso]`, by path.
    pub build_ids: HashMap<String, String>,
    /// Whether it was made on this machine: then a file without a build-id is taken to be the one of that path.
    pub here: bool,
    /// Where files are kept by build-id, as `perf buildid-cache` does: `DIR/.build-id/ab/cdef.../elf`.
    pub caches: Vec<PathBuf>,
}

impl Recorded {
    /// The file that was mapped as `name`; `None` if no file here is certain to be that one.
    fn open(&self, name: &str) -> Option<Arc<FileMap>> {
        let Some(id) = self.build_ids.get(name) else {
            return self.here.then(|| FileMap::open(Path::new(name)).ok()).flatten().map(Arc::new);
        };
        let kept = self.caches.iter().filter_map(|cache| {
            let (first, rest) = id.split_at_checked(2)?;
            Some(cache.join(".build-id").join(first).join(rest).join("elf"))
        });
        std::iter::once(PathBuf::from(name)).chain(kept).find_map(|path| {
            let file = Arc::new(FileMap::open(&path).ok()?);
            let found = symbols::Elf::parse(&file).ok()?.build_id();
            (found.as_ref() == Some(id)).then_some(file)
        })
    }
}

/// All modules of a recording.
#[derive(Default)]
pub struct ModuleTable {
    known: HashMap<Key, KnownModule>,
    held: HeldFiles,
    /// `None` while the program runs.
    recorded: Option<Recorded>,
}

impl ModuleTable {
    /// From now on, mappings are those of a recording that was made before.
    pub fn recorded_before(&mut self, recorded: Recorded) {
        self.recorded = Some(recorded);
    }

    /// The module of a mapping named `name` at `range` in process `pid`; a new one is announced to `sink`.
    pub fn of_mapping(
        &mut self,
        pid: Pid,
        name: &str,
        range: &Range<RemoteAddr>,
        sink: &mut dyn Sink,
    ) -> Result<KnownModule, SinkError> {
        if name == "[vdso]" {
            let live = self.recorded.is_none();
            return self.intern(Key::Vdso, sink, || {
                let image = live.then(|| vdso_image().ok()).flatten();
                let image = image.map(|bytes| -> Image { Arc::new(bytes) });
                (ModuleKind::Vdso, name.to_owned(), image)
            });
        }
        let in_memory = name.starts_with("/memfd:");
        if !in_memory && !is_file_name(name) {
            let trampolines = self.recorded.is_none() && has_trampolines(pid, range.start);
            return Ok(KnownModule { trampolines, ..self.anonymous(pid, sink)? });
        }
        let key = match in_memory {
            true => Key::InMemory(pid, name.to_owned()),
            false => Key::File(name.to_owned()),
        };
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let file = match &self.recorded {
            Some(recorded) => recorded.open(name),
            None => open_file(pid, name, range),
        };
        let file = file.filter(|file| file.starts_with(&object::elf::ELFMAG));
        if in_memory && file.is_none() {
            // A JIT compiler's file contains code without the structure of a file.
            return self.anonymous(pid, sink);
        }
        let path = if in_memory { name.strip_suffix(DELETED).unwrap_or(name) } else { name };
        let image = file.clone().map(|file| -> Image { file });
        let known = self.intern(key, sink, || (ModuleKind::File, path.to_owned(), image))?;
        if let Some(file) = file {
            self.held.insert(known.id, file);
        }
        Ok(known)
    }

    /// Takes the files.
    pub fn take_files(&mut self) -> HeldFiles {
        std::mem::take(&mut self.held)
    }

    /// The file behind a module.
    #[must_use]
    pub fn file(&self, module: ModuleId) -> Option<&FileMap> {
        self.held.get(&module).map(|file| &**file)
    }

    /// The kernel.
    pub fn kernel(&mut self, sink: &mut dyn Sink) -> Result<ModuleId, SinkError> {
        Ok(self.intern(Key::Kernel, sink, || (ModuleKind::Kernel, "[kernel]".to_owned(), None))?.id)
    }

    /// Executable memory of `pid` without a file.
    pub fn anonymous(&mut self, pid: Pid, sink: &mut dyn Sink) -> Result<KnownModule, SinkError> {
        self.intern(Key::Anonymous(pid), sink, || {
            (ModuleKind::Anonymous { pid }, "[anon]".to_owned(), None)
        })
    }

    /// Addresses outside of every mapping.
    pub fn unknown(&mut self, sink: &mut dyn Sink) -> Result<ModuleId, SinkError> {
        Ok(self
            .intern(Key::Unknown, sink, || (ModuleKind::Unknown, "[unknown]".to_owned(), None))?
            .id)
    }

    /// Addresses of a virtual machine's guest.
    pub fn guest(
        &mut self,
        name: &'static str,
        sink: &mut dyn Sink,
    ) -> Result<ModuleId, SinkError> {
        let describe = || (ModuleKind::Unknown, name.to_owned(), None);
        Ok(self.intern(Key::Guest(name), sink, describe)?.id)
    }

    fn intern(
        &mut self,
        key: Key,
        sink: &mut dyn Sink,
        describe: impl FnOnce() -> (ModuleKind, String, Option<Image>),
    ) -> Result<KnownModule, SinkError> {
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let (kind, path, image) = describe();
        let id = ModuleId(u32::try_from(self.known.len()).unwrap_or(u32::MAX));
        let (build_id, unwind) = match image.and_then(read_image) {
            Some((build_id, unwind)) => (build_id, Some(Arc::new(unwind))),
            None => (None, None),
        };
        let recorded = self.recorded.as_ref().and_then(|known| known.build_ids.get(&path));
        let build_id = recorded.cloned().or(build_id);
        sink.push(Fact::Module(Module { id, kind, path, build_id }))?;
        let absolute = matches!(kind, ModuleKind::Anonymous { .. });
        let known = KnownModule { id, absolute, unwind, trampolines: false };
        self.known.insert(key, known.clone());
        Ok(known)
    }
}

/// Whether a mapping's name, as the kernel reports it, is a file that can be looked up. The kernel marks everything
/// else: `//anon`, `[heap]`, `/memfd:x (deleted)`, `/dev/zero`, `/anon_hugepage`, `/SYSV...`, `anon_inode:...`.
fn is_file_name(name: &str) -> bool {
    name.starts_with('/')
        && !["//anon", "/memfd:", "/dev/zero", "/anon_hugepage", "/SYSV"]
            .iter()
            .any(|special| name.starts_with(special))
}

type Image = Arc<dyn Deref<Target = [u8]> + Send + Sync>;

/// Opens the file that `pid` maps as `name` at `range`. That is the mapped file itself while the process lives and
/// the kernel permits it: the program by `/proc/PID/exe`, others by `/proc/PID/map_files`, which only root may follow
/// (proc_pid_map_files(5)). Else it is the file of that name. The process may live in another mount name space, so
/// its own root is tried first.
fn open_file(pid: Pid, name: &str, range: &Range<RemoteAddr>) -> Option<Arc<FileMap>> {
    let plain = |name: &str| name.strip_suffix(DELETED).unwrap_or(name).to_owned();
    let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", range.start.0, range.end.0);
    let very = [format!("/proc/{pid}/exe"), mapped].into_iter().find_map(|link| {
        let target = std::fs::read_link(&link).ok()?;
        let same = target.to_str().is_some_and(|target| plain(target) == plain(name));
        same.then(|| FileMap::open(Path::new(&link)).ok()).flatten()
    });
    let inside = || FileMap::open(&PathBuf::from(format!("/proc/{pid}/root{name}"))).ok();
    very.or_else(inside).or_else(|| FileMap::open(Path::new(name)).ok()).map(Arc::new)
}

/// The vdso of this process: the kernel maps the same image into every 64-bit process of one boot.
///
/// # Errors
/// `NotFound` when this process has none (kernel parameter `vdso=0`), and what reading /proc/self gives.
pub(crate) fn vdso_image() -> std::io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let missing = || std::io::Error::new(std::io::ErrorKind::NotFound, "this process has no vdso");
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).ok_or_else(missing)?;
    let range =
        line.split(' ').next().and_then(|range| range.split_once('-')).ok_or_else(missing)?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).map_err(|_| missing());
    let (start, end) = (hexadecimal(range.0)?, hexadecimal(range.1)?);
    let size = end.checked_sub(start).filter(|size| *size <= VDSO_LIMIT).ok_or_else(missing)?;
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| missing())?];
    std::fs::File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

fn read_image(image: Image) -> Option<(Option<String>, UnwindSections)> {
    let bytes: &[u8] = &image;
    match bytes.get(4)? {
        2 => read_elf::<object::elf::FileHeader64<object::Endianness>>(&image),
        1 => read_elf::<object::elf::FileHeader32<object::Endianness>>(&image),
        _ => None,
    }
}

fn read_elf<Header: FileHeader>(image: &Image) -> Option<(Option<String>, UnwindSections)> {
    let elf = ElfFile::<Header>::parse(&***image).ok()?;
    let build_id = elf.build_id().ok().flatten().map(symbols::hex);
    let segments = elf
        .segments()
        .filter(|segment| match segment.flags() {
            SegmentFlags::Elf { p_flags, .. } => p_flags.contains(object::elf::PF_X),
            _ => false,
        })
        .map(|segment| {
            let (file_offset, file_size) = segment.file_range();
            Segment { file_offset, file_size, address: segment.address() }
        })
        .collect();
    let section = |name: &str| {
        let section = elf.section_by_name(name)?;
        // Only .debug_frame is ever compressed. It is left out: nearly every file has .eh_frame.
        let range = section.compressed_file_range().ok()?;
        if range.format != object::CompressionFormat::None {
            return None;
        }
        let start = usize::try_from(range.offset).ok()?;
        let end = start.checked_add(usize::try_from(range.uncompressed_size).ok()?)?;
        let address = section.address()..section.address().checked_add(section.size())?;
        image.get(start..end)?;
        Some((address, SectionBytes { whole: Arc::clone(image), range: start..end }))
    };
    let (text, eh_frame, header) =
        (section(".text"), section(".eh_frame"), section(".eh_frame_hdr"));
    let got = section(".got");
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0, // framehop: "For ELF objects, this is zero."
        text_svma: text.as_ref().map(|(address, _)| address.clone()),
        text: text.map(|(_, bytes)| bytes),
        got_svma: got.map(|(address, _)| address),
        eh_frame_svma: eh_frame.as_ref().map(|(address, _)| address.clone()),
        eh_frame: eh_frame.map(|(_, bytes)| bytes.for_unwinder()),
        eh_frame_hdr_svma: header.as_ref().map(|(address, _)| address.clone()),
        eh_frame_hdr: header.map(|(_, bytes)| bytes),
        debug_frame: section(".debug_frame").map(|(_, bytes)| bytes),
        stubs_svma: None,
        stub_helper_svma: None,
        unwind_info: None,
        text_segment_svma: None,
        text_segment: None,
    };
    Some((build_id, UnwindSections { segments, sections }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_mappings_are_not_files() {
        let names = [
            "//anon",
            "[heap]",
            "/memfd:jit (deleted)",
            "/anon_hugepage (deleted)",
            "",
            "/dev/zero",
        ];
        assert!(names.iter().all(|name| !is_file_name(name)));
        assert!(is_file_name("/usr/lib/x86_64-linux-gnu/libc.so.6"));
    }

    #[test]
    fn a_module_is_announced_once_with_its_build_id() {
        let own = std::env::current_exe().unwrap();
        let mut table = ModuleTable::default();
        let mut facts = Vec::new();
        let own = own.to_str().unwrap();
        let nowhere = RemoteAddr(0)..RemoteAddr(0);
        let first = table.of_mapping(Pid(1), own, &nowhere, &mut facts).unwrap();
        let second = table.of_mapping(Pid(1), own, &nowhere, &mut facts).unwrap();
        assert_eq!((first.id, facts.len()), (second.id, 1));
        let unwind = first.unwind.expect("an ELF file");
        assert!(unwind.sections.eh_frame.as_ref().is_some_and(|bytes| !bytes.is_empty()));
    }

    #[test]
    fn the_vdso_can_be_read_and_unwound() {
        let mut facts = Vec::new();
        let nowhere = RemoteAddr(0)..RemoteAddr(0);
        let vdso = ModuleTable::default().of_mapping(Pid(1), "[vdso]", &nowhere, &mut facts);
        let vdso = vdso.unwrap();
        assert!(vdso.unwind.expect("vdso is ELF").sections.eh_frame.is_some());
    }
}
