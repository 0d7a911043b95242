//! Accesses from a record, by its layout alone.

use std::collections::HashMap;

use x86::translate::{Iterations, RecordLayout};
use x86::{BlockRoots, Gpr, RootedAccess, Source, State, Touched, evaluate};

/// The registers of the first iteration at each point where some were recorded.
fn states(layout: &RecordLayout, words: &[u64], fs_base: u64) -> HashMap<usize, State> {
    let mut states: HashMap<usize, State> = HashMap::new();
    for value in &layout.values {
        let state = states.entry(value.root.at).or_default();
        let found = &words[value.word..value.word + value.words];
        match value.root.source {
            Source::General(register) => state.set(register, found[0]),
            Source::Vector(register) => {
                let bytes: Vec<u8> = found.iter().flat_map(|word| word.to_le_bytes()).collect();
                state.vectors[register.number()][..bytes.len()].copy_from_slice(&bytes);
            }
            Source::Mask(register) => state.masks[register.number()] = found[0],
            Source::Mmx(register) => state.mmx[register.number()] = found[0],
            other => panic!("{other:?} in a record"),
        }
    }
    states.entry(0).or_default();
    states.values_mut().for_each(|state| state.fs_base = fs_base);
    states
}

/// How often a loop ran, from its end value.
pub fn iterations(layout: &RecordLayout, words: &[u64], end: Option<u64>) -> u64 {
    match layout.iterations.as_ref().unwrap() {
        Iterations::Word(word) => end.unwrap_or(words[*word]),
        Iterations::Counter { start, end: end_word, stride, narrow, .. } => {
            let end = end.unwrap_or_else(|| words[*end_word]);
            let difference = end.wrapping_sub(words[*start]);
            let exact = |difference: i64, stride: i64| {
                assert_eq!(difference % stride, 0, "{difference} by {stride}");
                (difference / stride) as u64
            };
            match narrow {
                true => exact(i64::from(difference as i32), i64::from(*stride as i32)),
                false => exact(difference.cast_signed(), stride.cast_signed()),
            }
        }
    }
}

/// The accesses of the instructions in front of `until` of iteration `iteration` (0 where there is no loop).
pub fn accesses(
    layout: &RecordLayout,
    roots: &BlockRoots,
    words: &[u64],
    fs_base: u64,
    iteration: u64,
    until: usize,
) -> Vec<Touched> {
    let mut states = states(layout, words, fs_base);
    if iteration > 0 {
        let first = states.get_mut(&0).unwrap();
        for register in Gpr::all() {
            let end = roots.general_at_end[register.number()];
            if let Some(x86::Value::Root { root, displacement }) = end
                && root.source == Source::General(register)
            {
                let more = displacement.wrapping_mul(iteration);
                first.set(register, first.get(register).wrapping_add(more));
            }
        }
    }
    let none = State { fs_base, ..State::default() };
    let mut all = Vec::new();
    for access in roots.accesses.iter().filter(|access| access.instruction < until) {
        let state = access.state(|at| states.get(&at).unwrap_or(&none));
        all.extend(evaluate(&[access.access], &state));
    }
    all
}

/// The timed access: its registers are recorded directly in front of it.
pub fn of_one(
    layout: &RecordLayout,
    access: &RootedAccess,
    words: &[u64],
    fs_base: u64,
) -> Vec<Touched> {
    let states = states(layout, words, fs_base);
    let none = State { fs_base, ..State::default() };
    evaluate(&[access.access], states.get(&access.instruction).unwrap_or(&none))
}
