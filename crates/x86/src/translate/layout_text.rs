//! [`RecordLayout`] as one line of text, and back: results store it with the records.
//!
//! ```text
//! words 6; values rdi@0:1 rsp@3:2 v2@0:3+2; ways 7 4
//! words 3; values rdi@0:1; ways 3; loop rdi 1..2 +64; advanced 0 64 64
//! words 3; values rcx@0:1; ways 2; loop narrow rcx 1..2 -1; advanced 0 -1
//! words 2; ways 3; iterations 1
//! words 3; values rdi@4:1; ways 7; timed 2 2
//! ```
//!
//! `source@instruction:word` is a value, with `+n` if it has n words. `loop` names the counting register, the words
//! of its start and end, and its step. What not: reading records (`burst::drain`, `analysis`). Assumption: the text
//! may be hostile. Whatever parses describes a record of at most [`MOST_WORDS`] whose words lie in it, so a reader
//! may index without a check.

use std::fmt;
use std::str::FromStr;

use super::{Iterations, RecordLayout, RecordedValue};
use crate::register::{Gpr, MaskRegister, VectorRegister};
use crate::roots::{Root, Source};

/// Most words of a record. Blocks have fewer: 256 instructions with a gather each need 2,600.
pub const MOST_WORDS: usize = 4096;
/// No block has that many instructions.
const MOST_INSTRUCTIONS: usize = 1024;

impl fmt::Display for RecordLayout {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "words {}", self.words)?;
        list(out, "; values", self.values.iter())?;
        list(out, "; ways", self.ways.iter())?;
        match &self.iterations {
            Some(Iterations::Counter { register, start, end, stride, narrow, advanced }) => {
                let narrow_word = if *narrow { "narrow " } else { "" };
                let stride = signed(*stride, *narrow);
                write!(out, "; loop {narrow_word}{register} {start}..{end} {stride:+}")?;
                list(out, "; advanced", advanced.iter().map(|value| signed(*value, *narrow)))?;
            }
            Some(Iterations::Word(word)) => write!(out, "; iterations {word}")?,
            None => {}
        }
        if let Some((access, word)) = self.timed {
            write!(out, "; timed {access} {word}")?;
        }
        Ok(())
    }
}

fn list<T: fmt::Display>(
    out: &mut fmt::Formatter<'_>,
    name: &str,
    mut items: impl Iterator<Item = T>,
) -> fmt::Result {
    let Some(first) = items.next() else { return Ok(()) };
    write!(out, "{name} {first}")?;
    items.try_for_each(|item| write!(out, " {item}"))
}

fn signed(value: u64, narrow: bool) -> i64 {
    if narrow { i64::from(value as i32) } else { value.cast_signed() }
}

fn unsigned(value: i64, narrow: bool) -> u64 {
    if narrow { u64::from(value as u32) } else { value.cast_unsigned() }
}

impl fmt::Display for RecordedValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.root, self.word)?;
        if self.words == 1 { Ok(()) } else { write!(out, "+{}", self.words) }
    }
}

/// Why a text is not a layout.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutError {
    /// A part that is not understood.
    #[error("`{0}` is no part of a record's layout")]
    Part(String),
    /// Words outside the record, or too many.
    #[error("word {word} of a record of {words} words (at most {MOST_WORDS})")]
    Word {
        /// The word after the last one of the value.
        word: usize,
        /// Number of words of the record.
        words: usize,
    },
}

fn no_part(text: &str) -> LayoutError {
    LayoutError::Part(text.chars().take(80).collect())
}

impl FromStr for RecordLayout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<RecordLayout, LayoutError> {
        let mut layout = RecordLayout::default();
        for (number, part) in text.split("; ").enumerate() {
            let (name, rest) = part.split_once(' ').ok_or_else(|| no_part(part))?;
            if (number == 0) != (name == "words") {
                return Err(no_part(part));
            }
            layout.read(name, rest).ok_or_else(|| no_part(part))?;
        }
        layout.check()?;
        Ok(layout)
    }
}

impl RecordLayout {
    fn read(&mut self, name: &str, rest: &str) -> Option<()> {
        match name {
            "words" => self.words = rest.parse().ok()?,
            "values" => self.values = some(rest, MOST_WORDS, value)?,
            "ways" => {
                let way = |text: &str| text.parse().ok().filter(|way| *way <= MOST_INSTRUCTIONS);
                self.ways = some(rest, MOST_INSTRUCTIONS, way)?;
            }
            "loop" => self.iterations = Some(counter(rest)?),
            "advanced" => {
                let Some(Iterations::Counter { narrow, advanced, .. }) = &mut self.iterations
                else {
                    return None;
                };
                let wrap = |text: &str| text.parse().ok().map(|value| unsigned(value, *narrow));
                *advanced = some(rest, MOST_INSTRUCTIONS, wrap)?;
            }
            "iterations" => self.iterations = Some(Iterations::Word(rest.parse().ok()?)),
            "timed" => {
                let (access, word) = rest.split_once(' ')?;
                self.timed = Some((access.parse().ok()?, word.parse().ok()?));
            }
            _ => return None,
        }
        Some(())
    }

