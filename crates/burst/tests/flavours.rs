//! Count windows and timed loads of real processes, against what these do by construction.
//!
//! What for: exact counts per instruction, and which loads take longer. What not: how long any of them takes: timing
//! decides no test.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use base::{BlockId, BurstId, Nanos, RemoteAddr, Tid};
use burst::{NewBlock, Observation, Options, Tracer};
use facts::{Burst, BurstEnd, BurstFlavour, WordAdvance, decode_records};
use support::{Program, read_again};
use x86::translate::RecordLayout;
use x86::{Block, Limits, Source, State, evaluate};

/// A block, read again from what was observed of it.
struct Code {
    block: Block,
    layout: RecordLayout,
}

impl Code {
    fn read(new: &NewBlock) -> Code {
        let (block, layout) = read_again(new, Limits::BASIC);
        Code { block, layout }
    }
}

/// Block, iterations, values.
type Row = (BlockId, u64, Vec<u64>);

/// What bursts of one flavour recorded.
#[derive(Default)]
struct Recorded {
    codes: HashMap<BlockId, Code>,
    bursts: Vec<Burst>,
    rows: HashMap<BurstId, Vec<Row>>,
    words: Vec<WordAdvance>,
}

impl Recorded {
    fn take(&mut self, flavour: BurstFlavour, one: Observation) {
        match one {
            Observation::Block(_, of, block)
                if of == flavour.of_blocks() && of != BurstFlavour::Trace =>
            {
                self.codes.insert(block.id, Code::read(&block));
            }
            Observation::Burst(burst) if burst.flavour == flavour => self.bursts.push(burst),
            Observation::WordAdvance(advance) => self.words.push(advance),
            Observation::Records(records)
                if self.bursts.iter().any(|burst| burst.id == records.burst) =>
            {
                let rows = self.rows.entry(records.burst).or_default();
                decode_records(&records.bytes, |record| {
                    assert!(record.way == 0 || flavour == BurstFlavour::Trace);
                    rows.push((record.block, record.iterations, record.values.to_vec()));
                })
                .expect("records");
            }
            _ => {}
        }
    }
}

/// Traces a program until there is enough of one flavour.
fn watch(program: &Program, flavour: BurstFlavour, enough: impl Fn(&Recorded) -> bool) -> Recorded {
    let options = Options {
        overhead: 1.0,
        interval: Some(Duration::from_millis(1)),
        longest: Duration::from_millis(2),
        rationed: false,
    };
    let mut tracer = Tracer::start(options, Nanos(0)).expect("a tracer");
    tracer.set_processes(vec![program.pid()]);
    let mut seen = Recorded::default();
    let began = Instant::now();
    while !enough(&seen) {
        // Only keeps a broken tracer from hanging the test.
        assert!(began.elapsed() < Duration::from_secs(60), "{} bursts", seen.bursts.len());
        std::thread::sleep(Duration::from_millis(5));
        tracer.observed().for_each(|one| seen.take(flavour, one));
    }
    tracer.stop();
    tracer.observed().for_each(|one| seen.take(flavour, one));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", program.pid()));
    assert!(!maps.unwrap_or_default().contains("memfd:fathom"), "our mappings are gone");
    seen
}

/// How often each instruction ran in each window, by the counts of the blocks that hold it.
fn instruction_counts(seen: &Recorded) -> Vec<BTreeMap<RemoteAddr, u64>> {
    let count = |rows: &Vec<Row>| {
        let mut counts: BTreeMap<RemoteAddr, u64> = BTreeMap::new();
        for (block, times, values) in rows {
            assert!(values.is_empty() && *times > 0);
            for instruction in &seen.codes[block].block.instructions {
                *counts.entry(instruction.address()).or_default() += times;
            }
        }
        counts
    };
    seen.rows.values().map(count).collect()
}

fn most(counts: &BTreeMap<RemoteAddr, u64>) -> u64 {
    counts.values().copied().max().unwrap_or(0)
}

/// Windows in which a loop ran this often are long enough to tell.
const LONG: u64 = 20_000;

