//! The files with code that a process has loaded: what each defines, and the words through which it calls others.
//!
//! What for: finding the allocator, and the words (*slots* of the global offset table) through which it is called.
//! What not: reading or changing these words (`mod`). Assumption: a file may have been replaced since it was loaded.
//! Therefore its content alone decides nothing: a slot counts only while it holds exactly the expected address. Source of
//! the format: System V gABI, chapters 4 and 5; AMD64 supplement, 4.4.1 (relocation types).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use base::{Pid, RemoteAddr};
use object::elf::{PF_X, PT_LOAD, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, STT_GNU_IFUNC};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object, ObjectSymbol, ObjectSymbolTable, RelocationFlags, SymbolFlags};
use sys::map::FileMap;
use tracee::maps;

/// A loaded file.
pub struct Loaded {
    /// Its path, as the process sees it.
    pub name: String,
    /// The start of its first mapping.
    pub start: RemoteAddr,
    /// The difference between its addresses in memory and those stated in the file.
    pub bias: u64,
    path: PathBuf,
}

/// A word through which a file calls a function of another file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The function.
    pub function: String,
    /// The word.
    pub at: RemoteAddr,
    /// Whether the file's own code may read the word's value, not only call through it.
    pub may_be_seen: bool,
}

/// The files that a process has loaded, in the order of their addresses.
#[must_use]
pub fn files(pid: Pid) -> Vec<Loaded> {
    let text = maps::read(pid);
    let mut found: Vec<Loaded> = Vec::new();
    let mut with_code: Vec<String> = Vec::new();
    let mut first: HashMap<String, (RemoteAddr, u64)> = HashMap::new();
    for line in text.lines().filter_map(maps::parse_line) {
        if line.inode == 0 || !line.name.starts_with('/') || line.name.starts_with("/memfd:") {
            continue;
        }
        first.entry(line.name.to_owned()).or_insert((line.start, line.offset.0));
        if line.executable && !with_code.iter().any(|name| name == line.name) {
            with_code.push(line.name.to_owned());
        }
    }
    for name in with_code {
        let Some((start, offset)) = first.get(&name).copied() else { continue };
        let path = PathBuf::from(format!("/proc/{pid}/root{name}"));
        let bias = with_elf(&path, |elf| bias(elf, start, offset)).flatten();
        if let Some(bias) = bias {
            found.push(Loaded { name, start, bias, path });
        }
    }
    found
}

