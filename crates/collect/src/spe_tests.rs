//! Packets of real machines, and what perf's decoder says of them; operations made of them.

use super::*;

/// Bytes as the fixtures and the manual write them.
fn bytes(hexadecimal: &str) -> Vec<u8> {
    hexadecimal.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect(byte)).collect()
}

/// Neoverse N1 and an unknown core.
const N1: Option<u64> = Some(0x413f_d0c1);
const OTHER: Option<u64> = Some(0x480f_d010);

/// A packet in perf's words, without what follows the first number.
fn in_words(packet: Packet) -> String {
    match packet {
        Packet::Padding => "PAD".to_owned(),
        Packet::End => "END".to_owned(),
        Packet::Time(ticks) => format!("TS {ticks}"),
        Packet::Address(index, word) => {
            let name = ["PC", "TGT", "VA", "PA", "PBT"][usize::from(index)];
            // perf prints the lower 56 bits, of a virtual address all.
            let word = if index == 2 { word } else { word & ((1 << 56) - 1) };
            format!("{name} {word:#x}")
        }
        Packet::Cycles(index, cycles) => {
            format!("LAT {cycles} {}", ["TOT", "ISSUE", "XLAT"][usize::from(index)])
        }
        Packet::Context(number) => format!("CONTEXT {number:#x}"),
        Packet::Operation(1, word) => if word & 1 == 1 { "ST" } else { "LD" }.to_owned(),
        Packet::Operation(2, _) => "B".to_owned(),
        Packet::Operation(..) => "OTHER".to_owned(),
        Packet::Events(_) => "EV".to_owned(),
        Packet::Source(number) => format!("DATA-SOURCE {number}"),
    }
}

#[test]
fn packets_of_real_machines_are_what_perf_says() {
    let Some(path) = testkit::fixtures::fixture("arm-spe-packets/spe-packets.txt") else { return };
    let text = std::fs::read_to_string(path).expect("a text");
    let mut seen = 0;
    for (hexadecimal, said) in text.lines().filter_map(|line| line.split_once('\t')) {
        let bytes = bytes(hexadecimal);
        let operations = Operations::new(&bytes, 0);
        let (packet, size) = operations.packet().expect(hexadecimal);
        let is_padding = packet == Packet::Padding;
        assert!(is_padding || size == bytes.len(), "{hexadecimal}: {size}");
        // Two lines have other notations: an address without 0x, events without EV.
        let said = said.replace("PA f3babd50", "PA 0xf3babd50").replace("TGT 0 ", "TGT 0x0 ");
        let said = if said.starts_with("RETIRED") { "EV".to_owned() } else { said };
        let found = in_words(packet);
        assert!(said == found || said.starts_with(&format!("{found} ")), "{said} is not {found}");
        seen += 1;
    }
    // Its README counts 74 packets.
    assert!(seen >= 60, "{seen}");
}

/// Records A0, A1 and B1 of the fixture, and C0 with a program counter.
const LOAD: &str = "b0 d0 c2 a1 ed 66 ba ff c0 00 00 00 00 00 65 80 5f 00 00 49 00 52 16 00 99 04 00 98 0c 00 \
                    b2 28 6b 09 03 37 0e ff 00 9a 01 00 43 00 00 00 71 2e 65 2f 6a 0a 00 00 00";
const BRANCH: &str = "b0 e0 b0 ef ed 66 ba ff c0 65 0e 00 00 00 4a 01 52 42 00 99 10 00 98 11 00 \
                      b1 e4 b0 ef ed 66 ba ff c0 71 8d 65 2f 6a 0a 00 00 00";
const ENDED: &str = "b0 e0 43 21 bf fd 7f 00 80 4a 01 52 02 00 99 27 00 98 28 00 01";
const FAR: &str = "b0 00 b6 a9 e4 aa aa 00 80 49 00 52 1e 03 99 51 01 98 f5 01 b2 50 9e d7 f1 3e 40 ff 00 9a 01 00 \
                   b3 50 9e d7 71 3f 40 00 80 43 0c 00 71 b3 9a e9 bd 3e 07 00 00";

