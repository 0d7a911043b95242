//! OTLP profiles: the request with which a receiver of OpenTelemetry takes a profile, a protobuf message.
//!
//! What for: [`otlp`] writes it, [`OtlpAnswer`] reads what the receiver says. What not: sending it (cli), addresses: frames have
//! names already.
//!
//! Source: `profiles/v1development/profiles.proto` and `collector/profiles/v1development/profiles_service.proto` of
//! https://github.com/open-telemetry/opentelemetry-proto, in which one profile has one kind of value. Names of attributes:
//! OpenTelemetry's semantic conventions. The signal is in development, and its messages may still change.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::stacks::{Exported, whole_numbers};
use crate::wire::{Field, Message, Texts, fields};

/// Entries that are referred to by their position; the first is empty, as the format demands.
struct Table<K> {
    known: HashMap<K, u64>,
    entries: Vec<Message>,
}

impl<K> Default for Table<K> {
    fn default() -> Table<K> {
        Table { known: HashMap::new(), entries: vec![Message::default()] }
    }
}

impl<K: Eq + Hash> Table<K> {
    fn id(&mut self, key: K, entry: impl FnOnce() -> Message) -> u64 {
        let entries = &mut self.entries;
        *self.known.entry(key).or_insert_with(|| {
            entries.push(entry());
            entries.len() as u64 - 1
        })
    }
}

/// What all profiles of a request refer to. It has what they use, and nothing else.
#[derive(Default)]
struct Dictionary {
    texts: Texts,
    mappings: Table<String>,
    functions: Table<(u64, u64)>,
    places: Table<usize>,
    attributes: Table<(u64, String)>,
    stacks: Table<Vec<u64>>,
}

impl Dictionary {
    fn attribute(&mut self, key: &str, value: &str) -> u64 {
        let id = self.texts.id(key);
        let entry = || Message::default().number(1, id).message(2, text(value));
        self.attributes.id((id, value.to_owned()), entry)
    }

    fn place(&mut self, exported: &Exported, frame: usize) -> u64 {
        let of = &exported.frames[frame];
        let mapping = match of.module.as_str() {
            "" => 0,
            module => {
                let name = self.texts.id(module);
                self.mappings.id(module.to_owned(), || Message::default().number(4, name))
            }
        };
        let name = self.texts.id(&of.function);
        let file = self.texts.id(of.file.as_deref().unwrap_or_default());
        let function = || Message::default().number(1, name).number(2, name).number(3, file);
        let function = self.functions.id((name, file), function);
        let kind = match of {
            _ if of.kernel => "kernel",
            _ if of.function.starts_with("py::") => "cpython",
            _ => "native",
        };
        let kind = self.attribute("profile.frame.type", kind);
        let line = Message::default().number(1, function);
        let line = line.number(2, u64::from(of.line.unwrap_or(0)));
        self.places.id(frame, || {
            let place = Message::default().number(1, mapping).message(3, line);
            place.packed(4, std::iter::once(kind))
        })
    }

    fn stack(&mut self, exported: &Exported, frames: &[usize]) -> u64 {
        if frames.is_empty() {
            return 0;
        }
        let places: Vec<u64> = frames.iter().map(|frame| self.place(exported, *frame)).collect();
        let entry = Message::default().packed(1, places.iter().copied());
        self.stacks.id(places, || entry)
    }

    /// A figure as a profile; `None` where it is nothing.
    fn profile(&mut self, exported: &Exported, at: usize) -> Option<Message> {
        let amounts = whole_numbers(exported.samples.iter().map(|sample| sample.amounts[at]));
        let mut sums: BTreeMap<(u64, Option<u64>), u64> = BTreeMap::new();
        let samples = exported.samples.iter().zip(amounts).filter(|(_, amount)| *amount > 0);
        for (sample, amount) in samples {
            let stack = self.stack(exported, &sample.stack);
            let thread = sample.thread.as_deref();
            let thread = thread.map(|thread| self.attribute("thread.name", thread));
            let sum = sums.entry((stack, thread)).or_default();
            *sum = sum.saturating_add(amount);
        }
        if sums.is_empty() {
            return None;
        }
        let figure = &exported.figures[at];
        let kind = Message::default().number(1, self.texts.id(figure.name));
        let mut profile = Message::default().message(1, kind.number(2, self.texts.id(figure.unit)));
        for ((stack, thread), sum) in sums {
            let sample = Message::default().number(1, stack).packed(2, thread.into_iter());
            profile = profile.message(2, sample.packed(4, std::iter::once(sum)));
        }
        let notes = exported.notes.join("\n");
        let notes = (!notes.is_empty()).then(|| self.attribute("fathom.notes", &notes));
        let start = exported.started_unix.saturating_mul(1_000_000_000);
        let profile = profile
            .fixed(3, start)
            .number(4, exported.elapsed.0)
            .bytes(7, &exported.origin.id(figure.name))
            .packed(11, notes.into_iter());
        Some(profile)
    }

