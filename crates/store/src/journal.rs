//! The journal: one append-only file of compressed frames that holds everything while a recording runs.
//!
//! ```text
//! file   = "FATHOMJ\n" schema:u32 zero:u32 frame*
//! frame  = "FRAM" compressed:u32 raw:u32 zstd(rows)        all numbers little-endian
//! ```
//! The zstd frame carries its content checksum, so that a torn or flipped frame is noticed; reading stops at the
//! first bad one. A frame is written by one `write` call: after a crash at most the last one is torn.
//! What not: no fsync. A killed profiler loses nothing that was flushed; a power cut may lose the last seconds.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::varint::Encoder;

/// The journal's name in the result directory.
pub const JOURNAL_FILE: &str = "journal.fathom";

const FILE_MAGIC: &[u8; 8] = b"FATHOMJ\n";
const FRAME_MAGIC: &[u8; 4] = b"FRAM";
const FILE_HEADER_BYTES: u64 = 16;
const FRAME_HEADER_BYTES: usize = 12;

/// Rows are cut into a frame when they reach this size.
pub const FRAME_TARGET_BYTES: usize = 256 << 10;
/// No frame is larger, raw or compressed: the target plus the longest row, with room to spare.
const FRAME_LIMIT_BYTES: usize = 1 << 20;

/// Level 3 made the journal of 120,000 samples 1 % smaller and `push` twice as slow; level -1 made it 21 % larger.
const LEVEL: i32 = 1;

/// Makes a file that everybody may read, whatever the umask says.
pub fn create_file(path: &Path) -> Result<File, StoreError> {
    let fail = |source| StoreError::writing(path, source);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .open(path)
        .map_err(fail)?;
    file.set_permissions(fs::Permissions::from_mode(0o644)).map_err(fail)?;
    Ok(file)
}

/// The writing end.
pub struct JournalWriter {
    file: File,
    path: PathBuf,
    bytes: u64,
    compressor: zstd::bulk::Compressor<'static>,
    frame: Vec<u8>,
}

impl JournalWriter {
    /// Starts a journal of schema version `schema` at `path`.
    pub fn create(path: &Path, schema: u32) -> Result<JournalWriter, StoreError> {
        let file = create_file(path)?;
        let fail = |source| StoreError::writing(path, source);
        let mut compressor = zstd::bulk::Compressor::new(LEVEL).map_err(fail)?;
        compressor.include_checksum(true).map_err(fail)?;
        let mut writer =
            JournalWriter { file, path: path.to_owned(), bytes: 0, compressor, frame: Vec::new() };
        writer.frame.extend_from_slice(FILE_MAGIC);
        writer.frame.extend_from_slice(&schema.to_le_bytes());
        writer.frame.extend_from_slice(&[0; 4]);
        writer.append()?;
        Ok(writer)
    }

    /// Bytes in the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the collected rows as one frame and empties the encoder. Nothing happens without rows.
    pub fn write_frame(&mut self, rows: &mut Encoder) -> Result<(), StoreError> {
        let raw = rows.bytes();
        if raw.is_empty() {
            return Ok(());
        }
        self.frame.clear();
        self.frame.resize(FRAME_HEADER_BYTES + zstd::zstd_safe::compress_bound(raw.len()), 0);
        let compressed = self
            .compressor
            .compress_to_buffer(raw, &mut self.frame[FRAME_HEADER_BYTES..])
            .map_err(|source| StoreError::writing(&self.path, source))?;
        self.frame.truncate(FRAME_HEADER_BYTES + compressed);
        self.frame[..4].copy_from_slice(FRAME_MAGIC);
        self.frame[4..8].copy_from_slice(&(compressed as u32).to_le_bytes());
        self.frame[8..12].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        self.append()?;
        rows.clear();
        Ok(())
    }

    /// Appends `self.frame`; on failure cuts off what was written of it, so that the journal stays whole.
    fn append(&mut self) -> Result<(), StoreError> {
        if let Err(source) = self.file.write_all(&self.frame) {
            // The error at hand matters more than a failure here: readers cut the torn tail themselves.
            let _ = self.file.set_len(self.bytes);
            let _ = self.file.seek(SeekFrom::Start(self.bytes));
            return Err(StoreError::writing(&self.path, source));
        }
        self.bytes += self.frame.len() as u64;
        Ok(())
    }

    /// Appends the frames of `other` from `start` on, as they are.
    pub fn append_frames_of(
        &mut self,
        other: &JournalWriter,
        start: u64,
    ) -> Result<(), StoreError> {
        let mut at = start;
        // In pieces, and regardless of where frames end: the bytes stay one sequence.
        while at < other.bytes {
            let length = (other.bytes - at).min(FRAME_LIMIT_BYTES as u64) as usize;
            self.frame.resize(length, 0);
            other
                .file
                .read_exact_at(&mut self.frame, at)
                .map_err(|source| StoreError::reading(&other.path, source))?;
            self.append()?;
            at += length as u64;
        }
        Ok(())
    }

