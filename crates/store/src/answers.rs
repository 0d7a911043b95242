//! Answers that took long, kept in the directory of their result.
//!
//! What for: a report reads all traced accesses, and a page sums up all samples; what is requested again is a file. What not: the
//! content of answers.
//!
//! An answer is valid only for its whole key: the question, the build of the program, and the bytes of every table
//! and of the manifest. A damaged, older or foreign answer is ignored, and the report is made again. Nothing depends
//! on an answer: a directory that is not writable has none.
//!
//! ```text
//! answer-KEY.fathom = "fathom answer 1\n" KEY "\n" CRC-32 of the rest, in hex "\n" zstd
//! ```
//! Bounds: all answers of a result have at most [`MOST`] bytes in total, and together with the result at most its
//! limit.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::crc32::Crc32;
use crate::directory::size_on_disk;

/// Bytes of all answers: some thirty of the largest views, a few per cent of the default limit of a result.
const MOST: u64 = 4 << 20;
/// Most bytes of an unpacked answer: a file that claims more is not an answer.
const LONGEST: usize = 256 << 20;
const HEAD: &str = "fathom answer 1\n";

/// The answers about the current state of a result.
#[derive(Clone, Debug)]
pub struct Answers {
    directory: PathBuf,
    /// Of the tables: 128 bits in total, so that no two keys collide by accident.
    halves: [DefaultHasher; 2],
}

/// An answer that may be there.
#[derive(Debug)]
pub struct Answer {
    directory: PathBuf,
    key: String,
}

impl Answers {
    /// Reads the whole result. `None` if it cannot be read or is not complete.
    #[must_use]
    pub fn of(directory: &Path) -> Option<Answers> {
        if !directory.join("run.json").is_file() || directory.join("journal.fathom").exists() {
            return None;
        }
        let files = fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let is_table = |path: &PathBuf| {
            // A foreign directory may hold a link to anything, or a pipe that never ends.
            let is_plain = || fs::symlink_metadata(path).is_ok_and(|file| file.is_file());
            path.extension().is_some_and(|kind| kind == "parquet") && is_plain()
        };
        let mut files: Vec<PathBuf> = files.filter(is_table).collect();
        files.push(directory.join("run.json"));
        files.sort();
        let mut halves = [DefaultHasher::new(), DefaultHasher::new()];
        for file in files {
            add(&mut halves, file.file_name()?.as_encoded_bytes());
            add(&mut halves, &fs::read(&file).ok()?);
        }
        Some(Answers { directory: directory.to_owned(), halves })
    }

    /// The answer to a question.
    #[must_use]
    pub fn to(&self, question: &[u8]) -> Answer {
        let mut halves = self.halves.clone();
        add(&mut halves, question);
        let [one, other] = halves.map(|half| half.finish());
        Answer { directory: self.directory.clone(), key: format!("{one:016x}{other:016x}") }
    }
}

fn add(halves: &mut [DefaultHasher; 2], bytes: &[u8]) {
    halves.iter_mut().zip(0u8..).for_each(|(half, number)| (number, bytes).hash(half));
}

impl Answer {
    fn file(&self) -> PathBuf {
        self.directory.join(format!("answer-{}.fathom", self.key))
    }

    /// The stored answer; `None` if there is none, or it is damaged.
    #[must_use]
    pub fn read(&self) -> Option<String> {
        let bytes = fs::read(self.file()).ok()?;
        let rest = bytes.strip_prefix(HEAD.as_bytes())?;
        let rest = rest.strip_prefix(self.key.as_bytes())?.strip_prefix(b"\n")?;
        let (sum, packed) = rest.split_at_checked(8)?;
        let packed = packed.strip_prefix(b"\n")?;
        if sum != checksum(packed).as_bytes() {
            return None;
        }
        let text = String::from_utf8(zstd::bulk::decompress(packed, LONGEST).ok()?).ok()?;
        is_harmless(&text).then_some(text)
    }

