//! Loops with known chains against each other, and what is chosen.

use base::{BurstId, FileOffset, ModuleId, Pid, RemoteAddr, Tid};
use facts::{
    CodePiece, GENERAL_REGISTERS, RecordEncoder, Records, RegisterEncoder, SampleRegisters,
    SampledFrame, SampledPlace, SampledState,
};

use super::paths::Path;
use super::*;

/// Any will do: times are compared with each other only.
const TICK: f64 = 1e-9;
/// Enough on a busy machine.
const LONG: Nanos = Nanos(60_000_000_000);

/// A loop: `body`, then a jump back over it.
fn looping(id: u32, body: &[u8], record: &str) -> Block {
    let mut bytes = body.to_vec();
    let back = -(body.len() as i64 + 5);
    bytes.push(0xe9);
    bytes.extend((back as i32).to_le_bytes());
    let piece = CodePiece {
        address: RemoteAddr(0x5555_5555_5000),
        module: ModuleId(0),
        offset: FileOffset(0x1000),
        bytes,
    };
    Block {
        id: BlockId(id),
        pid: Pid(1),
        flavour: BurstFlavour::Trace,
        pieces: vec![piece],
        record: record.to_owned(),
    }
}

/// The same with a jump to other code.
fn onwards(id: u32, body: &[u8], record: &str) -> Block {
    let mut block = looping(id, body, record);
    let bytes = &mut block.pieces[0].bytes;
    let distance = bytes.len() - 4;
    bytes[distance..].copy_from_slice(&64i32.to_le_bytes());
    block
}

fn records(records: &[(u32, u64, &[u64])]) -> Fact {
    let mut encoder = RecordEncoder::new();
    for (block, iterations, values) in records {
        encoder.push(&Record { block: BlockId(*block), way: 0, iterations: *iterations, values });
    }
    Fact::Records(Records { burst: BurstId(0), bytes: encoder.finish() })
}

