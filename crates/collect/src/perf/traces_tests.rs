//! Arm SPE on the simulated kernel: packets as the hardware writes them into the trace, next to the records of the kernel.
//!
//! What for: the whole way from the open to facts, with a trace that wraps around, is full, has gaps and collisions. What not: what
//! packets say (`crate::spe_tests`).

use std::os::unix::fs::FileExt;

use facts::Translation;
use sys::kernels::read_trace_clock;
use sys::perf::{Counting, Flag, fake_switched};

use super::*;

const SPE: u32 = 11;
/// `load_filter` and `store_filter`, `jitter`, `ts_enable`.
const CONFIG: u64 = 3 << 33 | 1 << 16 | 1;
const PERIOD: u64 = 1 << 20;
const OTHER: u64 = 701;
const FULL: u64 = 1;
const COLLISION: u64 = 8;
/// Offsets in `perf_event_mmap_page`.
const AUX_HEAD: u64 = 1056;
const AUX_TAIL: u64 = 1064;
const AUX_OFFSET: u64 = 1072;
const AUX_SIZE: u64 = 1080;

fn spe() -> Choice {
    Choice {
        sampled: Some(SampleRate::Period(PERIOD)),
        carries: Carried::SpeAccess,
        pmu: SPE,
        ..choice("arm_spe_0/load_filter=1,store_filter=1/", CONFIG)
    }
}

impl Simulated {
    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at).expect("a control page");
        u64::from_le_bytes(bytes)
    }

    /// Writes a part of the trace where the one before ended, and returns where that was.
    fn trace(&mut self, bytes: &[u8]) -> u64 {
        let (area, size) = (self.word(AUX_OFFSET), self.word(AUX_SIZE));
        let (head, tail) = (self.word(AUX_HEAD), self.word(AUX_TAIL));
        assert!(head + bytes.len() as u64 - tail <= size, "the hardware stops where it is full");
        let before_end = bytes.len().min((size - head % size) as usize);
        let (first, rest) = bytes.split_at(before_end);
        self.file.write_all_at(first, area + head % size).expect("a trace");
        self.file.write_all_at(rest, area).expect("a trace");
        let end = head + bytes.len() as u64;
        self.file.write_all_at(&end.to_le_bytes(), AUX_HEAD).expect("a control page");
        head
    }

    /// PERF_RECORD_AUX: `who` ran at the end of the part.
    fn announce(&mut self, (offset, bytes): (u64, usize), flags: u64, who: u64, time: u64) {
        let id = [who << 32 | who, time, 0, 1];
        self.record(11, &[&[offset, bytes as u64, flags][..], &id].concat());
    }

    /// PERF_RECORD_SWITCH without PERF_RECORD_MISC_SWITCH_OUT.
    fn comes(&mut self, who: u64, time: u64) {
        self.record(14, &[who << 32 | who, time, 0, 1]);
    }
}

/// A load at `ip` that took 40 cycles, 10 of them until its issue, missed L1 and hit L2 without a page walk; 64 bytes with their padding.
fn load(ip: u64, address: u64, ticks: u64) -> Vec<u8> {
    let mut bytes = vec![0xb0];
    bytes.extend(ip.to_le_bytes());
    bytes.extend([0x49, 0, 0x99, 10, 0, 0x98, 40, 0]);
    // Bits 1 to 4 and 19: retired, L1 access and refill, TLB access, L2 access; 4 bytes.
    bytes.push(0x62);
    bytes.extend((1_u32 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 19).to_le_bytes());
    bytes.push(0xb2);
    bytes.extend(address.to_le_bytes());
    bytes.resize(64 - 9, 0);
    bytes.push(0x71);
    bytes.extend(ticks.to_le_bytes());
    bytes
}

fn now() -> (u64, u64) {
    (read_trace_clock().expect("a counter"), sys::process::monotonic().0)
}

fn accesses(facts: &[Fact]) -> Vec<MemorySample> {
    let one = |fact: &Fact| match fact {
        Fact::MemorySample(sample) => Some(*sample),
        _ => None,
    };
    facts.iter().filter_map(one).collect()
}

fn owners(facts: &[Fact]) -> Vec<(i32, u64)> {
    accesses(facts).iter().map(|one| (one.pid.0, one.address.expect("an address").0)).collect()
}

#[test]
fn accesses_of_a_trace_are_of_who_ran_then() {
    let kernel: FakeOpen = |attr, target| {
        if attr.pmu() == SPE {
            // As the driver demands it.
            assert!(attr.is_traced() && !attr.has(Flag::Freq) && !attr.has(Flag::ExcludeIdle));
        }
        accept(attr, target)
    };
    let (facts, notes) = recorded(kernel, &[0], vec![spe()], |_| {
        on_event(id_of(SPE, CONFIG, 0), |event| {
            event.comes(PID, now().1);
            let first = load(0x40_1000, 0x7000, now().0);
            // Behind the clock of the last packet, so that no rounding puts it before.
            std::thread::sleep(std::time::Duration::from_millis(2));
            event.comes(OTHER, now().1);
            std::thread::sleep(std::time::Duration::from_millis(2));
            let second = load(0x40_2000, 0x8000, now().0);
            let whole = [first, second].concat();
            let at = event.trace(&whole);
            event.announce((at, whole.len()), 0, OTHER, now().1);
        });
    });
    assert_eq!(notes, [""; 0]);
    assert_eq!(owners(&facts), [(PID as i32, 0x7000), (OTHER as i32, 0x8000)]);
    let first = accesses(&facts)[0];
    assert_eq!((first.access, first.from), (AccessKind::Load, Some(DataSource::L2)));
    assert_eq!((first.latency, first.instruction_latency), (Some(30), Some(40)));
    assert_eq!((first.translation, first.weight), (Some(Translation::Hit), PERIOD));
    // Each is also a sample of the event; a count it has none, and no count of 0 either.
    let found: Vec<_> = counted(&facts).iter().map(|one| (one.event, one.weight)).collect();
    assert_eq!(found, [(0, PERIOD); 2]);
    assert_eq!(readings(&facts), []);
    assert_eq!(names(&facts).len(), 1);
}

