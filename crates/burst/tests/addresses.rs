//! Every address of a burst, rebuilt from its records, against what the program does by construction.
//!
//! What for: the whole way from a real process through `Tracer` to addresses. What not: figures over them (`analysis`),
//! and the translation of single instructions (tests of `x86`).

mod support;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use base::{BlockId, BurstId, Nanos, RemoteAddr};
use burst::{NewBlock, Observation, Options, Tracer};
use facts::{BurstFlavour, Record, decode_records};
use support::{Program, read_again};
use x86::translate::RecordLayout;
use x86::{
    Advance, BlockRoots, Kind, Limits, SelfLoop, Source, State, Times, evaluate, find_roots,
    self_loop,
};

/// A block, read again from what was observed of it.
struct Code {
    layout: RecordLayout,
    roots: BlockRoots,
    loops: Option<SelfLoop>,
}

impl Code {
    fn read(new: &NewBlock) -> Code {
        let (block, layout) = read_again(new, Limits::SUPER);
        let roots = find_roots(&block);
        let loops = self_loop(&block, &roots).filter(|_| layout.iterations.is_some());
        Code { layout, roots, loops }
    }

    /// The registers at each point where some were recorded, in one iteration.
    fn states(&self, record: &Record<'_>, iteration: u64) -> HashMap<usize, State> {
        let mut states: HashMap<usize, State> = HashMap::from([(0, State::default())]);
        for value in &self.layout.values {
            let Source::General(register) = value.root.source else { continue };
            let advance = self.loops.as_ref().map_or(Advance::Constant(0), |found| {
                let number = self.roots.roots.iter().position(|root| *root == value.root);
                number.map_or(Advance::Constant(0), |number| found.advances[number])
            });
            let Advance::Constant(advance) = advance else { panic!("a loop that is none") };
            let number =
                record.values[value.word - 1].wrapping_add(advance.wrapping_mul(iteration));
            states.entry(value.root.at).or_default().set(register, number);
        }
        states
    }

    /// Gives each access of a record, in order of execution.
    fn accesses(&self, record: &Record<'_>, take: &mut impl FnMut(Kind, u64, u32)) {
        let executed = self.layout.ways[record.way as usize];
        let none = State::default();
        for iteration in 0..record.iterations {
            let states = self.states(record, iteration);
            for access in self.roots.accesses.iter().filter(|one| one.instruction < executed) {
                let state = access.state(|at| states.get(&at).unwrap_or(&none));
                for touched in evaluate(&[access.access], &state) {
                    assert_eq!(touched.times, Times::Once, "nothing repeats in these loops");
                    take(touched.kind, touched.address.0, touched.bytes);
                }
            }
        }
    }
}

type Access = (Kind, u64, u32);

/// Bursts of a program until `enough` accesses were seen: those of each burst, in order.
fn bursts(program: &Program, enough: usize) -> Vec<Vec<Access>> {
    let options = Options {
        overhead: 1.0,
        interval: Some(Duration::from_millis(1)),
        longest: Duration::from_micros(300),
        rationed: false,
    };
    let mut tracer = Tracer::start(options, Nanos(0)).expect("a tracer");
    tracer.set_processes(vec![program.pid()]);
    let mut blocks: HashMap<BlockId, Code> = HashMap::new();
    let mut flavours: HashMap<BurstId, BurstFlavour> = HashMap::new();
    let mut found: HashMap<BurstId, Vec<Access>> = HashMap::new();
    let began = Instant::now();
    let mut count = 0;
    while count < enough {
        // Only keeps a broken tracer from hanging the test.
        assert!(began.elapsed() < Duration::from_secs(60), "{count} accesses in a minute");
        std::thread::sleep(Duration::from_millis(5));
        for one in tracer.observed() {
            match one {
                Observation::WordAdvance(_) => {}
                Observation::Block(_, BurstFlavour::Trace, block) => {
                    blocks.insert(block.id, Code::read(&block));
                }
                Observation::Burst(burst) => {
                    flavours.insert(burst.id, burst.flavour);
                }
                // A burst comes in front of its records.
                Observation::Records(records)
                    if flavours[&records.burst] == BurstFlavour::Trace =>
                {
                    let burst = found.entry(records.burst).or_default();
                    let before = burst.len();
                    decode_records(&records.bytes, |record| {
                        let mut take = |kind, address, bytes| burst.push((kind, address, bytes));
                        blocks[&record.block].accesses(record, &mut take);
                    })
                    .expect("records");
                    count += burst.len() - before;
                }
                Observation::Block(..) | Observation::Records(_) | Observation::Refused { .. } => {}
            }
            if count >= enough {
                break;
            }
        }
    }
    tracer.stop();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", program.pid()));
    assert!(!maps.unwrap_or_default().contains("memfd:fathom"), "our mappings are gone");
    found.into_values().collect()
}

