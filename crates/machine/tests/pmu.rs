//! Faked trees of `/sys/bus/event_source/devices`, with the lines that kernels write for real processors.
//!
//! What not: trees of real machines: no collection that we know has these files.

use std::collections::BTreeMap;

use machine::events::resolve;
use machine::pmu::{Bits, Pmu, PmuKind, Rights, pmus, rights};
use machine::traffic_events::traffic_events;

/// `PMU/FILE TEXT` per line.
fn tree(text: &str) -> BTreeMap<String, String> {
    let file = |line: &str| {
        let (path, content) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        (format!("/sys/bus/event_source/devices/{path}"), format!("{content}\n"))
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(file).collect()
}

fn named<'a>(all: &'a [Pmu], name: &str) -> &'a Pmu {
    all.iter().find(|pmu| pmu.name == name).expect(name)
}

const SERVER: &str = "
    cpu/type 4
    cpu/format/event config:0-7
    cpu/format/umask config:8-15
    cpu/format/ldlat config1:0-15
    cpu/events/mem-loads event=0xcd,umask=0x1,ldlat=3
    cpu/events/cpu-cycles event=0x3c
    cpu/events/topdown-retiring event=0x00,umask=0x80
    cpu/caps/branches 32
    cpu/caps/max_precise 3
    uncore_imc_0/type 13
    uncore_imc_0/cpumask 0,28
    uncore_imc_0/events/cas_count_read event=0x04,umask=0x03
    uncore_imc_0/events/cas_count_read.scale 6.103515625e-5
    uncore_imc_0/events/cas_count_read.unit MiB
    uncore_upi_0/type 19
    uncore_cha_7/type 33
    power/type 9
    power/cpumask 0,28
    power/events/energy-pkg event=0x02
    power/events/energy-pkg.scale 2.3283064365386962890625e-10
    power/events/energy-pkg.unit Joules
    intel_pt/type 8
    msr/type 14
    software/type 1
";

#[test]
fn events_by_name() {
    let all = pmus(&tree(SERVER));
    let code = |name: &str| resolve(name, &all).map(|code| (code.pmu, code.config));
    assert_eq!(code("instructions"), Some((0, [1, 0, 0])));
    assert_eq!(code("page-faults"), Some((1, [2, 0, 0])));
    assert_eq!(code("cpu/mem-loads/"), Some((4, [0x1cd, 3, 0])));
    assert_eq!(code("cpu/event=0x3c,umask=0x2,ldlat=30/"), Some((4, [0x23c, 30, 0])));
    assert_eq!(code("cpu/config=0x1cd,config1=3/"), Some((4, [0x1cd, 3, 0])));
    for wrong in ["", "/", "cpu//", "cpu/event=0x100/", "cpu/nothing/", "gpu/event=1/", "cycle"] {
        assert_eq!(code(wrong), None, "{wrong}");
    }
    let only_in_kernel = |name| resolve(name, &all).is_some_and(|code| code.only_in_kernel);
    assert!(only_in_kernel("context-switches") && !only_in_kernel("cycles"));
}