    /// Keeps an answer, if there is room; `limit` is that of the result, in bytes, 0 where it has none.
    pub fn keep(&self, text: &str, limit: u64) {
        let Ok(packed) = zstd::bulk::compress(text.as_bytes(), 1) else { return };
        let head = format!("{HEAD}{}\n{}\n", self.key, checksum(&packed));
        let bytes = [head.into_bytes(), packed].concat();
        let size = bytes.len() as u64;
        let old = kept(&self.directory);
        let of_old: u64 = old.iter().map(|(_, size)| size).sum();
        let others = size_on_disk(&self.directory).0.saturating_sub(of_old);
        let most = if limit == 0 { MOST } else { limit.saturating_sub(others).min(MOST) };
        if size > most {
            return;
        }
        if of_old + size > most {
            // They are made again on request.
            old.iter().for_each(|(file, _)| drop(fs::remove_file(file)));
        }
        // Readers see a whole one or none; where it cannot be written, nothing was promised.
        let new = self.directory.join(format!("answer-{}.{}.new", self.key, std::process::id()));
        let written = fs::File::create_new(&new).and_then(|mut file| file.write_all(&bytes));
        if written.and_then(|()| fs::rename(&new, self.file())).is_err() {
            _ = fs::remove_file(&new);
        }
    }
}

/// Whether a text contains no terminal control sequences except colours: the result may come from somebody else.
fn is_harmless(text: &str) -> bool {
    let mut pieces = text.split('\x1b');
    let plain =
        |piece: &str| piece.chars().all(|one| one == '\n' || one == '\t' || !one.is_control());
    let colour = |piece: &str| {
        let code = piece.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        code.is_some_and(|(code, rest)| {
            code.chars().all(|one| one.is_ascii_digit() || one == ';') && plain(rest)
        })
    };
    pieces.next().is_none_or(plain) && pieces.all(colour)
}

fn checksum(bytes: &[u8]) -> String {
    let mut sum = Crc32::new();
    sum.update(bytes);
    format!("{:08x}", sum.value())
}

/// The files of answers, and what a crash left of one, with their sizes.
fn kept(directory: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let ours = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"answer-"));
    ours.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("fathom-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("run.json"), "{}").unwrap();
        fs::write(directory.join("samples.parquet"), "samples").unwrap();
        directory
    }

    fn kept_text(directory: &Path, question: &[u8]) -> Option<String> {
        Answers::of(directory)?.to(question).read()
    }

    #[test]
    fn an_answer_is_given_for_its_whole_key_only() {
        let directory = result("answers");
        let answer = Answers::of(&directory).unwrap().to(b"summary");
        assert_eq!(answer.read(), None);
        answer.keep("all is well", 0);
        assert_eq!(kept_text(&directory, b"summary").as_deref(), Some("all is well"));
        assert_eq!(kept_text(&directory, b"objects"), None);
        // Another file under its name.
        fs::rename(answer.file(), Answers::of(&directory).unwrap().to(b"objects").file()).unwrap();
        assert_eq!(kept_text(&directory, b"objects"), None);
        answer.keep("all is well", 0);
        // Every byte counts.
        let bytes = fs::read(answer.file()).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            fs::write(answer.file(), damaged).unwrap();
            assert_eq!(kept_text(&directory, b"summary"), None, "byte {at}");
            fs::write(answer.file(), &bytes[..at]).unwrap();
            assert_eq!(kept_text(&directory, b"summary"), None, "{at} bytes");
        }
        fs::write(answer.file(), bytes).unwrap();
        fs::write(directory.join("samples.parquet"), "others").unwrap();
        assert_eq!(kept_text(&directory, b"summary"), None);
        fs::write(directory.join("samples.parquet"), "samples").unwrap();
        assert!(kept_text(&directory, b"summary").is_some());
        fs::write(directory.join("journal.fathom"), "more").unwrap();
        assert_eq!(kept_text(&directory, b"summary"), None, "it is still written");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn answers_take_no_more_room_than_there_is() {
        let directory = result("answers-room");
        let limit = size_on_disk(&directory).0 + 150;
        for question in 0u8..20 {
            Answers::of(&directory).unwrap().to(&[question]).keep("an answer", limit);
            assert!(size_on_disk(&directory).0 <= limit);
            assert!(kept_text(&directory, &[question]).is_some());
        }
        let answer = Answers::of(&directory).unwrap().to(b"more");
        answer.keep("an answer", limit - 149);
        assert_eq!(answer.read(), None);
        fs::remove_dir_all(directory).unwrap();
    }
}
