//! pprof: `profile.proto` of https://github.com/google/pprof, compressed by gzip.
//!
//! What not: addresses. Frames have names already, so each is a location of its own; the viewer need not look for files.

use std::collections::HashMap;

use crate::stacks::{Exported, Frame, whole_numbers};
use crate::wire::{Message, Texts, gzip};

pub(crate) fn pprof(exported: &Exported) -> Vec<u8> {
    let mut texts = Texts::default();
    let mut profile = Message::default();
    for figure in &exported.figures {
        let kind = Message::default().number(1, texts.id(figure.name));
        profile = profile.message(1, kind.number(2, texts.id(figure.unit)));
    }
    let columns: Vec<Vec<u64>> = (0..exported.figures.len())
        .map(|at| whole_numbers(exported.samples.iter().map(|sample| sample.amounts[at])))
        .collect();
    for (at, sample) in exported.samples.iter().enumerate() {
        let mut message = Message::default()
            .packed(1, sample.stack.iter().map(|&frame| frame as u64 + 1))
            .packed(2, columns.iter().map(|column| column[at]));
        if let Some(thread) = &sample.thread {
            let label = Message::default().number(1, texts.id("thread"));
            message = message.message(3, label.number(2, texts.id(thread)));
        }
        profile = profile.message(2, message);
    }
    let mut modules: HashMap<&str, u64> = HashMap::new();
    // Viewers take the first module for the program.
    let mut in_order: Vec<&Frame> = exported.frames.iter().collect();
    in_order.sort_by_key(|frame| (frame.kernel, frame.function != "main"));
    for frame in in_order {
        let next = modules.len() as u64 + 1;
        if *modules.entry(&frame.module).or_insert(next) == next {
            // Numbers 7 to 10: functions, files, lines and inlined frames are known, so nothing is looked up.
            let mapping = Message::default().number(1, next).number(5, texts.id(&frame.module));
            profile = profile.message(3, (7..=10).fold(mapping, |all, flag| all.number(flag, 1)));
        }
    }
    let mut functions: HashMap<(&str, Option<&str>, &str), u64> = HashMap::new();
    for (at, frame) in exported.frames.iter().enumerate() {
        let module = modules[frame.module.as_str()];
        let next = functions.len() as u64 + 1;
        let key = (frame.function.as_str(), frame.file.as_deref(), frame.module.as_str());
        let function = *functions.entry(key).or_insert_with(|| next);
        if function == next {
            let name = texts.id(&frame.function);
            let message = Message::default().number(1, function).number(2, name).number(3, name);
            let file = texts.id(frame.file.as_deref().unwrap_or_default());
            profile = profile.message(5, message.number(4, file));
        }
        let line = Message::default().number(1, function);
        let line = line.number(2, u64::from(frame.line.unwrap_or(0)));
        let place = Message::default().number(1, at as u64 + 1).number(2, module);
        profile = profile.message(4, place.message(4, line));
    }
    for note in &exported.notes {
        profile = profile.number(13, texts.id(note));
    }
    let main = exported.main_figure().map_or(0, |at| texts.id(exported.figures[at].name));
    profile = profile
        .number(9, exported.started_unix.saturating_mul(1_000_000_000))
        .number(10, exported.elapsed.0)
        .number(14, main);
    profile = texts.list().iter().fold(profile, |all, text| all.text(6, text));
    gzip(&profile.into_bytes())
}