#[test]
fn operations_have_what_their_packets_say() {
    let all = bytes(&[LOAD, BRANCH, ENDED, FAR].join(" "));
    let mut operations = Operations::new(&all, 0);
    let found: Vec<Operation> = operations.by_ref().collect();
    assert_eq!((found.len(), operations.bad), (4, 0));
    let load = found[0];
    assert_eq!((load.time, load.context), (Some(44_731_163_950), Some(0x5f80)));
    assert_eq!((load.ip, load.in_kernel), (0xffff_ba66_eda1_c2d0, true));
    let access = load.access(N1).expect("a load");
    assert_eq!((access.kind, access.from), (AccessKind::Load, Some(DataSource::L1)));
    // 12 cycles in total, 4 of them until issue.
    assert_eq!((access.latency, access.instruction_latency), (Some(8), Some(12)));
    assert_eq!(access.address, Some(RemoteAddr(0xffff_0e37_0309_6b28)));
    assert_eq!((access.translation, access.snoop), (Some(Translation::Hit), None));
    assert!(found[1].access(N1).is_none() && found[2].access(N1).is_none());
    assert_eq!((found[2].time, found[2].ip, found[2].in_kernel), (None, 0x7ffd_bf21_43e0, false));
    let far = found[3].access(N1).expect("a load");
    // Another cluster gave it; without knowing the core, it missed the last level.
    assert_eq!((far.from, far.snoop), (Some(DataSource::L3), Some(Snoop::Peer)));
    assert_eq!(found[3].access(OTHER).expect("a load").from, Some(DataSource::BeyondL3));
    assert_eq!((far.latency, found[3].in_kernel), (Some(164), false));
    assert_eq!(far.address, Some(RemoteAddr(0xffff_403e_f1d7_9e50)));
}

fn of(hexadecimal: &str) -> Operation {
    let bytes = bytes(&format!("{hexadecimal} 01"));
    Operations::new(&bytes, 0).next().expect("an operation")
}

#[test]
fn sources_events_and_kinds_are_distinguished() {
    let source = |number: &str| of(&format!("49 00 43 {number}")).access(N1).expect("a load").from;
    let expected = [
        ("08", Some(DataSource::L2)),
        ("0b", Some(DataSource::L3)),
        ("0d", Some(DataSource::RemoteCache)),
        ("0e", Some(DataSource::Dram)),
        ("07", None),
    ];
    for (number, from) in expected {
        assert_eq!(source(number), from, "{number}");
    }
    // Events of 4 bytes: level 2, then modified in another cache, then recently fetched.
    let of_events = |bits: u32| {
        let [a, b, c, d] = bits.to_le_bytes();
        of(&format!("49 00 62 {a:02x} {b:02x} {c:02x} {d:02x}")).access(OTHER).expect("a load")
    };
    assert_eq!(of_events(1 << 2 | 1 << 3 | 1 << 19).from, Some(DataSource::L2));
    assert_eq!(of_events(1 << 19 | 1 << 20).from, Some(DataSource::BeyondL2));
    assert_eq!(of_events(1 << 8).from, Some(DataSource::L3));
    assert_eq!(of_events(1 << 3 | 1 << 22).from, Some(DataSource::FillBuffer));
    assert_eq!(of_events(1 << 21 | 1 << 23).snoop, Some(Snoop::Modified));
    assert_eq!(of_events(1 << 23).snoop, Some(Snoop::Hit));
    assert_eq!(of_events(1 << 4 | 1 << 5).translation, Some(Translation::Walk));
    // ST GP-REG; LD AT AR; LD of an exclusive; anything else.
    let kind = |byte: &str| of(byte).access(N1).map(|access| (access.kind, access.locked));
    assert_eq!(kind("49 01"), Some((AccessKind::Store, Some(false))));
    assert_eq!(kind("49 16"), Some((AccessKind::LoadStore, Some(true))));
    assert_eq!(kind("49 0a"), Some((AccessKind::Load, Some(false))));
    assert_eq!(kind("48 00"), None);
    // A store has no source on these cores, and no latency of data.
    let store = of("49 01 43 0e 98 20 00 99 10 00").access(N1).expect("a store");
    assert_eq!((store.from, store.latency, store.instruction_latency), (None, None, Some(32)));
    assert!(of("49 00 98 ff 0f").is_saturated());
}

#[test]
fn padding_aligns_and_bad_bytes_cut_off_their_operation() {
    // 0x20 to 0x23 with 0x00: to the next multiple of 2 to 16, counted from the start of the trace.
    let aligned = bytes("23 00 ee ee ee ee ee ee ee ee ee ee ee ee ee ee 49 00 01");
    let mut operations = Operations::new(&aligned, 64);
    assert!(operations.next().is_some_and(|one| one.access(N1).is_some()));
    assert_eq!(operations.bad, 0);
    // A reserved head; the load before it is cut off, that behind it is whole.
    let cut = bytes("49 00 ff 49 01 01");
    let mut operations = Operations::new(&cut, 0);
    let found: Vec<Operation> = operations.by_ref().collect();
    assert_eq!((found.len(), operations.bad), (1, 1));
    assert_eq!(found[0].access(N1).map(|access| access.kind), Some(AccessKind::Store));
    // Cut within a packet, at each byte: no panic, and nothing of the last operation.
    let whole = bytes(LOAD);
    for length in 0..whole.len() {
        assert_eq!(Operations::new(&whole[..length], 0).count(), 0, "{length}");
    }
    // Any byte at the front.
    for first in 0..=255 {
        for second in [0, 0x49, 0xb2, 0xff] {
            let _ = Operations::new(&[first, second, 1, 2, 3, 4], 7).count();
        }
    }
}
