//! Blocks of this test's own code in memory of no program: links, chains of the table, what a stop means.

use base::Pid;

use super::*;

/// A cache near this program's code, and that code.
fn cache() -> (Cache, CodeMap) {
    cache_of(BurstFlavour::Trace)
}

fn cache_of(flavour: BurstFlavour) -> (Cache, CodeMap) {
    let pid = Pid(std::process::id().cast_signed());
    let code = CodeMap::read(pid, false);
    let path =
        std::env::temp_dir().join(format!("fathom-cache-{pid}-{:?}", std::thread::current().id()));
    let file =
        std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path);
    let file = file.expect("a temporary file");
    std::fs::remove_file(&path).expect("the file is ours");
    let at = RemoteAddr((own_code().0 & !0xfff) + (64 << 20));
    let space = Space::without_program(pid, &file, at);
    (Cache::new(space, flavour, NativeAddresses::default()), code)
}

/// A field of a block, and the address behind it.
fn field<const BYTES: usize>(cache: &Cache, block: u32, field: usize) -> ([u8; BYTES], u64) {
    let block = cache.block(block).expect("a block");
    let region = &cache.space.regions()[block.region];
    let at = block.parts.address(field).0;
    let byte = |byte: usize| {
        let offset = region.offset + (at - region.at.0) as usize + byte;
        let word = cache.space.memory().load_u64(offset & !7).expect("within the region");
        word.to_le_bytes()[offset % 8]
    };
    (std::array::from_fn(byte), at + BYTES as u64)
}

/// Where a rel32 of a block leads.
fn target(cache: &Cache, block: u32, at: usize) -> u64 {
    let (bytes, behind) = field(cache, block, at);
    behind.wrapping_add_signed(i64::from(i32::from_le_bytes(bytes)))
}

/// Where a block leads a thread that came from the table for another one.
fn chain(cache: &Cache, block: u32) -> u64 {
    let at = cache.block(block).expect("a block").chain;
    u64::from_le_bytes(field(cache, block, at).0)
}

/// Executable parts of libc.
fn libc() -> impl Iterator<Item = std::ops::Range<u64>> {
    let text = tracee::maps::read(Pid(std::process::id().cast_signed()));
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.contains(" r-xp ") && line.contains("/libc.so"))
        .filter_map(tracee::maps::parse_line)
        .map(|line| line.start.0..line.end.0)
        .collect();
    lines.into_iter()
}

fn table(cache: &Cache, bucket: u64) -> u64 {
    let offset = area::TABLE as usize + 8 * (bucket & 0xffff) as usize;
    cache.space.memory().load_u64(offset).expect("within the table")
}

/// A function with calls and branches.
fn own_code() -> RemoteAddr {
    RemoteAddr(cache_of as fn(BurstFlavour) -> (Cache, CodeMap) as usize as u64)
}

/// A function with branches and no calls.
fn branches() -> RemoteAddr {
    RemoteAddr(iterations as fn(u64, u64, u64, bool) -> u64 as usize as u64)
}

#[test]
fn exits_lead_to_blocks_whichever_came_first() {
    let (mut cache, code) = cache();
    let mut next = 10;
    let functions = [
        own_code().0,
        CodeMap::read as fn(Pid, bool) -> CodeMap as usize as u64,
        CodeMap::update as fn(&mut CodeMap) -> bool as usize as u64,
        crate::drain::drain as fn(&crate::drain::Raw) -> crate::drain::Drained as usize as u64,
        Cache::clear as fn(&mut Cache) as usize as u64,
        Cache::take_counts as fn(&mut Cache) -> Counts as usize as u64,
        branches().0,
    ];
    for function in functions.map(RemoteAddr) {
        cache.enter(&code, function, &mut next).expect("our own code");
        cache.translate_ahead(&code, function, 30, &mut next);
    }
    cache.translate_waiting(&code, 200, &mut next);
    assert!(cache.blocks.len() >= 5, "{} blocks", cache.blocks.len());
    let mut linked = 0;
    for one in cache.exits.iter().filter(|one| one.exit.linkable) {
        let Some(to) = cache.by_start.get(&one.exit.target) else { continue };
        let to = cache.block(*to).expect("a block");
        assert_eq!(target(&cache, one.block, one.exit.link), to.parts.address(to.entry).0);
        linked += 1;
    }
    assert!(linked > 5, "{linked} exits lead to blocks");
    let new = cache.take_new_blocks();
    assert_eq!(new.len(), cache.blocks.len());
    assert!(new.iter().zip(10..).all(|(block, id)| block.id == BlockId(id)));
    assert!(cache.take_new_blocks().is_empty());
    // The same place again is the same block.
    let before = next;
    assert!(cache.enter(&code, own_code(), &mut next).is_ok() && next == before);
}