fn with_elf<T>(path: &Path, look: impl FnOnce(&ElfFile64<'_>) -> T) -> Option<T> {
    let bytes = FileMap::open(path).ok()?;
    let elf = ElfFile64::<Endianness>::parse(&*bytes).ok()?;
    Some(look(&elf))
}

/// The difference, from one mapping. Mappings begin at page borders, a little before their segment does.
fn bias(elf: &ElfFile64<'_>, start: RemoteAddr, offset: u64) -> Option<u64> {
    let segment = elf.elf_program_headers().iter().find(|header| {
        header.p_type(elf.endian()) == PT_LOAD && header.p_offset(elf.endian()) & !0xfff == offset
    })?;
    Some(start.0.wrapping_sub(segment.p_vaddr(elf.endian()) & !0xfff))
}

impl Loaded {
    /// The addresses of the functions and objects of these names that this file exports. A function whose
    /// implementation is chosen when the library is loaded (IFUNC) is left out: its symbol names the code that
    /// chooses.
    #[must_use]
    pub fn defined(&self, names: &[&str]) -> HashMap<String, RemoteAddr> {
        let found = with_elf(&self.path, |elf| {
            let symbols = elf.dynamic_symbols().filter(|symbol| symbol.is_definition());
            let fit = symbols.filter_map(|symbol| {
                let chooses = matches!(symbol.flags(),
                    SymbolFlags::Elf { st_info, .. } if st_info.st_type() == STT_GNU_IFUNC);
                let name = symbol.name().ok().filter(|name| !chooses && names.contains(name))?;
                let at = RemoteAddr(self.bias.wrapping_add(symbol.address()));
                Some((name.to_owned(), at))
            });
            fit.collect()
        });
        found.unwrap_or_default()
    }

    /// The words through which this file calls functions of these names.
    #[must_use]
    pub fn imports(&self, names: &[&str]) -> Vec<Import> {
        with_elf(&self.path, |elf| self.imports_in(elf, names)).unwrap_or_default()
    }

    fn imports_in(&self, elf: &ElfFile64<'_>, names: &[&str]) -> Vec<Import> {
        let (Some(relocations), Some(symbols)) =
            (elf.dynamic_relocations(), elf.dynamic_symbol_table())
        else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (address, relocation) in relocations {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let object::RelocationTarget::Symbol(index) = relocation.target() else { continue };
            let name = symbols.symbol_by_index(index).ok().and_then(|symbol| symbol.name().ok());
            let Some(function) = name.filter(|name| names.contains(name)) else { continue };
            if r_type == R_X86_64_JUMP_SLOT || r_type == R_X86_64_GLOB_DAT {
                let at = RemoteAddr(self.bias.wrapping_add(address));
                let may_be_seen = r_type == R_X86_64_GLOB_DAT;
                found.push((address, Import { function: function.to_owned(), at, may_be_seen }));
            }
        }
        let looked_at: Vec<u64> = found
            .iter()
            .filter(|(_, import)| import.may_be_seen)
            .map(|(address, _)| *address)
            .collect();
        let compared = if looked_at.is_empty() { Vec::new() } else { compared(elf, &looked_at) };
        for (address, import) in &mut found {
            import.may_be_seen = compared.contains(address);
        }
        found.into_iter().map(|(_, import)| import).collect()
    }
}

/// Which of these words the file's code compares, or loads and compares soon after.
fn compared(elf: &ElfFile64<'_>, words: &[u64]) -> Vec<u64> {
    let mut found = Vec::new();
    for segment in elf.elf_program_headers() {
        let endian = elf.endian();
        if segment.p_type(endian) != PT_LOAD || !segment.p_flags(endian).contains(PF_X) {
            continue;
        }
        let Ok(code) = segment.data(endian, elf.data()) else { continue };
        let start = segment.p_vaddr(endian);
        for (at, bytes) in code.windows(4).enumerate() {
            let distance = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            // Operands are relative to the end of the instruction, which is the end of the displacement (SDM vol. 2,
            // 2.2.1.6).
            let word = start.wrapping_add(at as u64 + 4).wrapping_add_signed(distance.into());
            if words.contains(&word) && !found.contains(&word) && compares(code, at) {
                found.push(word);
            }
        }
    }
    found
}

/// Whether the instruction with its displacement at `at` compares, or loads a register that is compared within the
/// next bytes: CMP r64, r/m64 (REX.W 3B /r) and CMP r/m64, r64 (REX.W 39 /r), MOV r64, r/m64 (REX.W 8B /r).
fn compares(code: &[u8], at: usize) -> bool {
    // Compilers load an address just before they compare it; the search is by bytes, so a longer one finds comparisons that are
    // none, and leaves more files alone than it must.
    const NEAR: usize = 64;
    let Some([rex, opcode, mod_rm]) = at.checked_sub(3).and_then(|from| code.get(from..at)) else {
        return false;
    };
    // REX.W with any register extensions: an address is compared with all of its 64 bits.
    if rex & 0xf8 != 0x48 {
        return false;
    }
    if matches!(opcode, 0x3b | 0x39) {
        return true;
    }
    let loaded = (mod_rm >> 3 & 7) | (rex & 4) << 1;
    let behind = code.get(at + 4..).unwrap_or_default();
    *opcode == 0x8b
        && behind.windows(3).take(NEAR).any(|bytes| {
            let (rex, opcode, mod_rm) = (bytes[0], bytes[1], bytes[2]);
            let first = (mod_rm >> 3 & 7) | (rex & 4) << 1;
            let second = (mod_rm & 7) | (rex & 1) << 3;
            let whole = rex & 0xf8 == 0x48 && matches!(opcode, 0x3b | 0x39);
            whole && (first == loaded || mod_rm >> 6 == 3 && second == loaded)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_seen_and_a_call_is_not() {
        // cmp rax, [rip+d]
        assert!(compares(&[0x48, 0x3b, 0x05, 0, 0, 0, 0], 3));
        // mov rdx, [rip+d]; cmp [rdi+8], rdx
        assert!(compares(&[0x48, 0x8b, 0x15, 0, 0, 0, 0, 0x48, 0x39, 0x57, 8], 3));
        // mov r9, [rip+d]; cmp rax, r9
        assert!(compares(&[0x4c, 0x8b, 0x0d, 0, 0, 0, 0, 0x4c, 0x39, 0xc8], 3));
        // mov rdx, [rip+d]; cmp rax, rcx
        assert!(!compares(&[0x48, 0x8b, 0x15, 0, 0, 0, 0, 0x48, 0x39, 0xc8, 0], 3));
        // call [rip+d], jmp [rip+d]
        assert!(!compares(&[0x90, 0xff, 0x15, 0, 0, 0, 0, 0x48, 0x39, 0xc8], 3));
        assert!(!compares(&[0xff, 0x25, 0, 0, 0, 0], 2));
    }

    #[test]
    fn this_process_imports_malloc_from_its_c_library() {
        let files = files(Pid(std::process::id().cast_signed()));
        let own = std::env::current_exe().unwrap();
        let own = files.iter().find(|file| Path::new(&file.name) == own).unwrap();
        assert!(own.imports(&["malloc"]).iter().any(|import| import.function == "malloc"));
        let libc = files.iter().find(|file| file.name.contains("/libc.so")).unwrap();
        let defined = libc.defined(&["malloc", "memset"]);
        assert!(defined.contains_key("malloc"));
        assert!(!defined.contains_key("memset"), "which is chosen at load time");
    }
}