/// The elements of an array that a burst touched, in order.
fn touched(program: &Program, burst: &[Access], array: &str, kind: Kind) -> Vec<u64> {
    let mut elements = Vec::new();
    for access in burst {
        let start = program.printed[array];
        if (start..start + program.printed[&format!("{array}_bytes")]).contains(&access.1) {
            let index = program.index(array, access.1, 8);
            elements.push(index.unwrap_or_else(|| panic!("{array} is {start:#x}: {access:x?}")));
            assert_eq!((access.0, access.2), (kind, 8), "in {array}");
        }
    }
    elements
}

/// Asserts that each element follows the one before, from the last to the first again.
fn assert_in_turn(elements: &[u64], length: u64, what: &str) {
    for (at, pair) in elements.windows(2).enumerate() {
        assert_eq!(pair[1], (pair[0] + 1) % length, "{what}: access {at} of {}", elements.len());
    }
}

/// Asserts that all addresses lie in memory that the program has, nearly all of them in these arrays.
fn assert_mapped(program: &Program, bursts: &[Vec<Access>], arrays: &[&str]) {
    let within =
        |address: u64| arrays.iter().any(|array| program.index(array, address, 1).is_some());
    let in_arrays = bursts.iter().flatten().filter(|access| within(access.1)).count();
    assert!(in_arrays > ENOUGH * 99 / 100, "{in_arrays} accesses in {arrays:?}");
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", program.pid())).expect("maps");
    let mapped: Vec<(u64, u64)> = maps
        .lines()
        .filter_map(|line| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
        })
        .collect();
    for (_, address, bytes) in bursts.iter().flatten() {
        let holds =
            |(start, end): &(u64, u64)| start <= address && address + u64::from(*bytes) <= *end;
        assert!(mapped.iter().any(holds), "{address:#x} is not mapped:\n{maps}");
    }
}

const ENOUGH: usize = 200_000;
const WORDS: u64 = 1 << 16;

#[test]
fn a_triad_walks_three_arrays_in_step() {
    let Some(program) = Program::known_accesses("1") else { return };
    let bursts = bursts(&program, ENOUGH);
    assert_mapped(&program, &bursts, &["triad_a", "triad_b", "triad_c"]);
    for burst in &bursts {
        let arrays = [("triad_a", Kind::Write), ("triad_b", Kind::Read), ("triad_c", Kind::Read)];
        let lengths = arrays.map(|(array, kind)| {
            let elements = touched(&program, burst, array, kind);
            assert_in_turn(&elements, WORDS, array);
            elements.len()
        });
        // A burst begins and ends anywhere in an iteration.
        let (most, least) = (lengths.iter().max(), lengths.iter().min());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{lengths:?}");
    }
}

#[test]
fn a_column_walk_goes_down_each_column() {
    const COLUMNS: u64 = 512;
    let Some(program) = Program::known_accesses("2") else { return };
    let bursts = bursts(&program, ENOUGH);
    assert_mapped(&program, &bursts, &["matrix"]);
    for burst in &bursts {
        let turn = |word: &u64| word % COLUMNS * (WORDS / COLUMNS) + word / COLUMNS;
        let words = touched(&program, burst, "matrix", Kind::Read);
        let turns: Vec<u64> = words.iter().map(turn).collect();
        assert_in_turn(&turns, WORDS, "matrix");
    }
}

#[test]
fn a_chase_reads_where_the_word_before_led() {
    let Some(program) = Program::known_accesses("3") else { return };
    let bursts = bursts(&program, ENOUGH);
    assert_mapped(&program, &bursts, &["links"]);
    let mut bytes = vec![0; program.printed["links_bytes"] as usize];
    let start = RemoteAddr(program.printed["links"]);
    let got = sys::trace::read_memory(program.pid(), start, &mut bytes);
    assert_eq!(got, bytes.len());
    let stored = |word: u64| {
        let at = word as usize * 8;
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    };
    for burst in &bursts {
        for pair in touched(&program, burst, "links", Kind::Read).windows(2) {
            assert_eq!(start.0 + pair[1] * 8, stored(pair[0]), "behind word {}", pair[0]);
        }
    }
}
