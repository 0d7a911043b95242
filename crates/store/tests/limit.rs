//! The size limit: never exceeded, weights kept, density even.

mod support;

use std::collections::BTreeMap;

use base::{BurstId, FileOffset, ModuleId, StackId};
use facts::{Burst, Fact, LostSource, Recording, Records, Run, Sink, StackNode};
use store::{Writer, open, size_on_disk, verify};
use support::{Scratch, Shape, facts, run};

const MIB: u64 = 1 << 20;

/// About six times 1 MiB of journal.
const LONG: Shape = Shape { seconds: 240, threads: 4, stack_nodes: 300, faults: 40_000 };

fn limited(shape: Shape, bytes: u64) -> Run {
    Run { limit_bytes: bytes, ..run(shape) }
}

fn weight(recording: &Recording) -> (u64, u64) {
    let samples = recording.samples.iter().map(|sample| sample.weight.0).sum();
    let faults = recording.faults.iter().map(|fault| fault.weight).sum();
    (samples, faults)
}

#[test]
fn a_long_run_stays_within_its_limit_and_keeps_every_weight() {
    let scratch = Scratch::new("limit");
    let directory = scratch.path().join("r000ma");
    let run = limited(LONG, MIB);
    let all = facts(LONG);
    let mut writer = Writer::create(&directory, &run).expect("a new directory");
    let mut largest = 0;
    for (number, fact) in all.iter().enumerate() {
        writer.push(fact.clone()).expect("room");
        if number % 4000 == 0 {
            writer.flush().expect("room");
            assert_eq!(writer.size(), size_on_disk(&directory));
            largest = largest.max(writer.size().0);
        }
    }
    let factor = writer.thinning();
    let finished = writer.finish(&run).expect("room");
    assert!(largest <= MIB, "{largest} bytes while collecting");
    assert!(finished.size.0 <= MIB, "{}", finished.size);
    assert!((8..=64).contains(&factor), "factor {factor}");
    let expected = support::recording(run, &all);
    let opened = open(&directory).expect("open").recording;
    assert_eq!(weight(&opened), weight(&expected));
    let records = |one: &Recording| {
        let accesses = one.memory_samples.len() + one.event_samples.len();
        one.samples.len() + one.faults.len() + accesses
    };
    let dropped = records(&expected) - records(&opened);
    assert_eq!(opened.lost(LostSource::Thinned), dropped as u64);
    assert_eq!(opened.lost(LostSource::Samples), 3, "other losses stand");
    assert!(finished.notes[0].contains(&format!("one of every {factor} was kept")));
    assert_eq!(opened.run.notes, finished.notes);
    assert_eq!(opened.stack_nodes, expected.stack_nodes);
    assert_eq!(opened.frames, expected.frames);
    assert_eq!(verify(&directory).expect("verify"), []);
    assert_even(&opened, factor);
}

/// Each tenth of the run holds a tenth of the samples and of the weight.
fn assert_even(recording: &Recording, factor: u64) {
    let tenth = recording.run.elapsed_ns / 10;
    let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for sample in &recording.samples {
        let bin = counts.entry((sample.time.0 / tenth).min(9)).or_default();
        bin.0 += 1;
        bin.1 += sample.weight.0;
    }
    let expected = recording.samples.len() as u64 / 10;
    for (bin, (count, weight)) in &counts {
        assert!(count.abs_diff(expected) <= expected / 10 + 8, "bin {bin}: {counts:?}");
        let off = weight.abs_diff(tenth * LONG.threads);
        assert!(off <= 2 * factor * LONG.threads * 1_000_000, "bin {bin}: {counts:?}");
    }
}

/// The interrupted result is even as well, whenever it is interrupted.
#[test]
fn an_interrupted_thinned_run_keeps_its_weight_to_one_group_per_thread() {
    let scratch = Scratch::new("interrupted-limit");
    let directory = scratch.path().join("r000ma");
    let mut writer = Writer::create(&directory, &limited(LONG, MIB)).expect("a new directory");
    let mut pushed = Vec::new();
    for (number, fact) in facts(LONG).into_iter().enumerate() {
        pushed.push(fact.clone());
        writer.push(fact).expect("room");
        if number % 50_000 == 49_999 {
            writer.flush().expect("room");
            let opened = open(&directory).expect("open").recording;
            let (samples, faults) = weight(&opened);
            let expected = support::recording(Run::default(), &pushed);
            let (all_samples, all_faults) = weight(&expected);
            let slack = writer.thinning() * LONG.threads;
            assert!(samples <= all_samples && all_samples - samples <= slack * 1_000_000);
            assert!(faults <= all_faults && all_faults - faults <= 2 * slack);
            assert_eq!(opened.stack_nodes, expected.stack_nodes);
        }
    }
    assert!(writer.thinning() >= 8);
}

#[test]
fn a_run_below_the_limit_is_not_touched() {
    let scratch = Scratch::new("below");
    let directory = scratch.path().join("r000ma");
    let shape = Shape { seconds: 20, threads: 2, stack_nodes: 300, faults: 1000 };
    let all = facts(shape);
    let mut writer = Writer::create(&directory, &limited(shape, MIB)).expect("a new directory");
    all.iter().for_each(|fact| writer.push(fact.clone()).expect("room"));
    assert_eq!(writer.thinning(), 1);
    let finished = writer.finish(&limited(shape, MIB)).expect("room");
    assert_eq!(finished.notes, Vec::<String>::new());
    let opened = open(&directory).expect("open").recording;
    assert!(opened == support::recording(opened.run.clone(), &all), "the recording differs");
}

