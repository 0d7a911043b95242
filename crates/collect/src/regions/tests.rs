//! Regions of this very process, and of calls that are made up.

use base::{Bytes, Nanos, Pid, RemoteAddr, Tid};
use facts::{Fact, Region, RegionEnd, RegionKind};

use super::{MappedBy, MappingCall, Regions};

const ANONYMOUS: u32 = 0x22;

fn own() -> Pid {
    Pid(i32::try_from(std::process::id()).unwrap())
}

/// Ever later, and always due.
fn look(regions: &mut Regions, facts: &mut Vec<Fact>, seconds: u64) {
    let now = Nanos(seconds * 1_000_000_000);
    regions.look(now, now, facts).unwrap();
}

/// The last region before a time that holds an address, unless it ended.
fn region_at(facts: &[Fact], time: Nanos, address: u64) -> Option<&Region> {
    let mut found = None;
    for fact in facts {
        match fact {
            Fact::Region(region) if region.time <= time => {
                let inside = address.wrapping_sub(region.start.0) < region.bytes.0;
                found = if inside { Some(region) } else { found };
            }
            Fact::RegionEnd(RegionEnd { time: end, start, bytes, .. }) if *end <= time => {
                let inside = address.wrapping_sub(start.0) < bytes.0;
                found = if inside { None } else { found };
            }
            _ => {}
        }
    }
    found
}

#[test]
fn memory_that_comes_and_goes_is_found_by_looking() {
    let (mut regions, mut facts) = (Regions::default(), Vec::new());
    regions.thread_began(Nanos(0), own(), Tid(own().0));
    look(&mut regions, &mut facts, 1);
    // Beyond the largest threshold of glibc's malloc: a mapping of its own.
    let memory: Vec<u8> = vec![1; 80 << 20];
    let address = memory.as_ptr() as u64 + (40 << 20);
    look(&mut regions, &mut facts, 3);
    drop(memory);
    look(&mut regions, &mut facts, 5);
    let during = region_at(&facts, Nanos(2_000_000_000), address).unwrap();
    assert_eq!((during.kind, during.pid, during.stack), (RegionKind::Anonymous, own(), None));
    assert_eq!(during.time, Nanos(1_000_000_000));
    assert_eq!(region_at(&facts, Nanos(6_000_000_000), address), None);
    let code = look as *const () as u64;
    let here = region_at(&facts, Nanos(1_000_000_000), code).unwrap();
    assert_eq!(here.kind, RegionKind::File);
    let program = std::env::current_exe().unwrap();
    assert_eq!(here.name, program.to_string_lossy());
}

#[test]
fn what_stays_is_not_reported_again() {
    let (mut regions, mut facts) = (Regions::default(), Vec::new());
    // A process that stands still while it is looked at.
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = Pid(i32::try_from(child.id()).unwrap());
    std::thread::sleep(std::time::Duration::from_millis(200));
    regions.thread_began(Nanos(0), pid, Tid(pid.0));
    look(&mut regions, &mut facts, 1);
    // Pages are drawn anew with every look.
    let regions_of =
        |facts: &[Fact]| facts.iter().filter(|fact| !matches!(fact, Fact::Page(_))).count();
    let first = regions_of(&facts);
    look(&mut regions, &mut facts, 3);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(first > 5, "{facts:?}");
    assert_eq!(regions_of(&facts), first, "{facts:?}");
    // It has ended: that is not said.
    look(&mut regions, &mut facts, 5);
    assert_eq!(regions_of(&facts), first);
}

