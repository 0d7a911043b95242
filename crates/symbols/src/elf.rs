//! An ELF file in memory: the parts that symbols need.
//!
//! What for: file offset to address, build-id, links to debug files, sections decompressed within limits. What not:
//! DWARF (`table`), symbols (`function_symbols`), file access. Assumptions: none about the bytes; the `object` crate
//! checks every offset, this file bounds the amounts. Source: System V gABI, chapters 4 and 5; the two link sections
//! as GDB documents them (<https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html>).

use std::borrow::Cow;

use base::FileOffset;
use object::read::{Object as _, ObjectSection as _, ObjectSegment as _};

use crate::{Error, Problem};

/// Largest sum of decompressed debug sections of one module, bytes.
const DECOMPRESSED_LIMIT: u64 = 4 << 30;

/// zlib cannot pack denser than 1032 to 1 (<https://zlib.net/zlib_tech.html>); real debug sections of any format
/// stay below 100 to 1. A claim beyond this is a bomb.
const DENSEST_COMPRESSION: u64 = 1100;

/// Most notes that are searched for the build-id; real files have fewer than ten.
const NOTES_LIMIT: usize = 256;

/// An address as the linker assigned it, before the loader moved the module ("SVMA" in the literature).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkAddress(pub u64);

/// The name and checksum in `.gnu_debuglink`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DebugLink {
    /// A bare file name: never empty, without `/`, not `.` or `..`.
    pub name: String,
    /// CRC-32 of the whole debug file.
    pub crc: u32,
}

/// The name and build-id in `.gnu_debugaltlink`: a file with the common parts of several debug files, made by `dwz`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlternateLink {
    /// Absolute, or relative to the directory of the debug file.
    pub name: String,
    /// Its build-id in lower-case hex.
    pub build_id: String,
}

/// A loaded piece of the file. Separate from the parser, so that a look-up does not decode headers again.
#[derive(Clone, Copy, Debug)]
struct Segment {
    file_start: u64,
    file_end: u64,
    address: u64,
    executable: bool,
}

/// A parsed ELF file.
#[derive(Debug)]
pub struct Elf<'data> {
    file: object::File<'data, &'data [u8]>,
    bytes: &'data [u8],
    segments: Vec<Segment>,
}

impl<'data> Elf<'data> {
    /// Parses the headers of `bytes`.
    ///
    /// # Errors
    /// [`Error::NotElf`] when the headers are not those of an ELF file, [`Error::BigEndian`].
    pub fn parse(bytes: &'data [u8]) -> Result<Elf<'data>, Error> {
        let file = object::File::parse(bytes)
            .map_err(|error| Error::NotElf { reason: error.to_string() })?;
        if !file.is_little_endian() {
            return Err(Error::BigEndian);
        }
        let segments = file
            .segments()
            .map(|segment| {
                let (start, size) = segment.file_range();
                Segment {
                    file_start: start,
                    file_end: start.saturating_add(size),
                    address: segment.address(),
                    executable: segment.permissions().executable(),
                }
            })
            .collect();
        Ok(Elf { file, bytes, segments })
    }

    /// The whole file.
    #[must_use]
    pub fn bytes(&self) -> &'data [u8] {
        self.bytes
    }

    /// The GNU build-id in lower-case hex.
    #[must_use]
    pub fn build_id(&self) -> Option<String> {
        let named = self.file.section_by_name(".note.gnu.build-id");
        let notes =
            self.file.sections().filter(|section| section.kind() == object::SectionKind::Note);
        let found = named
            .into_iter()
            .chain(notes.take(NOTES_LIMIT))
            .filter_map(|section| section.data().ok())
            .find_map(build_id_in_notes);
        let found = found.or_else(|| {
            // Without section headers `object` reads the note segments; a hostile file could have many long ones.
            let few = self.file.sections().next().is_none() && self.segments.len() < NOTES_LIMIT;
            if few { self.file.build_id().ok().flatten() } else { None }
        });
        found.map(hex)
    }

    /// Whether the file has DWARF debugging entries.
    #[must_use]
    pub fn has_debug_information(&self) -> bool {
        let section = self.file.section_by_name(".debug_info");
        section.is_some_and(|section| section.file_range().is_some_and(|(_, size)| size > 0))
    }

    /// The name of the separate debug file, when the file has one and it is a bare name.
    #[must_use]
    pub fn debug_link(&self) -> Option<DebugLink> {
        let (name, crc) = self.file.gnu_debuglink().ok()??;
        let name = std::str::from_utf8(name).ok()?;
        // A path in here could lead the search anywhere.
        if name.is_empty() || name == "." || name == ".." || name.contains('/') || name.len() > 255
        {
            return None;
        }
        Some(DebugLink { name: name.to_owned(), crc })
    }

    /// The file that this debug file shares entries with, when it has one.
    #[must_use]
    pub fn alternate_link(&self) -> Option<AlternateLink> {
        let (name, build_id) = self.file.gnu_debugaltlink().ok()??;
        let name = std::str::from_utf8(name).ok()?;
        if name.is_empty() || name.len() > 4096 || build_id.is_empty() || build_id.len() > 64 {
            return None;
        }
        Some(AlternateLink { name: name.to_owned(), build_id: hex(build_id) })
    }