/// Records of bursts are left out by whole bursts, evenly, and those that stay are exact.
#[test]
fn records_of_bursts_are_halved_when_they_fill_the_result() {
    let scratch = Scratch::new("bursts");
    let directory = scratch.path().join("r000ma");
    let shape = Shape { seconds: 200, threads: 1, stack_nodes: 10, faults: 10 };
    let run = limited(shape, MIB);
    let mut writer = Writer::create(&directory, &run).expect("a new directory");
    let mut start = facts(Shape { seconds: 5, ..shape });
    start.retain(|fact| {
        matches!(fact, Fact::Module(_) | Fact::StackNode(_) | Fact::Block(_) | Fact::Sample(_))
    });
    let samples = start.iter().filter(|fact| matches!(fact, Fact::Sample(_))).count();
    let mut pushed = Vec::new();
    for number in 0..400 {
        let (burst, records) = support::burst_with_records(number, 2000);
        pushed.push((burst.clone(), records.clone()));
        start.extend([Fact::Burst(burst), records]);
    }
    for (number, fact) in start.into_iter().enumerate() {
        writer.push(fact).expect("room");
        if number % 10 == 0 {
            writer.flush().expect("room");
            assert!(writer.size().0 <= MIB, "{} while collecting", writer.size());
        }
    }
    assert_eq!(writer.thinning(), 1, "samples are not what fills it");
    let early = writer.recording(&run).expect("the journal").recording;
    let finished = writer.finish(&run).expect("room");
    assert!(finished.size.0 <= MIB, "{}", finished.size);
    assert!(finished.notes[0].contains("records of bursts were thinned out"));
    let opened = open(&directory).expect("open").recording;
    assert!(early == opened, "the journal says something else than the tables");
    assert_eq!(opened.samples.len(), samples);
    assert_eq!(verify(&directory).expect("verify"), []);
    assert_eq!(opened.bursts.len(), pushed.len(), "each burst is still there");
    let kept: Vec<BurstId> =
        opened.bursts.iter().filter(|burst| !burst.records_lost).map(|burst| burst.id).collect();
    assert!((20..200).contains(&kept.len()), "{} kept", kept.len());
    let early = kept.iter().filter(|id| id.0 < 200).count();
    assert!(early.abs_diff(kept.len() - early) <= kept.len() / 2, "{early} of {}", kept.len());
    for (burst, records) in pushed {
        let lost = !kept.contains(&burst.id);
        assert!(opened.bursts.contains(&Burst { records_lost: lost, ..burst.clone() }));
        let Fact::Records(records) = records else { unreachable!() };
        assert_eq!(opened.records.contains(&records), !lost);
    }
}

/// A piece of records that is too large for a row loses its burst's records, not the result.
#[test]
fn a_piece_that_fits_no_row_is_left_out() {
    let scratch = Scratch::new("piece");
    let directory = scratch.path().join("r000ma");
    let run = limited(Shape { seconds: 1, threads: 1, stack_nodes: 1, faults: 1 }, 0);
    let mut writer = Writer::create(&directory, &run).expect("a new directory");
    let (burst, records) = support::burst_with_records(7, 3);
    let Fact::Records(Records { bytes, .. }) = records.clone() else { unreachable!() };
    let long = Records { burst: burst.id, bytes: bytes.repeat(1 << 15) };
    for fact in [records, Fact::Records(long), Fact::Burst(burst.clone())] {
        writer.push(fact).expect("room");
    }
    let early = writer.recording(&run).expect("the journal").recording;
    writer.finish(&run).expect("room");
    let opened = open(&directory).expect("open").recording;
    assert!(early == opened, "the journal says something else than the tables");
    assert_eq!(opened.bursts, [Burst { records_lost: true, ..burst }]);
    assert_eq!(opened.records, []);
}

/// Stacks cannot be thinned: past the bound they are refused, counted and said.
#[test]
fn what_cannot_be_thinned_is_bounded_too() {
    let scratch = Scratch::new("stacks");
    let directory = scratch.path().join("r000ma");
    let shape = Shape { seconds: 1, threads: 1, stack_nodes: 10, faults: 10 };
    let run = limited(shape, MIB);
    let mut writer = Writer::create(&directory, &run).expect("a new directory");
    facts(shape).into_iter().for_each(|fact| writer.push(fact).expect("room"));
    let mut numbers = support::Numbers(3);
    for id in 10..300_000 {
        let node = StackNode {
            id: StackId(id),
            parent: Some(StackId(numbers.below(u64::from(id)) as u32)),
            module: ModuleId(0),
            offset: FileOffset(numbers.below(1 << 40)),
            truncated: false,
        };
        writer.push(Fact::StackNode(node)).expect("room");
    }
    assert!(writer.size().0 < MIB, "{}", writer.size());
    let finished = writer.finish(&run).expect("room");
    assert!(finished.size.0 < MIB, "{}", finished.size);
    assert!(finished.notes.iter().any(|note| note.contains("records were dropped")));
    let opened = open(&directory).expect("open");
    assert_eq!(opened.problems, []);
    let kept = opened.recording.stack_nodes.len() as u64;
    assert_eq!(opened.recording.lost(LostSource::Events), 300_000 - kept);
    assert_eq!(verify(&directory).expect("verify"), []);
}