/// `column` runs 128 rows for each column, 512 columns for each call, and calls the system now and then.
#[test]
fn counts_of_nested_loops_stand_in_their_proportion() {
    const ROWS: u64 = 128;
    const COLUMNS: u64 = 512;
    let Some(program) = Program::known_accesses("2") else { return };
    let windows = |seen: &Recorded| {
        let mut all = instruction_counts(seen);
        all.retain(|counts| most(counts) >= LONG);
        all
    };
    let seen = watch(&program, BurstFlavour::Count, |seen| windows(seen).len() >= 5);
    for counts in windows(&seen) {
        let inner = most(&counts);
        let often = |count: u64, of: u64| (count * of).abs_diff(inner) <= 2 * of;
        for (at, count) in &counts {
            // What runs once per call, or less often.
            let calls = inner / (ROWS * COLUMNS) + 2;
            let known = often(*count, 1) || often(*count, ROWS) || *count <= calls;
            assert!(known, "{at} ran {count} times, the loop {inner} times: {counts:?}");
        }
        assert!(counts.values().any(|count| often(*count, 1)));
        assert!(counts.values().any(|count| often(*count, ROWS)), "{counts:?}");
    }
    for burst in &seen.bursts {
        assert!(burst.stops >= 2 && !burst.records_lost, "{burst:?}");
        assert!(burst.cpu_time.is_some_and(|time| time.0 > 0), "{burst:?}");
        assert_eq!(seen.rows.get(&burst.id).map_or(0, Vec::len) as u64, burst.records);
    }
}

/// `atomic` adds 1 per iteration to a number in its memory: nothing else in it rises so evenly.
#[test]
fn a_counter_of_the_program_is_an_odometer() {
    let Some(program) = Program::known_accesses("7") else { return };
    let at = RemoteAddr(program.printed["counter"]);
    let is_counter = |advance: &&WordAdvance| advance.address == at;
    let enough = |seen: &Recorded| seen.words.iter().filter(is_counter).count() >= 5;
    let seen = watch(&program, BurstFlavour::Count, enough);
    for advance in seen.words.iter().filter(is_counter) {
        let counted = seen.rows[&advance.burst].iter().map(|(_, times, _)| *times).max();
        let counted = counted.expect("it ran in the window");
        // A window begins within an iteration: its first ones are of a block that begins there.
        assert!(advance.inside.abs_diff(counted) <= 16, "{advance:?}: {counted} counted");
        assert!(advance.natively > 0 && advance.cpu_time.0 > 0, "{advance:?}");
    }
    assert!(enough(&seen), "{:?}", seen.words);
}

/// `atomic` adds 1 per iteration to a number in its memory.
#[test]
fn no_window_counts_more_than_the_program_did() {
    let Some(program) = Program::known_accesses("7") else { return };
    let progress = || {
        let mut bytes = [0; 8];
        let at = RemoteAddr(program.printed["counter"]);
        assert_eq!(sys::trace::read_memory(program.pid(), at, &mut bytes), 8);
        u64::from_le_bytes(bytes)
    };
    let counted = |seen: &Recorded| -> u64 { instruction_counts(seen).iter().map(most).sum() };
    let before = progress();
    let seen = watch(&program, BurstFlavour::Count, |seen| counted(seen) >= 10 * LONG);
    let (counted, done) = (counted(&seen), progress() - before);
    // A window may end in front of the addition that it counted.
    assert!(counted <= done + seen.rows.len() as u64, "{counted} counted, {done} done");
}

/// Two threads that meet at barriers: windows go on behind their system calls, and what the kernel did is not theirs.
#[test]
fn windows_go_on_behind_system_calls() {
    let rounds = ["--rounds", "1000000000"];
    let Some(program) = Program::start("barrier_rounds", &rounds) else { return };
    let goes_on = |burst: &&Burst| burst.in_calls.is_some_and(|time| time.0 > 0);
    let enough = |seen: &Recorded| seen.bursts.iter().filter(goes_on).count() >= 5;
    let seen = watch(&program, BurstFlavour::Count, enough);
    for burst in seen.bursts.iter().filter(goes_on) {
        let in_calls = burst.in_calls.unwrap_or_default();
        assert!(burst.entered() >= 2 && burst.stops > burst.entered() + 1, "{burst:?}");
        assert!(in_calls < burst.elapsed, "{burst:?}");
        assert!(burst.cpu_time.is_none_or(|cpu| cpu <= burst.elapsed - in_calls), "{burst:?}");
    }
}

/// A program that reads and writes a file every some ten microseconds: windows last longer than that.
#[test]
fn windows_go_on_behind_calls_on_a_file() {
    let path = std::env::temp_dir().join(format!("fathom-file-passes-{}", std::process::id()));
    let file = std::fs::File::create_new(&path).expect("room for temporary files");
    std::fs::remove_file(&path).expect("it is there");
    let own = Tid(std::process::id().cast_signed());
    if !sys::process::is_never_cut_short(own, file.as_raw_fd().cast_unsigned()) {
        println!("skipped: temporary files are on a file system that is not known");
        return;
    }
    let Some(program) = Program::start("file_passes", &["--rounds", "1000000000"]) else { return };
    let goes_on = |burst: &&Burst| burst.in_calls.is_some_and(|time| time.0 > 0);
    let enough = |seen: &Recorded| seen.bursts.iter().filter(goes_on).count() >= 5;
    let seen = watch(&program, BurstFlavour::Count, enough);
    assert!(seen.bursts.iter().filter(goes_on).count() >= 5, "{}", seen.bursts.len());
}

