//! The witness of a library: a word of its memory that another library at the same address would have otherwise.
//!
//! What for: translated code compares it ([`Witness`]). It is 32 bits of the build id, a hash of the library's content (ld's
//! `--build-id`, the default of distributions), which two libraries share by a chance of one in 2^32. A library without one is
//! known by the offset of its section headers: its size, nearly. What not: which code needs a witness (`code_map`).
//!
//! Assumption: the memory may be hostile. A false witness lets stale code run, in a program that asks for it.

use base::{Pid, RemoteAddr};
use object::LittleEndian;
use object::elf::{FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, ProgramHeader};
use sys::trace::read_memory;
use x86::translate::Witness;

/// Linkers place the note in front.
const HEAD: usize = 4096;
/// `e_shoff` of Elf64_Ehdr (elf(5)).
const SECTION_HEADERS: usize = 0x28;

/// The witness of the ELF file whose beginning is mapped here.
pub fn witness_in(pid: Pid, start: RemoteAddr, end: RemoteAddr) -> Option<Witness> {
    let length = usize::try_from(end.0 - start.0).unwrap_or(HEAD).min(HEAD);
    let mut head = vec![0; length];
    let got = read_memory(pid, start, &mut head);
    let (at, word) = word_of(&head[..got])?;
    Some(Witness { at: start.offset(at as u64), word })
}

/// Where the word is, and what it is.
fn word_of(head: &[u8]) -> Option<(usize, u32)> {
    let header = FileHeader64::<LittleEndian>::parse(head).ok()?;
    let word = |at: usize| Some((at, u32::from_le_bytes(*head.get(at..)?.first_chunk()?)));
    build_id(header, head).or(Some(SECTION_HEADERS)).and_then(word).filter(|(_, word)| *word != 0)
}

/// Where the build id begins.
fn build_id(header: &FileHeader64<LittleEndian>, head: &[u8]) -> Option<usize> {
    let endian = LittleEndian;
    let segments = header.program_headers(endian, head).ok()?;
    segments.iter().find_map(|segment| {
        let mut notes = segment.notes(endian, head).ok()??;
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
                return (note.desc().as_ptr() as usize).checked_sub(head.as_ptr() as usize);
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with one segment, which has one note.
    fn library(note_type: u32) -> Vec<u8> {
        let mut head = vec![0; 256];
        head[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        head[0x20] = 64; // e_phoff
        head[SECTION_HEADERS..SECTION_HEADERS + 4].copy_from_slice(&0x1234_5678u32.to_le_bytes());
        head[0x36] = 56; // e_phentsize
        head[0x38] = 1; // e_phnum
        head[64] = 4; // PT_NOTE
        head[64 + 8] = 200; // p_offset
        head[64 + 32] = 24; // p_filesz
        let note = [4u32, 8, note_type, u32::from_le_bytes(*b"GNU\0"), 0xdead_beef, 7];
        let bytes: Vec<u8> = note.iter().flat_map(|word| word.to_le_bytes()).collect();
        head[200..224].copy_from_slice(&bytes);
        head
    }

    #[test]
    fn the_witness_is_of_the_build_id_or_else_of_the_size() {
        assert_eq!(word_of(&library(NT_GNU_BUILD_ID.0)), Some((216, 0xdead_beef)));
        assert_eq!(word_of(&library(1)), Some((SECTION_HEADERS, 0x1234_5678)));
        // A note behind what was read, or cut off.
        assert_eq!(word_of(&library(3)[..218]), Some((SECTION_HEADERS, 0x1234_5678)));
        assert_eq!(word_of(&library(3)[..40]), None);
        assert_eq!(
            word_of(b"no library at all, but some text that is long enough to be one...."),
            None
        );
    }

    #[test]
    fn the_c_library_of_this_process_has_one() {
        let own = Pid(std::process::id().cast_signed());
        let text = tracee::maps::read(own);
        let mut lines = text.lines().filter_map(tracee::maps::parse_line);
        let Some(libc) = lines.find(|line| line.name.contains("/libc") && line.offset.0 == 0)
        else {
            println!("skipped: this process has no C library");
            return;
        };
        let witness = witness_in(own, libc.start, libc.end).expect("a witness");
        assert!((libc.start.0..libc.end.0).contains(&witness.at.0));
        let anonymous = RemoteAddr(&raw const text as u64);
        assert_eq!(witness_in(own, anonymous, anonymous.offset(64)), None);
    }
}