    /// The link address of the byte at `offset`, when a segment loads it.
    pub(crate) fn address_of(&self, offset: FileOffset) -> Option<LinkAddress> {
        let covers =
            |segment: &&Segment| (segment.file_start..segment.file_end).contains(&offset.0);
        let mut covering = self.segments.iter().filter(covers);
        let first = covering.next()?;
        // Where two segments load the same bytes, code was executed from the executable one.
        let segment =
            if first.executable { first } else { covering.find(|s| s.executable).unwrap_or(first) };
        let address = segment.address.checked_add(offset.0 - segment.file_start)?;
        // addr2line computes `address + 1`.
        (address < u64::MAX).then_some(LinkAddress(address))
    }

    /// The link address of the start of a mapping of code: mappings begin with a page, segments anywhere in it.
    pub(crate) fn address_of_mapped_code(&self, offset: FileOffset) -> Option<LinkAddress> {
        let mut code = self.segments.iter().filter(|segment| segment.executable);
        let segment = code.find(|segment| {
            offset.0 >= segment.file_start & !0xfff && offset.0 < segment.file_end
        })?;
        let back = segment.file_start.wrapping_sub(offset.0);
        Some(LinkAddress(segment.address.wrapping_sub(back)))
    }

    /// Where in the file the code at `address` is.
    pub(crate) fn offset_of_code(&self, address: LinkAddress) -> Option<FileOffset> {
        self.segments.iter().filter(|segment| segment.executable).find_map(|segment| {
            let within = address.0.checked_sub(segment.address)?;
            let offset = segment.file_start.checked_add(within)?;
            (offset < segment.file_end).then_some(FileOffset(offset))
        })
    }

    /// The file's bytes from the one that is loaded at `address` on, to the end of its segment; empty where the file has
    /// none.
    pub(crate) fn bytes_at(&self, address: LinkAddress) -> &'data [u8] {
        let found = self.segments.iter().find_map(|segment| {
            let start = segment.file_start.checked_add(address.0.checked_sub(segment.address)?)?;
            (start < segment.file_end).then_some(())?;
            let range = usize::try_from(start).ok()?..usize::try_from(segment.file_end).ok()?;
            self.bytes.get(range)
        });
        found.unwrap_or_default()
    }

    /// The parser, for symbols and relocations.
    pub(crate) fn file(&self) -> &object::File<'data, &'data [u8]> {
        &self.file
    }

    /// The content of debug section `name`, decompressed where needed; empty when there is none. `total` counts
    /// what was decompressed for the module so far.
    pub(crate) fn debug_section(
        &self,
        name: &'static str,
        total: &mut u64,
    ) -> Result<Cow<'data, [u8]>, Problem> {
        let Some(section) = self.file.section_by_name(name) else {
            return Ok(Cow::Borrowed(&[]));
        };
        let failed = |reason: String| Problem::Compressed { section: name, reason };
        let range = section.compressed_file_range().map_err(|error| failed(error.to_string()))?;
        // The size is a claim of the file. It is checked before memory is taken for it.
        if range.format != object::CompressionFormat::None {
            let claimed = range.uncompressed_size;
            let densest =
                range.compressed_size.saturating_mul(DENSEST_COMPRESSION).saturating_add(1 << 16);
            let sum = total.saturating_add(claimed);
            if claimed > densest || sum > DECOMPRESSED_LIMIT {
                return Err(failed(format!(
                    "{} bytes claim to unfold to {claimed}; at most {DENSEST_COMPRESSION} times as \
                     many and {DECOMPRESSED_LIMIT} in all are allowed",
                    range.compressed_size
                )));
            }
            *total = sum;
        }
        section.uncompressed_data().map_err(|error| failed(error.to_string()))
    }
}

/// The GNU build-id in notes that stand in a file of their own, as `/sys/kernel/notes` has the running kernel's.
#[must_use]
pub fn build_id_of_notes(notes: &[u8]) -> Option<String> {
    build_id_in_notes(notes).map(hex)
}

/// The first GNU build-id in a note section (gABI "Note Section": name size, description size, type, then both
/// padded to 4 bytes).
fn build_id_in_notes(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    for _ in 0..NOTES_LIMIT {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?))
        };
        let name_size = usize::try_from(word(0)?).ok()?;
        let description_size = usize::try_from(word(4)?).ok()?;
        let kind = word(8)?;
        let rest = notes.get(12..)?;
        let name = rest.get(..name_size)?;
        let rest = rest.get(name_size.checked_next_multiple_of(4)?..)?;
        let description = rest.get(..description_size)?;
        // SHA-1 is 20 bytes, MD5 and UUID 16, xxhash 8; no known kind has more than 64.
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" && (1..=64).contains(&description.len()) {
            return Some(description);
        }
        notes = rest.get(description_size.checked_next_multiple_of(4)?..)?;
    }
    None
}

/// As build-ids are written: lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