    fn check(&self) -> Result<(), LayoutError> {
        let mut ends: Vec<usize> =
            self.values.iter().map(|value| value.word.saturating_add(value.words)).collect();
        match &self.iterations {
            // No overflow: `bounded` has checked both. The others may be any number.
            Some(Iterations::Counter { start, end, .. }) => ends.extend([start + 1, end + 1]),
            Some(Iterations::Word(word)) => ends.push(word.saturating_add(1)),
            None => {}
        }
        ends.extend(self.timed.map(|(_, word)| word.saturating_add(1)));
        let most = self.words.min(MOST_WORDS);
        match ends.into_iter().chain([self.words]).find(|end| *end > most) {
            Some(word) => Err(LayoutError::Word { word, words: self.words }),
            None => Ok(()),
        }
    }
}

fn some<T>(text: &str, most: usize, one: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let items: Option<Vec<T>> = text.split(' ').take(most + 1).map(one).collect();
    items.filter(|items| items.len() <= most)
}

/// `rdi@0:1`, `v2@0:3+4`.
fn value(text: &str) -> Option<RecordedValue> {
    let (name, rest) = text.split_once('@')?;
    let (at, words) = rest.split_once(':')?;
    let (word, words) = words.split_once('+').unwrap_or((words, "1"));
    let root = Root { source: source(name)?, at: instruction(at)? };
    let words: usize = words.parse().ok()?;
    let fits = match root.source {
        Source::Vector(_) => matches!(words, 2 | 4 | 8),
        _ => words == 1,
    };
    let value = RecordedValue { root, word: bounded(word)?, words };
    fits.then_some(value)
}

fn source(name: &str) -> Option<Source> {
    let numbered = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok();
    if let Some(register) = general(name) {
        return Some(Source::General(register));
    }
    if let Some(number) = numbered("mm") {
        let register = VectorRegister::from_number(number).filter(|_| number < 8)?;
        return Some(Source::Mmx(register));
    }
    numbered("v")
        .and_then(|number| VectorRegister::from_number(number).map(Source::Vector))
        .or_else(|| MaskRegister::from_number(numbered("k")?).map(Source::Mask))
}

fn general(name: &str) -> Option<Gpr> {
    Gpr::all().find(|register| register.to_string() == name)
}

/// `rdi 1..2 +64`, `narrow rcx 1..2 -1`.
fn counter(text: &str) -> Option<Iterations> {
    let (narrow, text) = match text.strip_prefix("narrow ") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (register, rest) = text.split_once(' ')?;
    let (words, stride) = rest.split_once(' ')?;
    let (start, end) = words.split_once("..")?;
    let stride = unsigned(stride.parse().ok()?, narrow);
    let counts = Iterations::Counter {
        register: general(register)?,
        start: bounded(start)?,
        end: bounded(end)?,
        stride,
        narrow,
        advanced: Vec::new(),
    };
    (stride != 0).then_some(counts)
}

fn bounded(text: &str) -> Option<usize> {
    text.parse().ok().filter(|word| *word < MOST_WORDS)
}

fn instruction(text: &str) -> Option<usize> {
    text.parse().ok().filter(|number| *number < MOST_INSTRUCTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_as_it_was() {
        let lines = [
            "words 0",
            "words 5; values rdi@0:1 rsp@3:2 v2@0:3+2; ways 7 4",
            "words 5; values k3@1:1 mm7@0:2 v31@2:3+2; ways 9",
            "words 3; values rdi@0:1; ways 3; loop rdi 1..2 +64; advanced 0 64 64",
            "words 3; values rcx@0:1; ways 2; loop narrow rcx 1..2 -1; advanced 0 -1",
            "words 2; ways 3; iterations 1",
            "words 3; values rdi@4:1; ways 7; timed 2 2",
        ];
        for line in lines {
            let layout: RecordLayout = line.parse().unwrap();
            assert_eq!(layout.to_string(), line);
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let lines = [
            "",
            "words",
            "words x",
            "words 99999",
            "values rdi@0:1",
            "words 2; words 2",
            "words 2; values rdi@0:2",
            "words 9; values rdi@0:1+2",
            "words 9; values v1@0:1",
            "words 9; values v1@0:8+2",
            "words 9; values v32@0:1+2",
            "words 9; values rdi@9999:1",
            "words 9; values fsbase@0:1",
            "words 9; advanced 1",
            "words 9; loop rdi 1..2 +0",
            "words 9; loop rdi 1..9 +1",
            "words 9; iterations 9",
            "words 9; timed 0 18446744073709551615",
            "words 9; ways 9 99999",
            "words 9;ways 9",
        ];
        for line in lines {
            assert!(line.parse::<RecordLayout>().is_err(), "{line}");
        }
    }
}