    fn message(self) -> Message {
        let tables = [
            (1, self.mappings.entries),
            (2, self.places.entries),
            (3, self.functions.entries),
            // No sample belongs to a span.
            (4, vec![Message::default()]),
            (6, self.attributes.entries),
            (7, self.stacks.entries),
        ];
        let entries =
            tables.into_iter().flat_map(|(field, of)| of.into_iter().map(move |one| (field, one)));
        let all = entries.fold(Message::default(), |all, (field, one)| all.message(field, one));
        self.texts.list().iter().fold(all, |all, text| all.text(5, text))
    }
}

/// A text as a value of an attribute.
fn text(value: &str) -> Message {
    Message::default().text(1, value)
}

/// The request. `attributes`: of what was profiled, besides those that the result knows, which they replace.
pub(crate) fn otlp(exported: &Exported, attributes: &[(String, String)]) -> Vec<u8> {
    let mut dictionary = Dictionary::default();
    let profiles = (0..exported.figures.len()).filter_map(|at| dictionary.profile(exported, at));
    let scope = Message::default().text(1, "fathom").text(2, env!("CARGO_PKG_VERSION"));
    let scope = profiles.fold(Message::default().message(1, scope), |all, one| all.message(2, one));
    let origin = &exported.origin;
    let mut known: BTreeMap<&str, Message> = BTreeMap::new();
    for (key, value) in [
        ("service.name", &origin.program),
        ("process.executable.name", &origin.program),
        ("process.command_line", &origin.command),
        ("host.name", &origin.host),
    ] {
        if !value.is_empty() {
            known.insert(key, text(value));
        }
    }
    if let Some(pid) = origin.pid.and_then(|pid| u64::try_from(pid.0).ok()) {
        known.insert("process.pid", Message::default().number(3, pid));
    }
    known.extend(attributes.iter().map(|(key, value)| (key.as_str(), text(value))));
    let pair = |(key, value): (&str, Message)| Message::default().text(1, key).message(2, value);
    let resource =
        known.into_iter().map(pair).fold(Message::default(), |all, one| all.message(1, one));
    let profiles = Message::default().message(1, resource).message(2, scope);
    Message::default().message(1, profiles).message(2, dictionary.message()).into_bytes()
}

/// What a receiver says of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OtlpAnswer {
    /// How many profiles it did not take.
    pub rejected: u64,
    /// Why, or a warning; empty where it says nothing.
    pub message: String,
}

impl OtlpAnswer {
    /// Of a request that it took (`ExportProfilesServiceResponse`). What is no such message says nothing.
    #[must_use]
    pub fn taken(bytes: &[u8]) -> OtlpAnswer {
        let part = fields(bytes).into_iter().find_map(|(field, value)| match (field, value) {
            (1, Field::Bytes(part)) => Some(part),
            _ => None,
        });
        let mut answer = OtlpAnswer::default();
        for field in fields(part.unwrap_or_default()) {
            match field {
                (1, Field::Number(count)) => answer.rejected = count,
                (2, Field::Bytes(text)) => answer.message = plain(text),
                _ => {}
            }
        }
        answer
    }

    /// The message of a request that it refused: `google.rpc.Status`, or any text.
    #[must_use]
    pub fn refused(bytes: &[u8]) -> String {
        let status = fields(bytes).into_iter().find_map(|(field, value)| match (field, value) {
            (2, Field::Bytes(text)) => Some(text),
            _ => None,
        });
        plain(status.unwrap_or(bytes))
    }
}

/// The first of a text, without what a terminal would obey.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let shown = text.chars().take(300).map(|letter| if letter.is_control() { ' ' } else { letter });
    shown.collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_never_believed() {
        let part = |count, text: &str| {
            let part = Message::default().number(1, count).text(2, text);
            Message::default().message(1, part).into_bytes()
        };
        let answer = OtlpAnswer::taken(&part(2, "too\nlarge"));
        assert_eq!(answer, OtlpAnswer { rejected: 2, message: "too large".to_owned() });
        assert_eq!(OtlpAnswer::taken(b""), OtlpAnswer::default());
        let whole = part(7, "x");
        for length in 0..whole.len() {
            let _ = OtlpAnswer::taken(&whole[..length]);
        }
        let status = Message::default().number(1, 3).text(2, "bad profile").into_bytes();
        assert_eq!(OtlpAnswer::refused(&status), "bad profile");
        assert_eq!(OtlpAnswer::refused(b"404 page not found\n"), "404 page not found");
        assert!(OtlpAnswer::refused(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]).len() < 40);
    }
}