/// 256 functions: the first window waits for their code.
#[test]
fn a_window_in_cold_code_is_followed_by_another_one() {
    let Some(program) = Program::start("many_blocks", &[]) else { return };
    let pairs = |seen: &Recorded| {
        let next = |(one, next): (&Burst, &Burst)| next.time == one.time + one.elapsed;
        seen.bursts.iter().zip(seen.bursts.iter().skip(1)).filter(|pair| next(*pair)).count()
    };
    let seen = watch(&program, BurstFlavour::Count, |seen| pairs(seen) >= 3);
    assert!(seen.bursts.iter().all(|burst| burst.flavour == BurstFlavour::Count));
}

/// Sixteen threads that meet at barriers wait for long on a few CPUs: bursts end in these waits, with what they recorded before.
#[test]
fn traces_that_end_in_a_wait_keep_their_records() {
    let arguments = ["--threads", "16", "--rounds", "1000000000"];
    let Some(program) = Program::start("barrier_rounds", &arguments) else { return };
    let long = |burst: &&Burst| burst.in_calls.is_some_and(|time| time.0 > 1_000_000);
    let enough = |seen: &Recorded| seen.bursts.iter().filter(long).count() >= 10;
    let seen = watch(&program, BurstFlavour::Trace, enough);
    let mut ended = seen.bursts.iter().filter(long);
    assert!(ended.any(|burst| burst.end == BurstEnd::Native && burst.records > 0));
}

/// The comparison is code of the program, the sort of the C library: terabytes apart. Where two of their blocks share an
/// entry of the table, a thread must not stop at each call.
#[test]
fn calls_between_program_and_library_stay_in_translated_code() {
    let Some(program) = Program::start("sort_calls", &["--rounds", "1000000"]) else { return };
    let ran =
        |seen: &Recorded| instruction_counts(seen).iter().filter(|one| most(one) > LONG).count();
    let seen = watch(&program, BurstFlavour::Count, |seen| ran(seen) >= 10);
    let stopped = seen.bursts.iter().filter(|burst| burst.stops > 10).count();
    assert!(stopped <= seen.bursts.len() / 2, "{stopped} of {} windows", seen.bursts.len());
}

/// The cycles of the timed loads of the block that has most, each with its address.
fn loads(seen: &Recorded) -> Vec<(u64, u32)> {
    let mut of: HashMap<BlockId, Vec<(u64, u32)>> = HashMap::new();
    for (block, _, values) in seen.rows.values().flatten() {
        let Code { block: code, layout } = &seen.codes[block];
        let (access, word) = layout.timed.expect("only timed loads are recorded");
        let mut state = State::default();
        for value in &layout.values {
            let Source::General(register) = value.root.source else { panic!("{layout:?}") };
            state.set(register, values[value.word - 1]);
        }
        let accesses = code.instructions.iter().flat_map(|one| one.accesses());
        let access = accesses.into_iter().nth(access).expect("the timed access");
        let touched = evaluate(std::slice::from_ref(access), &state);
        let stamps = values[word - 1];
        let cycles = ((stamps >> 32) as u32).wrapping_sub(stamps as u32);
        of.entry(*block).or_default().push((touched[0].address.0, cycles));
    }
    of.into_values().max_by_key(Vec::len).unwrap_or_default()
}

const ENOUGH: usize = 3000;

#[test]
fn timed_loads_have_their_addresses() {
    let Some(program) = Program::known_accesses("3") else { return };
    let seen = watch(&program, BurstFlavour::Timed, |seen| loads(seen).len() >= ENOUGH);
    for (address, cycles) in loads(&seen) {
        assert!(program.index("links", address, 64).is_some(), "{address:#x} took {cycles}");
        assert!(cycles > 0);
    }
}

#[test]
fn loads_from_memory_take_longer_than_loads_from_the_nearest_cache() {
    let median = |arguments: &[&str]| {
        let program = Program::start_ready("access_patterns", arguments)?;
        let seen = watch(&program, BurstFlavour::Timed, |seen| loads(seen).len() >= ENOUGH);
        let mut cycles: Vec<u32> = loads(&seen).iter().map(|(_, cycles)| *cycles).collect();
        cycles.sort_unstable();
        Some(cycles[cycles.len() / 2])
    };
    let near = ["--megabytes", "1", "--chase", "0", "--hits", "1000000000"];
    let far = ["--megabytes", "64", "--chase", "1000000", "--hits", "0"];
    let Some((near, far)) = median(&near).zip(median(&far)) else { return };
    if near >= far {
        println!("skipped: the machine is too busy to time loads ({near} and {far} cycles)");
    }
}
