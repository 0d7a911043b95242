//! Words and registers of real machines, and what perf or AMD's toolkit says of them.

use super::*;

fn of(word: u64) -> Access {
    let body = SampleParts { data_source: Some(word), ..SampleParts::default() };
    access(&body, false).expect("an access")
}

#[test]
fn words_of_a_skylake_server_mean_what_perf_says() {
    // The words of intel-pebs-skx-weightstruct; "SNP None|TLB L1 or L2 hit|LCK No" of `perf script` 6.1.
    let levels = [
        (0x118_6810_0242, DataSource::FillBuffer),
        (0x102_6810_0142, DataSource::L1),
        (0x104_6810_0442, DataSource::L2),
        (0x106_6810_0842, DataSource::L3),
    ];
    for (word, level) in levels {
        let access = of(word);
        assert_eq!((access.kind, access.from), (AccessKind::Load, Some(level)), "{word:#x}");
        assert_eq!(access.snoop, Some(Snoop::None), "{word:#x}");
        assert_eq!(access.translation, Some(Translation::Hit), "{word:#x}");
        assert_eq!(access.locked, Some(false), "{word:#x}");
    }
    assert_eq!(of(0x106_5010_0842).translation, Some(Translation::Walk));
    assert_eq!(of(0x102_6a10_0142).locked, Some(true));
}

/// `P(OP, LOAD) | P(LVL, ..) ..` of arch/x86/events/intel/ds.c, and of amd/ibs.c with hops.
#[test]
fn far_sources_are_distinguished() {
    let word = |level: u64, number: u64, remote: u64, hops: u64, snoop: u64| {
        2 | (level | 2) << 5 | snoop << 19 | number << 33 | remote << 37 | hops << 43
    };
    let source = |word| (of(word).from, of(word).snoop);
    let modified = Some(Snoop::Modified);
    assert_eq!(source(word(0x400, 3, 1, 0, 0x10)), (Some(DataSource::RemoteCache), modified));
    assert_eq!(source(word(0x40, 3, 0, 0, 0x10)), (Some(DataSource::L3), modified));
    assert_eq!(source(word(0x80, 0xd, 0, 0, 4)).0, Some(DataSource::Dram));
    assert_eq!(source(word(0x100, 0xd, 1, 0, 8)).0, Some(DataSource::RemoteDram));
    assert_eq!(source(word(0x100, 3, 1, 0, 4)).0, Some(DataSource::RemoteDram));
    // Before Linux 4.14 there were no numbers.
    assert_eq!(source(word(0x200, 0, 0, 0, 0)).0, Some(DataSource::RemoteDram));
    assert_eq!(source(word(0x80, 0, 0, 0, 0)).0, Some(DataSource::Dram));
    assert_eq!(source(word(0, 0xb, 1, 1, 0)).0, Some(DataSource::L3));
    assert_eq!(source(word(0, 0xb, 1, 3, 0)).0, Some(DataSource::RemoteCache));
    assert_eq!(source(word(0, 9, 0, 0, 0)).0, Some(DataSource::Cxl));
    assert_eq!(source(word(0, 0xe, 0, 0, 0)).0, Some(DataSource::Persistent));
    // A store that missed L1: `P(OP, STORE) | P(LVL, MISS) | P(LVL, L1)`.
    let store = of(4 | (4 | 8) << 5);
    assert_eq!((store.kind, store.from), (AccessKind::Store, Some(DataSource::BeyondL1)));
    // Neither load nor store.
    let none = SampleParts { data_source: Some(1), ..SampleParts::default() };
    assert_eq!(access(&none, false), None);
}

#[test]
fn weights_are_latencies_unless_they_are_zero() {
    let with = |weight| {
        let body =
            SampleParts { data_source: Some(2), weight: Some(weight), ..SampleParts::default() };
        let access = access(&body, false).expect("a load");
        (access.latency, access.instruction_latency)
    };
    assert_eq!(with(Weight::Parts(70, 95)), (Some(70), Some(95)));
    assert_eq!(with(Weight::Whole(249)), (Some(249), None));
    assert_eq!(with(Weight::Whole(0)), (None, None));
}

/// The columns of the toolkit's table, put into registers and read back.
#[test]
fn registers_of_ibs_tell_what_the_toolkit_tells() {
    let Some(path) = testkit::fixtures::fixture("amd-ibs-csv-memgaze/ibs_annotated_op-1k.csv")
    else {
        return;
    };
    let text = std::fs::read_to_string(path).expect("a text");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("names").split(',').collect();
    let mut counts = [0; 6];
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |name: &str| {
            let at = names.iter().position(|one| *one == name).expect(name);
            let cell = cells.get(at).copied().unwrap_or("0");
            match cell.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).unwrap_or(0),
                None => cell.parse::<u64>().unwrap_or(0),
            }
        };
        let access_bits = [
            ("IbsLdOp", 0),
            ("IbsStOp", 1),
            ("IbsDcL1tlbMiss", 2),
            ("IbsDcL2TlbMiss", 3),
            ("IbsDcMiss", 7),
            ("IbsDcUcMemAcc", 14),
            ("IbsDcLockedOp", 15),
            ("DcMissNoMabAlloc", 16),
            ("IbsDcLinAddrValid", 17),
            ("IbsL2Miss", 20),
            ("IbsSwPf", 21),
            ("IbsDcMissLat", 32),
        ];
        let data3 = access_bits.iter().fold(0, |word, (name, bit)| word | number(name) << bit);
        let registers =
            [0, number("IbsOpRip"), number("IbsTagToRetCtr") << 16, 0, data3, number("IbsDcLinAd")];
        let mut raw = 0x3ff_u32.to_le_bytes().to_vec();
        raw.extend(registers.iter().flat_map(|register| register.to_le_bytes()));
        let body = SampleParts { raw: &raw, ..SampleParts::default() };
        let found = access(&body, true);
        let (loads, stores) = (number("IbsLdOp") == 1, number("IbsStOp") == 1);
        assert_eq!(found.is_some(), loads || stores, "{line}");
        let Some(found) = found else { continue };
        counts[0] += usize::from(loads);
        counts[1] += usize::from(stores);
        let valid = number("IbsDcLinAddrValid") == 1;
        assert_eq!(found.address, valid.then(|| RemoteAddr(number("IbsDcLinAd"))), "{line}");
        counts[2] += usize::from(found.address.is_some());
        let missed = number("IbsDcMiss") == 1;
        assert_eq!(found.from == Some(DataSource::L1), !missed, "{line}");
        counts[3] += usize::from(missed);
        let walk = number("IbsDcL1tlbMiss") == 1 && valid;
        let slow = matches!(found.translation, Some(Translation::L2 | Translation::Walk));
        assert_eq!(slow, walk, "{line}");
        counts[4] += usize::from(slow);
        counts[5] += usize::from(found.latency.is_some());
    }
    // Its README: 116 loads, 71 stores, 11 misses of L1 of at most 11 cycles. 12 are both.
    assert_eq!((counts[0], counts[1], counts[3]), (116, 71, 11), "{counts:?}");
    assert!(counts[2] > 150 && counts[4] <= 6 && counts[5] <= 11, "{counts:?}");
}