    /// Takes the place of the journal at `path`, atomically.
    pub fn rename_to(&mut self, path: &Path) -> Result<(), StoreError> {
        fs::rename(&self.path, path).map_err(|source| StoreError::writing(path, source))?;
        path.clone_into(&mut self.path);
        Ok(())
    }

    /// Whether somebody removed the file: writing to it would succeed, for nobody.
    pub fn check_exists(&self) -> Result<(), StoreError> {
        match self.file.metadata() {
            Ok(metadata) if metadata.nlink() == 0 => {
                Err(StoreError::Vanished { path: self.path.clone() })
            }
            Ok(_) => Ok(()),
            Err(source) => Err(StoreError::writing(&self.path, source)),
        }
    }

    /// A reader of what was written until now.
    pub fn reader(&self) -> Result<JournalReader, StoreError> {
        JournalReader::open(&self.path)
    }
}

/// What [`JournalReader::next_frame`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum NextFrame {
    /// A frame; its rows are in [`JournalReader::rows`].
    Rows,
    /// The end, cleanly.
    End,
    /// A torn or damaged rest of this many bytes, and why.
    Torn(u64, String),
}

/// The reading end. Memory: two buffers of at most one frame.
pub struct JournalReader {
    file: io::BufReader<File>,
    path: PathBuf,
    bytes: u64,
    at: u64,
    decompressor: zstd::bulk::Decompressor<'static>,
    compressed: Vec<u8>,
    rows: Vec<u8>,
}

impl JournalReader {
    /// Opens a journal and checks its head.
    pub fn open(path: &Path) -> Result<JournalReader, StoreError> {
        let fail = |source| StoreError::reading(path, source);
        let mut file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if !metadata.is_file() {
            return Err(StoreError::damaged(path, "it is not a regular file"));
        }
        let mut head = [0; FILE_HEADER_BYTES as usize];
        if metadata.len() < FILE_HEADER_BYTES || file.read_exact(&mut head).is_err() {
            return Err(StoreError::damaged(
                path,
                format!("it has {} bytes, fewer than its head", metadata.len()),
            ));
        }
        if &head[..8] != FILE_MAGIC {
            return Err(StoreError::damaged(path, "it does not begin as a journal"));
        }
        check_schema(path, little_endian(&head[8..12]))?;
        Ok(JournalReader {
            file: io::BufReader::new(file),
            path: path.to_owned(),
            bytes: metadata.len(),
            at: FILE_HEADER_BYTES,
            decompressor: zstd::bulk::Decompressor::new().map_err(fail)?,
            compressed: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the next frame begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Bytes after that.
    pub fn bytes_left(&self) -> u64 {
        self.bytes.saturating_sub(self.at)
    }

    /// The rows of the frame read last.
    pub fn rows(&self) -> &[u8] {
        &self.rows
    }

    /// Reads and checks the next frame.
    pub fn next_frame(&mut self) -> Result<NextFrame, StoreError> {
        let left = self.bytes.saturating_sub(self.at);
        if left == 0 {
            return Ok(NextFrame::End);
        }
        let torn = |what: &str| Ok(NextFrame::Torn(left, what.to_owned()));
        let mut head = [0; FRAME_HEADER_BYTES];
        if left < FRAME_HEADER_BYTES as u64 {
            return torn("half a frame head");
        }
        self.read(&mut head)?;
        let compressed = little_endian(&head[4..8]) as usize;
        let raw = little_endian(&head[8..12]) as usize;
        if &head[..4] != FRAME_MAGIC {
            return torn("no frame begins there");
        }
        // Before memory is taken for it: the checksum only comes with the content.
        if compressed > FRAME_LIMIT_BYTES || raw > FRAME_LIMIT_BYTES {
            return torn("a frame claims an absurd size");
        }
        if (compressed + FRAME_HEADER_BYTES) as u64 > left {
            return torn("the file ends inside a frame");
        }
        let mut buffer = std::mem::take(&mut self.compressed);
        buffer.resize(compressed, 0);
        self.read(&mut buffer)?;
        self.compressed = buffer;
        self.rows.resize(raw, 0);
        match self.decompressor.decompress_to_buffer(&self.compressed, &mut self.rows[..]) {
            Ok(length) if length == raw => {}
            Ok(_) => return torn("a frame has another size than it claims"),
            Err(_) => return torn("a frame fails its checksum"),
        }
        self.at += (compressed + FRAME_HEADER_BYTES) as u64;
        Ok(NextFrame::Rows)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<(), StoreError> {
        self.file.read_exact(buffer).map_err(|source| StoreError::reading(&self.path, source))
    }
}

/// Refuses versions that this code cannot know.
pub fn check_schema(path: &Path, found: u32) -> Result<(), StoreError> {
    match found {
        0 => Err(StoreError::damaged(path, "it has format version 0, which never existed")),
        found if found > facts::SCHEMA_VERSION => {
            Err(StoreError::Newer { path: path.to_owned(), found, known: facts::SCHEMA_VERSION })
        }
        _ => Ok(()),
    }
}

fn little_endian(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}