#[test]
fn a_trace_that_wraps_around_is_put_together() {
    let mut tail = 0;
    let (facts, notes) = recorded_in_turns(accept, &[0], vec![spe()], 3, |_, turn| {
        on_event(id_of(SPE, CONFIG, 0), |event| {
            let size = event.word(AUX_SIZE) as usize;
            let part = match turn {
                // All but 40 bytes of the area is padding.
                0 => vec![0; size - 40],
                _ => load(0x40_1000, 0x7000 + u64::from(turn), now().0),
            };
            let at = event.trace(&part);
            event.announce((at, part.len()), 0, PID, now().1);
            tail = event.word(AUX_TAIL);
        });
    });
    assert_eq!((owners(&facts), notes.len()), (vec![(700, 0x7001), (700, 0x7002)], 0), "{notes:?}");
    // What was read belongs to the hardware again: seen in the last turn.
    assert_eq!(tail % 64, 24);
    assert!(tail > 40);
}

#[test]
fn what_a_trace_lacks_is_named_and_a_full_one_goes_on() {
    let (facts, notes) = recorded(accept, &[0], vec![spe()], |start| {
        let id = id_of(SPE, CONFIG, 0);
        on_event(id, |event| {
            let part = load(0x40_1000, 0x7000, now().0);
            let at = event.trace(&part);
            event.announce((at, part.len()), FULL, PID, now().1);
            let part = [load(0x40_1000, 0x7001, now().0), vec![0xff; 3]].concat();
            let at = event.trace(&part);
            event.announce((at, part.len()), COLLISION, PID, now().1);
            // The record of this part is lost.
            event.trace(&[0; 61]);
            event.record(2, &[&[id, 1][..], &identity(id, start + 5)].concat());
            let part = load(0x40_1000, 0x7002, now().0);
            let at = event.trace(&part);
            event.announce((at, part.len()), 0, PID, now().1);
            // A part that the trace does not have.
            event.announce((at + 64, 1 << 40), 0, PID, now().1);
        });
    });
    assert_eq!(owners(&facts), [(700, 0x7000), (700, 0x7001), (700, 0x7002)]);
    assert_eq!(lost(&facts), [(LostSource::Events, 1)]);
    let said = notes.join("\n");
    for part in [
        "was full 1 times",
        "1 parts of arm_spe_0/load_filter=1,store_filter=1/ have collisions",
        "the records that announce them were lost",
        "3 B of arm_spe_0/load_filter=1,store_filter=1/ are no packets",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_full_trace_is_switched_on_again() {
    for lost_record in [false, true] {
        let mut switched = Vec::new();
        recorded_in_turns(accept, &[0], vec![spe()], 2, |start, turn| {
            let id = id_of(SPE, CONFIG, 0);
            if turn == 1 {
                let again = fake_switched().into_iter().filter(|(one, _)| *one == id);
                switched = again.map(|(_, to)| to).collect();
                return;
            }
            let _ = fake_switched();
            on_event(id, |event| {
                let part = load(0x40_1000, 0x7000, now().0);
                let at = event.trace(&part);
                match lost_record {
                    false => event.announce((at, part.len()), FULL, PID, now().1),
                    true => event.record(2, &[&[id, 1][..], &identity(id, start + 5)].concat()),
                }
            });
        });
        assert_eq!(switched, [Counting::On], "{lost_record}");
    }
}

#[test]
fn a_cpu_without_spe_is_left_out_and_spe_of_another_tool_is_named() {
    let kernel: FakeOpen = |attr, target| match (attr.pmu(), target.cpu) {
        (SPE, Some(CpuId(1))) => refuse(ENOENT),
        _ => accept(attr, target),
    };
    let (facts, notes) = recorded(kernel, &[0, 1], vec![spe()], |_| {
        on_event(id_of(SPE, CONFIG, 0), |event| {
            let part = load(0x40_1000, 0x7000, now().0);
            let at = event.trace(&part);
            event.announce((at, part.len()), 0, PID, now().1);
        });
    });
    assert_eq!((owners(&facts), notes.len()), (vec![(700, 0x7000)], 0), "{notes:?}");
    let refused: FakeOpen = |attr, target| match attr.pmu() {
        SPE => refuse(EBUSY),
        _ => accept(attr, target),
    };
    let (facts, notes) = recorded(refused, &[0], vec![spe()], |_| {});
    assert!(accesses(&facts).is_empty());
    assert!(notes[0].contains("not sampled: arm_spe_0/"), "{notes:?}");
}