/// Blocks whose addresses agree in their low 16 bits share an entry of the table: one leads to the next, the last to the
/// tracer.
#[test]
fn blocks_of_one_table_entry_are_chained() {
    let (mut cache, code) = cache();
    let mut next = 0;
    let (from, miss) = (own_code().0, table(&cache, 0));
    let near: Vec<u64> = (0..64)
        .flat_map(|n: u64| [from + (n << 16), from.wrapping_sub((n + 1) << 16)])
        .filter(|at| cache.enter(&code, RemoteAddr(*at), &mut next).is_ok())
        .collect();
    assert!(near.len() > 2, "this program's code is longer than three times 64 KiB");
    let entry = |cache: &Cache, number: u32| {
        let block = cache.block(number).expect("a block");
        block.table_entry().0
    };
    let numbers: Vec<u32> = near.iter().map(|at| cache.by_start[&RemoteAddr(*at)]).collect();
    assert_eq!(table(&cache, from), entry(&cache, numbers[0]));
    for pair in numbers.windows(2) {
        assert_eq!(chain(&cache, pair[0]), entry(&cache, pair[1]));
    }
    let last = *numbers.last().expect("blocks");
    assert_eq!(chain(&cache, last), miss);
    // In another region, out of a rel32's reach.
    let same = |at: u64| (at & !0xffff) + (1 << 16) + (from & 0xffff);
    let far = libc().flat_map(|part| (same(part.start)..part.end).step_by(1 << 16));
    let far = far.map(RemoteAddr).find(|at| {
        if cache.needs_region(*at) {
            cache.space.add_region_in_no_program(RemoteAddr((at.0 & !0xfff) + (64 << 20)));
        }
        cache.enter(&code, *at, &mut next).is_ok()
    });
    match far {
        Some(far) => {
            let far = cache.by_start[&far];
            let region = |number| cache.block(number).expect("a block").region;
            assert_ne!(region(far), region(last));
            assert_eq!(chain(&cache, last), entry(&cache, far));
            assert!(
                entry(&cache, far).abs_diff(entry(&cache, last)) > 1 << 32,
                "libc is near this program"
            );
            assert_eq!(table(&cache, from), entry(&cache, numbers[0]));
        }
        None => println!("skipped: no libc of its own"),
    }
    cache.clear();
    assert_eq!(table(&cache, from), miss);
    assert!(cache.blocks.is_empty() && !cache.has(RemoteAddr(from)));
    // Numbers in records begin anew, ids in the result do not.
    assert!(cache.enter(&code, RemoteAddr(from), &mut next).is_ok());
    let layouts = cache.layouts();
    assert_eq!(layouts.read().expect("no panic")[0].0, BlockId(next - 1));
}

#[test]
fn what_is_no_code_is_refused() {
    let (mut cache, code) = cache();
    let data = Box::new(0u64);
    let data = RemoteAddr(std::ptr::from_ref(&*data) as u64);
    let mut next = 0;
    assert_eq!(cache.enter(&code, data, &mut next), Err(Refused::JitCode));
    assert_eq!((next, cache.blocks.len()), (0, 0));
    let far = RemoteAddr(cache.space.regions()[0].at.0 + REACH + 1);
    assert!(cache.needs_region(far) && !cache.needs_region(own_code()));
    assert!(!cache.is_full());
}