#[test]
fn reported_calls_come_with_their_caller_and_are_not_found_again() {
    let (mut regions, mut facts) = (Regions::default(), Vec::new());
    let (pid, tid) = (Pid(i32::MAX), Tid(7));
    regions.thread_began(Nanos(10), pid, tid);
    let call = |time, start, bytes| MappingCall {
        time: Nanos(time),
        pid,
        tid,
        start: RemoteAddr(start),
        bytes: Bytes(bytes),
        by: MappedBy::Mapping { flags: ANONYMOUS },
        stack: None,
    };
    // Before the process began: of the program before it.
    regions.mapped(call(9, 0x1000, 0x1000), &mut facts).unwrap();
    assert_eq!(facts, []);
    regions.mapped(call(20, 0x10_0000, 10), &mut facts).unwrap();
    let region = region_at(&facts, Nanos(20), 0x10_0fff).unwrap();
    assert_eq!((region.tid, region.bytes), (Some(tid), Bytes(0x1000)));
    for absurd in [call(20, u64::MAX - 10, 100), call(20, 0x1000, u64::MAX), call(20, 0x1000, 0)] {
        regions.mapped(absurd, &mut facts).unwrap();
        regions.unmapped(Nanos(21), pid, absurd.start, absurd.bytes, &mut facts).unwrap();
    }
    assert_eq!(facts.len(), 1);
    regions.unmapped(Nanos(30), pid, RemoteAddr(0x10_0000), Bytes(1), &mut facts).unwrap();
    assert_eq!(region_at(&facts, Nanos(29), 0x10_0000).map(|region| region.time), Some(Nanos(20)));
    assert_eq!(region_at(&facts, Nanos(30), 0x10_0000), None);
    regions.mapped(call(40, 0x10_0000, 0x3000), &mut facts).unwrap();
    regions.executed(Nanos(50), pid, &mut facts).unwrap();
    assert_eq!(region_at(&facts, Nanos(50), 0x10_0000), None);
}

/// A reading says nothing about calls after it, even if these are reported before it is compared.
#[test]
fn a_reading_is_compared_before_later_calls() {
    let (mut regions, mut facts) = (Regions::default(), Vec::new());
    regions.thread_began(Nanos(0), own(), Tid(own().0));
    // Beyond the largest threshold of glibc's malloc: a mapping of its own.
    let memory: Vec<u8> = vec![1; 80 << 20];
    let there = memory.as_ptr() as u64 + (40 << 20);
    regions.look(Nanos(100), Nanos(50), &mut facts).unwrap();
    let nowhere = RemoteAddr(0x1000);
    let call = MappingCall {
        time: Nanos(110),
        pid: own(),
        tid: Tid(own().0),
        start: nowhere,
        bytes: Bytes(0x1000),
        by: MappedBy::Mapping { flags: ANONYMOUS },
        stack: None,
    };
    regions.mapped(call, &mut facts).unwrap();
    let page = RemoteAddr(there & !0xfff);
    regions.unmapped(Nanos(120), own(), page, Bytes(0x1000), &mut facts).unwrap();
    regions.look(Nanos(130), Nanos(125), &mut facts).unwrap();
    assert_eq!(
        region_at(&facts, Nanos(125), nowhere.0).map(|region| region.time),
        Some(Nanos(110))
    );
    assert!(region_at(&facts, Nanos(119), page.0).is_some());
    assert_eq!(region_at(&facts, Nanos(125), page.0), None);
}

#[test]
fn a_thread_has_its_stack() {
    let (mut regions, mut facts) = (Regions::default(), Vec::new());
    let tid = Tid(1_000_000_000);
    let (to_main, from_thread) = std::sync::mpsc::channel();
    let (to_thread, from_main) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let local = 0u64;
        to_main.send(std::ptr::from_ref(&local) as u64).unwrap();
        from_main.recv().unwrap_or_default();
    });
    let pointer = from_thread.recv().unwrap();
    regions.thread_began(Nanos(0), own(), Tid(own().0));
    regions.thread_began(Nanos(5), own(), tid);
    look(&mut regions, &mut facts, 1);
    regions.stack_pointer(own(), tid, RemoteAddr(pointer));
    look(&mut regions, &mut facts, 3);
    look(&mut regions, &mut facts, 5);
    drop(to_thread);
    thread.join().unwrap();
    let stacks: Vec<&Region> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::Region(region) if region.tid == Some(tid) => Some(region),
            _ => None,
        })
        .collect();
    let [stack] = stacks[..] else { panic!("{stacks:?}") };
    assert_eq!((stack.kind, stack.time), (RegionKind::Stack, Nanos(5)));
    assert!(pointer.wrapping_sub(stack.start.0) < stack.bytes.0);
}