/// No-miss times of the loops; `None` where such a process is not allowed.
fn measured(blocks: &[Block], pieces: &[Fact]) -> Option<Vec<NoMissTime>> {
    let mut loops = HotCode::default();
    pieces.iter().for_each(|piece| loops.note(piece));
    match loops.measure(blocks, TICK, LONG, &mut |_| {}) {
        Ok(no_miss_times) => {
            Some(no_miss_times.core.into_iter().filter(|one| one.path.is_none()).collect())
        }
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn least(no_miss: &NoMissTime) -> u64 {
    match &no_miss.outcome {
        NoMissOutcome::Measured(time) => time.low.0,
        NoMissOutcome::Refused(why) => panic!("block {}: {why}", no_miss.block),
    }
}

const PLAIN: &str = "words 1; ways 2";

/// The times of two blocks, as soon as `right` takes them; on a machine that is too busy for that, none.
fn times(
    blocks: &[Block; 2],
    pieces: &[Fact],
    right: impl Fn(u64, u64) -> bool,
) -> Option<Vec<NoMissTime>> {
    const TRIES: usize = 5;
    let mut last = (0, 0);
    for _ in 0..TRIES {
        let no_miss_times = measured(blocks, pieces)?;
        last = (least(&no_miss_times[0]), least(&no_miss_times[1]));
        if right(last.0, last.1) {
            return Some(no_miss_times);
        }
    }
    println!("skipped: the machine is too busy to time loops ({} and {} ps)", last.0, last.1);
    None
}

#[test]
fn a_longer_chain_takes_longer() {
    let imul = [0x48, 0x0f, 0xaf, 0xc0]; // imul rax, rax
    let blocks = [looping(3, &imul.repeat(16), PLAIN), looping(4, &imul.repeat(4), PLAIN)];
    let pieces = [records(&[(3, 10, &[]), (4, 20, &[])])];
    let right = |long, short| long > 2 * short && long < 8 * short;
    let Some(no_miss_times) = times(&blocks, &pieces, right) else { return };
    // 16 imuls and a jump, ten times, are more work than 4 and a jump, twenty times.
    assert_eq!(no_miss_times.iter().map(|one| one.block.0).collect::<Vec<_>>(), [3, 4]);
}

/// The same loop over neighbours and over pages of its own costs the same: nothing is far.
#[test]
fn distance_does_not_matter() {
    let sum = |stride: u8| [0x48, 0x03, 0x07, 0x48, 0x81, 0xc7, 0, stride, 0, 0]; // add rax, [rdi]; add rdi, 256 x stride
    let record = "words 2; values rdi@0:1; ways 3";
    let blocks = [looping(0, &sum(0), record), looping(1, &sum(0x40), record)];
    let at = [0x7f12_3456_7000];
    let pieces = [records(&[(0, 2, &at), (1, 1, &at)])];
    let Some(no_miss_times) = times(&blocks, &pieces, |near, far| far < 3 * near) else { return };
    assert!(
        no_miss_times[1].iterations < no_miss_times[0].iterations,
        "fewer iterations touch fewer pages"
    );
}

/// A sample in the block at this offset.
fn sampled(offset: u64, registers: &[(usize, u64)]) -> Fact {
    let mut general = [0; GENERAL_REGISTERS];
    registers.iter().for_each(|(number, value)| general[*number] = *value);
    let place = SampledPlace {
        module: ModuleId(0),
        offset: FileOffset(0x1000 + offset),
        address: RemoteAddr(0x5555_5555_5000 + offset),
        registers: registers.iter().fold(0, |mask, (number, _)| mask | 1 << number),
        slots: Vec::new(),
        frame: SampledFrame::Own,
    };
    let mut encoder = RegisterEncoder::default();
    encoder.push(&SampledState {
        time: Nanos(1),
        cpu_time: None,
        place: &place,
        registers: &general,
        slots: &[],
    });
    let (time, samples, bytes) = (Nanos(1), encoder.samples(), encoder.finish());
    Fact::SampleRegisters(SampleRegisters { time, pid: Pid(1), tid: Tid(1), samples, bytes })
}

/// movsxd rax, [rdi]; imul rax, rbx; shr rax, 60; add rdi, 4; inc dword [rdx + rax * 4]
const HASH: [u8; 18] = [
    0x48, 0x63, 7, 0x48, 0xf, 0xaf, 0xc3, 0x48, 0xc1, 0xe8, 60, 0x48, 0x83, 0xc7, 4, 0xff, 4, 0x82,
];
const OF_HASH: &str = "words 4; values rdi@0:1 rdx@4:2 rax@4:3; ways 6";
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[test]
fn samples_tell_registers_that_records_leave_out() {
    let block = looping(0, &HASH, OF_HASH);
    let (rax, rbx, rdi) = (0, 3, 7);
    let mut code = HotCode::default();
    code.note(&records(&[(0, 1, &[0x7000, 0x9000, 5])]));
    code.note(&sampled(7, &[(rax, 77), (rbx, FACTOR), (rdi, 0x7004)]));
    let states = SampledStates::decoded(code.registers.iter().map(Vec::as_slice));
    let blocks = [block];
    let hottest = code.hottest(&blocks, &states);
    let state = hottest[0].code.start(&hottest[0].longest.values[0], 1);
    // rax and rdi change in the block; the record has rdi, and nothing has rcx.
    assert_eq!([0, rbx, rdi, 1].map(|number| state.general[number]), [1, FACTOR, 0x7000, 1]);
}

/// Sixteen slots in turn do not wait for each other's stores; one slot all the time does.
#[test]
fn slots_of_a_hash_are_those_of_the_records() {
    let blocks = [looping(0, &HASH, OF_HASH), looping(1, &HASH, OF_HASH)];
    let values: Vec<[u64; 3]> =
        (0..256).map(|turn| [0x7f12_0000_0000 + 4 * turn, 0x7f13_0000_0000, turn % 16]).collect();
    let same: Vec<[u64; 3]> = values.iter().map(|[at, table, _]| [*at, *table, 3]).collect();
    fn of(block: u32, values: &[[u64; 3]]) -> Vec<(u32, u64, &[u64])> {
        values.iter().map(|values| (block, 1, &values[..])).collect()
    }
    let pieces = [sampled(7, &[(3, FACTOR)]), records(&of(0, &values)), records(&of(1, &same))];
    times(&blocks, &pieces, |in_turn, one| 2 * in_turn < one);
}

/// Pointers that no content of memory gives, in a chain of loads and without one: an addition brings them to what was recorded, and
/// keeps the chain.
#[test]
fn what_memory_does_not_explain_is_added() {
    // popcnt rax, rcx; mov rcx, [rax]     popcnt rax, [rdi]; mov rcx, [rax]
    let chain = [0xf3, 0x48, 0x0f, 0xb8, 0xc1, 0x48, 0x8b, 0x08];
    let free = [0xf3, 0x48, 0x0f, 0xb8, 0x07, 0x48, 0x8b, 0x08];
    let record = "words 2; values rax@1:1; ways 3";
    let blocks = [looping(0, &chain, record), looping(1, &free, record)];
    let values: Vec<[u64; 1]> = (0..256).map(|turn| [0x7f12_0000_0000 + 64 * turn]).collect();
    let of = |block| values.iter().map(move |values| (block, 1, &values[..])).collect::<Vec<_>>();
    let pieces = [records(&of(0)), records(&of(1))];
    let Some(no_miss_times) = times(&blocks, &pieces, |chain, free| chain > 2 * free) else {
        return;
    };
    for one in no_miss_times {
        let NoMissOutcome::Measured(time) = one.outcome else { panic!("{one:?}") };
        assert!(time.low <= time.median && time.median <= time.high, "{time:?}");
    }
}

/// A loop that loads an index and adds to the word there, in two runs. The second is the longer one.
#[test]
fn the_longest_run_of_a_loop_tells_its_addresses() {
    let count = [0x0f, 0xb6, 7, 0x48, 0x83, 0xc7, 1, 0x83, 4, 0x85, 0, 0, 0, 0x10, 1];
    let blocks = [looping(0, &count, "words 3; values rdi@0:1 rax@1:2; ways 4"), {
        let pause = [0x90];
        looping(1, &pause, PLAIN)
    }];
    let text = 0x7f12_3456_7000;
    let first: (u32, u64, &[u64]) = (0, 1, &[text, 3]);
    let pause: (u32, u64, &[u64]) = (1, 1, &[]);
    let second: [(u32, u64, &[u64]); 3] =
        [(0, 1, &[text + 8, 5]), (0, 1, &[text + 9, 6]), (0, 1, &[text + 10, 7])];
    let mut code = HotCode::default();
    code.note(&records(&[&[first, pause], &second[..]].concat()));
    let hottest = code.hottest(&blocks, &SampledStates::default());
    let values = &hottest.iter().find(|one| one.id == BlockId(0)).unwrap().longest.values;
    assert_eq!(values, &second.map(|(_, _, values)| values.to_vec()));
    let seen = hottest[0].code.seen(&values[1]);
    let plain: Vec<_> =
        seen.iter().map(|one| (one.register.to_string(), one.at, one.value)).collect();
    assert_eq!(plain, [("rdi".to_owned(), 0, text + 9), ("rax".to_owned(), 1, 6)]);
}

/// A loop that counts in memory, and one that counts in a register.
#[test]
fn a_loop_that_loads_again_what_it_stored_is_timed_with_a_register_too() {
    let record = "words 2; values rdi@0:1; ways 3";
    let loads = [0x48, 0x83, 7, 1, 0x48, 0x89, 0x47, 0x40]; // add qword [rdi], 1; mov [rdi + 64], rax
    let holds = [0x48, 0x83, 0xc0, 1, 0x48, 0x89, 0x47, 0x40]; // add rax, 1; mov [rdi + 64], rax
    let blocks = [looping(0, &loads, record), looping(1, &holds, record)];
    let mut code = HotCode::default();
    let at = [0x7f12_3456_7000];
    code.note(&records(&[(0, 20, &at), (1, 10, &at)]));
    match code.measure(&blocks, TICK, LONG, &mut |_| {}) {
        Ok(no_miss_times) => {
            let of = |kept: &facts::NoReloadTime| (kept.block.0, kept.low <= kept.high);
            assert_eq!(no_miss_times.kept.iter().map(of).collect::<Vec<_>>(), [(0, true)]);
        }
        Err(error) => println!("skipped: {error}"),
    }
}

#[test]
fn copies_are_fewer_where_loads_may_wait_for_stores() {
    let mut reader = Reader::new();
    let mut loads = |body: &[u8]| {
        let block = looping(0, body, PLAIN);
        Code::read(&block, &mut reader).expect("code").loads_if_it_stores()
    };
    let load = [0x48, 0x8b, 7]; // mov rax, [rdi]
    assert_eq!(loads(&load), 0);
    assert_eq!(loads(&[&load[..], &load, &[0x48, 0x89, 7]].concat()), 2); // mov [rdi], rax
    assert_eq!(loads(&[&load[..], &[0x48, 1, 7]].concat()), 2); // add [rdi], rax
}

#[test]
fn what_cannot_be_timed_says_why() {
    // movnti [rdi], rax     xor ecx, ecx; div ecx     mov rax, [rdi] with an address that is none
    let blocks = [
        looping(0, &[0x48, 0x0f, 0xc3, 0x07], "words 1; ways 2"),
        looping(1, &[0x31, 0xc9, 0xf7, 0xf1], "words 1; ways 2"),
        looping(2, &[0x48, 0x8b, 0x07], "words 2; values rdi@0:1; ways 2"),
    ];
    let executed = records(&[(0, 9, &[]), (1, 5, &[]), (2, 3, &[1 << 63])]);
    let Some(no_miss_times) = measured(&blocks, &[executed]) else { return };
    let why = |no_miss: &NoMissTime| match &no_miss.outcome {
        NoMissOutcome::Measured(time) => panic!("{time:?}"),
        NoMissOutcome::Refused(why) => why.clone(),
    };
    let expected = [
        "bypasses the caches on purpose",
        "it ends by signal 8",
        "it touches 0x0, where nothing can be mapped",
    ];
    assert_eq!(no_miss_times.iter().map(why).collect::<Vec<_>>(), expected);
}

/// A loop of two blocks, the second of which calls what no block follows.
#[test]
fn a_path_through_blocks_is_timed() {
    let imul = [0x48, 0x0f, 0xaf, 0xc0].repeat(10);
    let there = looping(0, &imul, "words 1; ways 10 10"); // its jump back is not taken
    let back = looping(1, &[0x48, 0x8b, 0x43, 8], "words 1; ways 1 1"); // mov rax, [rbx + 8]
    let lap = [(0, 1, &[][..]), (1, 1, &[][..])].repeat(200);
    let mut code = HotCode::default();
    code.note(&records(&lap));
    let by_id = HashMap::from([(there.id, &there), (back.id, &back)]);
    let paths = paths::draw(&code.pieces, &by_id, &HashSet::new(), 2, &mut code.random);
    let processor = match Processor::measure(TICK) {
        Ok(processor) => processor,
        Err(error) => return println!("skipped: {error}"),
    };
    for path in &paths {
        let no_miss = path
            .no_miss((&by_id, &SampledStates::default()), (processor, Nanos(0)), true)
            .expect("there is such a process");
        let no_miss = no_miss.expect("its code can be read");
        let path = no_miss.path.expect("a path");
        assert!(no_miss.resolution.is_some_and(|one| one.blocks > 1), "{no_miss:?}");
        assert!(path.instructions < 600 && least(&no_miss) > 0, "{no_miss:?}");
    }
    assert!(!paths.is_empty());
    let at_once = [1, 2].map(|most| processor.at_once(most).expect("there is such a process"));
    assert!(at_once[0] == 1 && at_once[1] <= 2, "{at_once:?}");
}

/// A hundred multiplications in a chain that begins anew in each block, or none of which waits for another.
#[test]
fn branches_wait_for_chains() {
    let processor = match Processor::measure(TICK) {
        Ok(processor) => processor,
        Err(error) => return println!("skipped: {error}"),
    };
    let resolution = |first: &[u8], other: &[u8]| {
        let body = [first, &other.repeat(60)].concat();
        let block = looping(0, &body, "words 1; ways 61 61");
        let mut code = HotCode::default();
        code.note(&records(&[(0, 1, &[][..]), (1, 1, &[][..])].repeat(200)));
        let back = looping(1, &[0x90], "words 1; ways 1 1");
        let by_id = HashMap::from([(block.id, &block), (back.id, &back)]);
        let paths = paths::draw(&code.pieces, &by_id, &HashSet::new(), 1, &mut code.random);
        let no_miss = paths[0]
            .no_miss((&by_id, &SampledStates::default()), (processor, Nanos(0)), true)
            .expect("there is such a process");
        let one = no_miss.and_then(|one| one.resolution).expect("it was fenced");
        one.time.0 / u64::from(one.blocks)
    };
    let begin = [0x48, 0x6b, 0xc3, 3]; // imul rax, rbx, 3
    let chain = resolution(&begin, &[0x48, 0x0f, 0xaf, 0xc0]); // imul rax, rax
    let free = resolution(&begin, &begin);
    // Some 120 cycles, and 3.
    assert!(chain > 3 * free, "{chain} {free}");
}

/// Ten times 16 multiplications in a chain, then other code; in long runs the chain does not end.
#[test]
fn a_loop_with_a_chain_that_ends_soon_is_part_of_paths() {
    let chain = [0x48, 0x0f, 0xaf, 0xc0].repeat(16); // imul rax, rax
    let free = [0x48, 0x6b, 0xc3, 3].repeat(16); // imul rax, rbx, 3
    let between = onwards(0, &[0x90], "words 1; ways 2");
    for (body, iterations, is_part) in
        [(&chain, 10, true), (&chain, 1000, false), (&free, 10, false)]
    {
        let blocks = [between.clone(), looping(3, body, "words 2; ways 17 17; iterations 1")];
        let lap = [(0, 1, &[][..]), (3, iterations, &[][..])].repeat(50);
        let Some(no_miss_times) = measured(&blocks, &[records(&lap)]) else { return };
        assert_eq!(no_miss_times.is_empty(), is_part, "{iterations}: {no_miss_times:?}");
    }
}

/// rdi is used in the second block only, which nothing before it changes; rsi is changed before.
#[test]
fn a_path_starts_with_the_registers_that_later_blocks_recorded() {
    let first = onwards(0, &[0x48, 0x89, 0xc6], "words 2; values rax@0:1; ways 2"); // mov rsi, rax
    let second = onwards(1, &[0x90], "words 3; values rdi@0:1 rsi@0:2; ways 2");
    let by_id = HashMap::from([(first.id, &first), (second.id, &second)]);
    let step = |block: u32, values: &[u64]| paths::Step {
        block: BlockId(block),
        executed: 2,
        values: values.to_vec(),
    };
    let steps = vec![step(0, &[5]), step(1, &[6, 7]), step(1, &[8, 9])];
    let path = Path { burst: BurstId(0), steps };
    let state = path.start(&path.codes(&by_id, &SampledStates::default()).expect("code"), 1);
    let [rax, rdi, rsi] = [0, 7, 6].map(|number: usize| state.general[number]);
    assert_eq!((rax, rdi, rsi), (5, 6, 1));
}

#[test]
fn the_same_path_is_timed_once() {
    let imul = [0x48, 0x0f, 0xaf, 0xc0].repeat(300);
    let blocks =
        [onwards(0, &imul, "words 1; ways 301"), onwards(1, &[0x90; 3], "words 1; ways 4")];
    let lap = [(0, 1, &[][..]), (1, 1, &[][..])].repeat(20);
    let mut code = HotCode::default();
    (0..3).for_each(|_| code.note(&records(&lap)));
    let Ok(no_miss_times) = code.measure(&blocks, TICK, LONG, &mut |_| {}) else {
        return println!("skipped: no process for timing code alone");
    };
    let paths: Vec<_> =
        no_miss_times.core.iter().filter(|no_miss| no_miss.path.is_some()).collect();
    let code = |no_miss: &NoMissTime| (no_miss.block, no_miss.path.map(|path| path.instructions));
    let outcomes: HashMap<_, _> = paths.iter().map(|one| (code(one), &one.outcome)).collect();
    assert!(paths.len() > outcomes.len(), "{paths:?}");
    assert!(paths.iter().all(|one| *outcomes[&code(one)] == one.outcome), "{paths:?}");
    assert_eq!(no_miss_times.left_out, 0);
}

#[test]
fn the_sample_is_bounded_and_what_never_ran_is_left_out() {
    let mut loops = HotCode::default();
    for number in 0..1000 {
        loops.note(&records(&[(number % 2, 1, &[])]));
    }
    assert_eq!(loops.pieces.len(), KEPT_PIECES);
    let blocks =
        [looping(0, &[0x90], PLAIN), looping(1, &[0x90], PLAIN), looping(2, &[0x90], PLAIN)];
    let hottest = loops.hottest(&blocks, &SampledStates::default());
    assert_eq!(hottest.len(), 2);
    assert_eq!(hottest.iter().map(|one| one.work).sum::<u64>(), 2 * KEPT_PIECES as u64);
}