#[test]
fn a_server_with_memory_controllers() {
    let all = pmus(&tree(SERVER));
    let cpu = named(&all, "cpu");
    assert_eq!((cpu.number, cpu.kind, &cpu.cpus), (4, PmuKind::Core, &None));
    assert_eq!((cpu.capability("branches"), cpu.capability("max_precise")), (Some(32), Some(3)));
    assert!(cpu.has_field("ldlat") && !cpu.has_field("cnt_ctl"));
    let ldlat = cpu.fields.iter().find(|field| field.name == "ldlat").expect("a field");
    assert_eq!(ldlat.bits, [Bits { word: 1, first: 0, last: 15 }]);
    let loads = cpu.events.iter().find(|event| event.name == "mem-loads").expect("an event");
    let term = |name: &str, value| (name.to_owned(), Some(value));
    assert_eq!(loads.terms, [term("event", 0xcd), term("umask", 1), term("ldlat", 3)]);
    let controller = named(&all, "uncore_imc_0");
    assert_eq!(
        (controller.kind, &controller.cpus),
        (PmuKind::MemoryController, &Some(vec![0, 28]))
    );
    let [read] = controller.events.as_slice() else { panic!("one event") };
    assert_eq!((read.scale, read.unit.as_deref()), (Some(6.103_515_625e-5), Some("MiB")));
    let kinds: Vec<(&str, PmuKind)> = all.iter().map(|pmu| (pmu.name.as_str(), pmu.kind)).collect();
    let expected = [
        ("cpu", PmuKind::Core),
        ("uncore_imc_0", PmuKind::MemoryController),
        ("uncore_cha_7", PmuKind::SharedCache),
        ("uncore_upi_0", PmuKind::Link),
        ("power", PmuKind::Power),
        ("intel_pt", PmuKind::Trace),
        ("msr", PmuKind::Registers),
        ("software", PmuKind::Other),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn hybrids_amd_and_arm() {
    let all = pmus(&tree(
        "
        cpu_core/type 4
        cpu_core/cpus 0-11
        cpu_atom/type 10
        cpu_atom/cpus 12-19
        ibs_op/type 11
        ibs_op/format/cnt_ctl config:19
        ibs_op/caps/zen4_ibs_extensions 1
        amd_df/type 13
        amd_umc_0/type 14
        amd_l3/type 12
        armv8_pmuv3_0/type 8
        arm_spe_0/type 9
        arm_spe_0/cpumask 0-63
        arm_spe_0/format/min_latency config2:0-11
        arm_cmn_0/type 15
        ",
    ));
    assert_eq!(named(&all, "cpu_core").cpus, Some((0..12).collect()));
    assert_eq!(named(&all, "cpu_atom").kind, PmuKind::Core);
    assert_eq!(named(&all, "ibs_op").capability("zen4_ibs_extensions"), Some(1));
    assert_eq!(named(&all, "arm_spe_0").kind, PmuKind::Spe);
    assert_eq!(named(&all, "arm_spe_0").fields[0].bits[0].word, 2);
    assert_eq!(named(&all, "armv8_pmuv3_0").kind, PmuKind::Core);
    assert_eq!(named(&all, "amd_umc_0").kind, PmuKind::MemoryController);
    assert!(
        named(&all, "amd_df").kind.is_of_machine() && named(&all, "arm_cmn_0").kind.is_of_machine()
    );
}

#[test]
fn what_is_no_description_is_left_out() {
    let all = pmus(&tree(
        "
        cpu/type 4
        cpu/cpumask 9-3
        cpu/format/event config:0-77
        cpu/format/umask nonsense
        cpu/format/far config9:0
        cpu/format/back config:7-0
        cpu/events/mem-loads event=zzz
        cpu/events/offcore event=0x1,any,filter=?
        cpu/events/scaled event=0x1
        cpu/events/scaled.scale inf
        broken/type four
        empty/format/event config:0
        ",
    ));
    let [cpu] = all.as_slice() else { panic!("one PMU: {all:?}") };
    assert_eq!((&cpu.cpus, &cpu.fields), (&None, &Vec::new()));
    let names: Vec<&str> = cpu.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["offcore", "scaled"]);
    assert_eq!(
        cpu.events[0].terms[1..],
        [("any".to_owned(), Some(1)), ("filter".to_owned(), None)]
    );
    assert_eq!(cpu.events[1].scale, None);
}

#[test]
fn settings_and_capabilities_decide() {
    let none = "CapEff:\t0000000000000000\n";
    let perfmon = "CapEff:\t0000004000000000\n";
    let of = |own, kernel, machine| Rights { own, kernel, machine };
    assert_eq!(rights("3\n", none), of(false, false, false));
    assert_eq!(rights("2\n", none), of(true, false, false));
    assert_eq!(rights("1\n", none), of(true, true, false));
    assert_eq!(rights("-1\n", none), of(true, true, true));
    assert_eq!(rights("4\n", perfmon), of(true, true, true));
    assert_eq!(rights("", ""), of(false, false, false));
}

/// The CPUs and PMUs of a two-socket Skylake-SP, a client, a Sapphire Rapids whose kernel names no events, a Zen 4, and a Nehalem.
#[test]
fn what_memory_controllers_count() {
    let of = |text: &str, cpu: &str| -> Vec<(&'static str, u32, u64, Vec<u32>, u32)> {
        traffic_events(&pmus(&tree(text)), cpu)
            .into_iter()
            .map(|one| {
                (one.traffic.name(), one.pmu, one.config[0], one.cpus, one.bytes_per_thousand)
            })
            .collect()
    };
    let fields = "format/event config:0-7
        NAME/format/umask config:8-15";
    let server = "
        NAME/type 13
        NAME/cpumask 0,28
        NAME/FIELDS
        NAME/events/cas_count_read event=0x04,umask=0x03
        NAME/events/cas_count_read.scale 6.103515625e-5
        NAME/events/cas_count_read.unit MiB
        NAME/events/cas_count_write event=0x04,umask=0x0c
        NAME/events/cas_count_write.scale 6.103515625e-5
        NAME/events/cas_count_write.unit MiB";
    let server = server.replace("FIELDS", fields).replace("NAME", "uncore_imc_0");
    let (read, write) = ("memory reads", "memory writes");
    assert_eq!(
        of(&server, "6/85/4"),
        [(read, 13, 0x304, vec![0, 28], 64_000), (write, 13, 0xc04, vec![0, 28], 64_000)]
    );
    let unnamed = "
        NAME/type 40
        NAME/cpumask 0
        NAME/FIELDS";
    let unnamed = unnamed.replace("FIELDS", fields).replace("NAME", "uncore_imc_3");
    let expected = [(read, 40, 0xcf05, vec![0], 64_000), (write, 40, 0xf005, vec![0], 64_000)];
    assert_eq!(of(&unnamed, "6/143/8"), expected);
    assert_eq!(of(&unnamed, "6/173/1").len(), 4);
    assert_eq!(of(&unnamed, "6/99/1"), []);
    let client = "
        uncore_imc_free_running/type 21
        uncore_imc_free_running/cpumask 0
        uncore_imc_free_running/format/event config:0-7
        uncore_imc_free_running/format/umask config:8-15
        uncore_imc_free_running/events/data_read event=0xff,umask=0x20
        uncore_imc_free_running/events/data_read.scale 6.103515625e-5
        uncore_imc_free_running/events/data_read.unit MiB
        uncore_imc_free_running/events/data_write event=0xff,umask=0x30
        uncore_imc_free_running/events/data_write.scale 6.103515625e-5
        uncore_imc_free_running/events/data_write.unit MiB";
    let expected = [(read, 21, 0x20ff, vec![0], 64_000), (write, 21, 0x30ff, vec![0], 64_000)];
    assert_eq!(of(&format!("{client}{server}"), "6/140/1"), expected);
    let umc = "
        amd_umc_0/type 14
        amd_umc_0/cpumask 0
        amd_umc_0/format/event config:0-7
        amd_umc_0/format/rdwrmask config:8-9";
    let expected = [(read, 14, 0x10a, vec![0], 64_000), (write, 14, 0x20a, vec![0], 64_000)];
    assert_eq!(of(umc, "25/97/2"), expected);
    let nehalem = "
        uncore/type 8
        uncore/cpumask 0
        uncore/format/event config:0-7
        uncore/format/umask config:8-15
        uncore/events/qmc_normal_reads_any event=0x2c,umask=0x0f
        uncore/events/qmc_writes_full_any event=0x2f,umask=0x0f";
    let expected = [(read, 8, 0xf2c, vec![0], 64_000), (write, 8, 0xf2f, vec![0], 64_000)];
    assert_eq!(of(nehalem, "6/26/5"), expected);
    // An energy meter is none, and a strange unit is not guessed at.
    assert_eq!(of(SERVER, "6/99/1"), []);
    assert_eq!(of(&server.replace("MiB", "Joules"), "6/99/1"), []);
}

/// A link is a PMU of its own at Intel, and at AMD some events of one PMU; a machine with one socket has none.
#[test]
fn what_links_between_sockets_count() {
    let of = |text: &str, cpu: &str| -> Vec<(Option<String>, &'static str, u64, u32)> {
        let found = traffic_events(&pmus(&tree(text)), cpu).into_iter();
        found
            .map(|one| (one.link, one.traffic.name(), one.config[0], one.bytes_per_thousand))
            .collect()
    };
    let upi = "
        uncore_upi_1/type 20
        uncore_upi_1/cpumask 0,28
        uncore_upi_1/format/event config:0-7
        uncore_upi_1/format/umask config:8-15";
    let link = || Some("UPI 1".to_owned());
    let expected = [
        (link(), "link sent", 0xf02, 7_111),
        (link(), "link received", 0xf03, 7_111),
        (link(), "link limit", 0x1, 17_778),
    ];
    assert_eq!(of(upi, "6/85/4"), expected);
    assert_eq!(of(&upi.replace("0,28", "0"), "6/85/4"), []);
    assert_eq!(of(upi, "6/99/4"), []);
    // The ninth bit of the event is bit 21.
    let qpi = "
        uncore_qpi_0/type 21
        uncore_qpi_0/cpumask 0,14
        uncore_qpi_0/format/event config:0-7,21
        uncore_qpi_0/format/umask config:8-15
        uncore_r3qpi_0/type 22
        uncore_r3qpi_0/cpumask 0,14
        uncore_r3qpi_0/format/event config:0-7
        uncore_r3qpi_0/format/umask config:8-15";
    let link = || Some("QPI 0".to_owned());
    let expected = [
        (link(), "link sent", 0x200, 8_000),
        (link(), "link received", 0x20_0802, 8_000),
        (link(), "link received", 0x20_0403, 8_000),
        (link(), "link limit", 0x14, 7_111),
    ];
    assert_eq!(of(qpi, "6/79/1"), expected);
    assert_eq!(of(qpi, "6/63/2"), expected);
    let expected = [
        (link(), "link sent", 0x200, 8_000),
        (link(), "link received", 0x201, 8_000),
        (link(), "link limit", 0x14, 14_222),
    ];
    assert_eq!(of(qpi, "6/62/4"), expected);
    assert_eq!(of(&qpi.replace("0,14", "0"), "6/79/1"), []);
    let fabric = "
        amd_df/type 11
        amd_df/cpumask 0,64
        amd_df/format/event config:0-7,EVENT
        amd_df/format/umask config:8-15,24-27";
    let rome = of(&fabric.replace("EVENT", "32-35,59-60"), "23/49/0");
    let zen2: Vec<_> =
        rome.iter().map(|(link, _, config, bytes)| (link.as_deref(), *config, *bytes)).collect();
    // 0x7c7 to 0x887, their high bits from bit 32 on.
    assert_eq!(
        zen2,
        [
            (Some("xGMI 0"), 0x7_0000_02c7, 32_000),
            (Some("xGMI 1"), 0x8_0000_0207, 32_000),
            (Some("xGMI 2"), 0x8_0000_0247, 32_000),
            (Some("xGMI 3"), 0x8_0000_0287, 32_000),
        ]
    );
    let newer = fabric.replace("EVENT", "32-37");
    let genoa = of(&newer, "25/17/1");
    assert_eq!(genoa.len(), 8);
    assert_eq!(genoa[7], (Some("xGMI 7".to_owned()), "link sent", 0xd_0f00_3e1f, 64_000));
    let turin = of(&newer, "26/2/1");
    assert_eq!(turin.len(), 12);
    assert_eq!(turin[11], (Some("xGMI 5".to_owned()), "link received", 0xe_0f00_3f9f, 64_000));
}