#[test]
fn counters_say_how_often_blocks_were_entered() {
    let (mut cache, code) = cache_of(BurstFlavour::Count);
    let mut next = 20;
    cache.enter(&code, branches(), &mut next).expect("our own code");
    cache.translate_ahead(&code, branches(), 4, &mut next);
    assert!(cache.blocks.len() >= 4, "{} blocks", cache.blocks.len());
    assert!(cache.take_counts().entered.is_empty());
    let slot = |number: i32| area::COUNTERS + 8 * number;
    let start = cache.space.slot(slot(0));
    let starts: Vec<RemoteAddr> = cache.blocks.iter().map(|block| block.start).collect();
    // Entered three times; left in front of its first instruction; written over by the program.
    for (number, left) in [(0, start - 3), (1, 0), (2, u64::MAX)] {
        cache.space.set_slot(slot(number), left);
    }
    assert!(cache.has_used_up(starts[1]) && !cache.has_used_up(starts[0]));
    let counts = cache.take_counts();
    assert_eq!(counts.entered, [(BlockId(20), 3), (BlockId(21), start - 1)]);
    assert!(counts.damaged);
    let anew = cache.take_counts();
    assert!(anew.entered.is_empty() && !anew.damaged && !cache.has_used_up(starts[1]));
}

/// A count or a timed load needs the basic blocks of what a trace ran, and nothing else.
#[test]
fn a_superblock_knows_its_basic_blocks() {
    let (mut traced, code) = cache();
    let mut next = 0;
    traced.enter(&code, own_code(), &mut next).expect("our own code");
    let starts = traced.basic_blocks(&[0, 0, 99]);
    assert!(starts.contains(&own_code()));
    let (mut counted, code) = cache_of(BurstFlavour::Count);
    counted.translate_all(&code, &starts, 1, &mut next);
    assert_eq!(counted.blocks.len(), 1);
    counted.translate_all(&code, &starts, 1000, &mut next);
    assert_eq!(counted.blocks.len(), starts.len());
    assert!(starts.iter().all(|start| counted.has(*start)));
}

/// What a window ran is translated for traces where a thread will come to it, and nowhere else.
#[test]
fn traces_are_translated_where_windows_came() {
    let (mut counted, code) = cache_of(BurstFlavour::Count);
    let mut next = 0;
    counted.enter(&code, own_code(), &mut next).expect("our own code");
    counted.translate_ahead(&code, own_code(), 30, &mut next);
    assert!(counted.came_to().is_empty(), "nothing ran");
    let few = 8.min(counted.blocks.len());
    for number in 0..few as u32 {
        let slot = area::COUNTERS + 8 * number as i32;
        counted.space.set_slot(slot, counted.space.slot(slot) - 1);
    }
    counted.take_counts();
    let came_to = counted.came_to();
    assert_eq!(came_to.len(), few);
    assert!(came_to.contains(&(own_code(), false)), "no jump leads to where the thread began");
    let (mut traced, code) = cache();
    traced.translate_reached(&code, &came_to, 1, &mut next);
    assert_eq!(traced.blocks.len(), 1);
    traced.translate_reached(&code, &came_to, 100, &mut next);
    let starts: Vec<RemoteAddr> = came_to.iter().map(|(start, _)| *start).collect();
    assert!(traced.blocks.iter().all(|block| starts.contains(&block.start)));
    let left = |(start, jumped): &(RemoteAddr, bool)| {
        !traced.has(*start) && (!jumped || traced.waiting.contains_key(start))
    };
    assert!(!came_to.iter().any(left), "{} blocks", traced.blocks.len());
}
