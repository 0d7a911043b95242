//! Top-down trees against what others computed from the same counts: Intel's expanded formulas in Python, `perf stat` on Zen 4.

use std::process::Command;

use analysis::Profile;
use analysis::uarch::{NodeShare, ThresholdState, events_of_code, groups, tree, trees, walk_share};
use base::Nanos;
use facts::host::Host;
use facts::{CountedEvent, EventCount, Evidence, Metric, Recording};

fn host(vendor: &str, model: &str, two_threads: bool) -> Host {
    Host {
        vendor: vendor.to_owned(),
        family_model_stepping: model.to_owned(),
        cores: 4,
        logical_cpus: if two_threads { 8 } else { 4 },
        tsc_hz: Some(2.5e9),
        ..Host::default()
    }
}

/// A count, and the times for which its event was enabled and running.
type Reading = (u64, u64, u64);

/// Readings of events, each in a group of its own.
fn recording(host: Host, events: &[(&str, Vec<Reading>)]) -> Recording {
    let mut recording = Recording::default();
    recording.run.host = host;
    recording.run.elapsed_ns = 2_000_000_000;
    for ((name, readings), id) in events.iter().zip(0..) {
        let name = (*name).to_owned();
        recording.counted_events.push(CountedEvent {
            id,
            name,
            group: id,
            kernel: true,
            ..CountedEvent::default()
        });
        for ((count, enabled, running), at) in readings.iter().zip(1..) {
            let (enabled, running) = (Nanos(*enabled), Nanos(*running));
            let (time, event, count) = (Nanos(at * 100), id, *count);
            recording.event_counts.push(EventCount { time, event, count, enabled, running });
        }
    }
    recording
}

fn exact(host: Host, counts: &[(&str, u64)]) -> Vec<NodeShare> {
    let events: Vec<_> = counts.iter().map(|(name, count)| (*name, vec![(*count, 9, 9)])).collect();
    tree(&recording(host, &events)).expect("a tree").nodes
}

fn percent(nodes: &[NodeShare], name: &str) -> f64 {
    let node = nodes.iter().find(|node| node.name == name).expect(name);
    node.share.value.unwrap_or_else(|| panic!("{name}: {:?}", node.share.note))
}

fn model(cpu: &str) -> &'static str {
    match cpu {
        "HSW" => "6/60/3",
        "HSX" => "6/63/2",
        "BDW" => "6/61/4",
        "BDX" => "6/79/1",
        "SKL" => "6/158/9",
        "SKX" => "6/85/4",
        "CLX" => "6/85/7",
        "ICL" => "6/126/5",
        "TGL" => "6/140/1",
        "RKL" => "6/167/1",
        "ICX" => "6/106/6",
        "SPR" => "6/143/8",
        "EMR" => "6/207/2",
        "GNR" => "6/173/1",
        "ADL-P" => "6/151/2",
        "MTL-P" => "6/170/4",
        "LNL-P" => "6/189/1",
        "ARL-P" => "6/197/2",
        _ => panic!("{cpu}"),
    }
}

/// Compares every node of every line that `expected.py` wrote.
fn compare(text: &str) -> usize {
    let mut compared = 0;
    for line in text.lines() {
        let [cpu, two_threads, counts, expected] =
            line.split('\t').collect::<Vec<_>>().try_into().expect("four fields");
        let counts: Vec<(&str, u64)> = counts
            .split(' ')
            .map(|one| one.rsplit_once(':').expect("a count"))
            .map(|(name, count)| (name, count.parse().expect("a number")))
            .collect();
        let nodes = exact(host("GenuineIntel", model(cpu), two_threads == "yes"), &counts);
        let expected: Vec<(&str, &str)> =
            expected.split(' ').map(|one| one.split_once('=').expect("a value")).collect();
        assert_eq!(nodes.len(), expected.len(), "{cpu}");
        for (name, value) in expected {
            let node = nodes.iter().find(|node| node.name == name).expect(name);
            compared += 1;
            let Some((value, over)) = value.split_once(':') else {
                let none = node.share.value.is_none() && node.share.note.is_some();
                assert!(none && node.over.is_none(), "{cpu} {name}: {:?}", node.share);
                continue;
            };
            let value: f64 = value.parse().expect("a number");
            let ours = percent(&nodes, name);
            let close = (ours - value).abs() <= 1e-9 * value.abs().max(1.0);
            assert!(close, "{cpu} {name}: {ours}, not {value}");
            // Python's answer is no where an ancestor has no value.
            let ours = node.over.unwrap_or(ThresholdState::No);
            assert_eq!(ours.name(), over, "{cpu} {name}");
        }
    }
    compared
}

#[test]
fn each_node_is_what_intels_expanded_formulas_give() {
    assert!(compare(include_str!("drawn.tsv")) > 270);
}

#[test]
fn the_same_for_fresh_draws_of_all_processors() {
    let Some(archive) = testkit::fixtures::fixture("tables-intel-perfmon/intel-perfmon.tar.xz")
    else {
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/uarch/expected.py");
    for seed in 1..=5 {
        let output =
            Command::new("python3").arg(script).arg(&archive).arg(seed.to_string()).output();
        let Ok(output) = output else {
            println!("skipped: there is no python3");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(compare(&String::from_utf8(output.stdout).expect("text")) > 1_000);
    }
}

/// `perf stat -M PipelineL2` on a Zen 4: its counts, and the shares that it prints, to a tenth of a percent. It counts
/// cycles and operations once per group; here they are those of the group of each node.
#[test]
fn zen_4_as_perf_stat_prints_it() {
    let of = |counts: &[(&str, u64)]| exact(host("AuthenticAMD", "25/97/2", true), counts);
    let near = |nodes: &[NodeShare], name: &str, printed: f64| {
        let ours = percent(nodes, name);
        assert!((ours - printed).abs() < 0.051, "{name}: {ours}, not {printed}");
    };
    let speculation = of(&[
        ("ex_ret_brn_misp", 814_218),
        ("de_src_op_disp.all", 9_921_123_378),
        ("resyncs_or_nc_redirects", 246_735),
        ("ls_not_halted_cyc", 6_030_318_824),
        ("ex_ret_ops", 9_843_884_025),
    ]);
    near(&speculation, "bad_speculation_mispredicts", 0.2);
    near(&speculation, "bad_speculation_pipeline_restarts", 0.0);
    let back_end = of(&[
        ("ex_no_retire.load_not_complete", 1_135_809_742),
        ("de_no_dispatch_per_slot.backend_stalls", 24_978_838_963),
        ("ex_no_retire.not_complete", 3_754_491_199),
        ("ls_not_halted_cyc", 6_029_000_003),
    ]);
    near(&back_end, "backend_bound_cpu", 48.2);
    near(&back_end, "backend_bound_memory", 20.9);
    let retiring = of(&[
        ("ex_ret_ucode_ops", 3_322_489),
        ("ls_not_halted_cyc", 6_031_507_226),
        ("ex_ret_ops", 9_837_312_981),
    ]);
    near(&retiring, "retiring_fastpath", 27.2);
    near(&retiring, "retiring_microcode", 0.0);
    let front_end = of(&[
        ("de_no_dispatch_per_slot.no_ops_from_frontend", 1_015_643_532),
        ("de_no_dispatch_per_slot.no_ops_from_frontend:c6", 66_285_441),
        ("ls_not_halted_cyc", 6_032_942_046),
    ]);
    near(&front_end, "frontend_bound_bandwidth", 1.7);
    near(&front_end, "frontend_bound_latency", 1.1);
    // AMD gives no thresholds.
    assert!(front_end.iter().all(|node| node.over.is_none()));
}

/// By hand: 8 slots a cycle.
#[test]
fn zen_5_by_hand() {
    let nodes = exact(
        host("AuthenticAMD", "26/2/1", true),
        &[
            ("ls_not_halted_cyc", 1_000),
            ("de_no_dispatch_per_slot.no_ops_from_frontend", 800),
            ("de_no_dispatch_per_slot.no_ops_from_frontend:c8", 60),
            ("de_src_op_disp.all", 2_400),
            ("ex_ret_ops", 2_000),
            ("ex_ret_brn_misp", 30),
            ("bp_redirects.resync", 10),
            ("de_no_dispatch_per_slot.backend_stalls", 4_000),
            ("ex_no_retire.load_not_complete", 300),
            ("ex_no_retire.not_complete", 400),
            ("de_no_dispatch_per_slot.smt_contention", 800),
            ("ex_ret_ucode_ops", 200),
        ],
    );
    let expected = [
        ("frontend_bound", 10.0),
        ("frontend_bound_latency", 6.0),
        ("frontend_bound_bandwidth", 4.0),
        ("bad_speculation", 5.0),
        ("bad_speculation_mispredicts", 3.75),
        ("bad_speculation_pipeline_restarts", 1.25),
        ("backend_bound", 50.0),
        ("backend_bound_memory", 37.5),
        ("backend_bound_cpu", 12.5),
        ("smt_contention", 10.0),
        ("retiring", 25.0),
        ("retiring_fastpath", 22.5),
        ("retiring_microcode", 2.5),
    ];
    assert_eq!(nodes.len(), expected.len());
    for (name, share) in expected {
        assert!((percent(&nodes, name) - share).abs() < 1e-9, "{name}");
    }
    let path: Vec<_> = nodes.iter().map(|node| node.path.join("/")).collect();
    assert_eq!(path[8], "Back-End Bound/Back-End Bound: CPU");
}

/// Where counters took turns, shares have an interval, and what the readings do not decide is not decided.
#[test]
fn turns_give_intervals() {
    let spread = |mean: u64, by: u64| -> Vec<(u64, u64, u64)> {
        (0..20).map(|at| ((mean + by * (base::mixed(at) % 3)) / 4, 100, 25)).collect()
    };
    let host = host("AuthenticAMD", "25/17/1", true);
    let with = |stalls| {
        let cycles = ("ls_not_halted_cyc", vec![(1_000, 100, 100); 20]);
        let events = [cycles, ("de_no_dispatch_per_slot.backend_stalls", stalls)];
        let nodes = tree(&recording(host.clone(), &events)).expect("a tree").nodes;
        nodes.into_iter().find(|node| node.name == "backend_bound").expect("it").share
    };
    let share = with(spread(2_400, 600));
    let (value, low, high) = (share.value.unwrap(), share.low.unwrap(), share.high.unwrap());
    assert!(low < value - 0.5 && value + 0.5 < high && high < value * 1.3, "{low} {value} {high}");
    assert_eq!(share.evidence, Some(Evidence::Estimated));
    let share = with(vec![(600, 100, 25)]);
    assert!(share.value.is_some() && share.low.is_none(), "one reading: {share:?}");
    let share = with(vec![(0, 100, 0)]);
    let note = "no counter was free for de_no_dispatch_per_slot.backend_stalls";
    assert_eq!((share.value, share.note.as_deref()), (None, Some(note)));
}

/// A fifth of the cycles had a walk for a load, a tenth one for a store: at least the former, at most both.
#[test]
fn page_walks_are_a_share_of_the_cycles() {
    let of = |events: &[(&str, Vec<Reading>)]| {
        let recording = recording(host("GenuineIntel", "6/85/4", false), events);
        walk_share(&Profile::new(&recording))
    };
    let whole = |count| vec![(count, 100, 100); 4];
    let cycles = ("cpu_clk_unhalted.thread", whole(10_000));
    let loads = ("DTLB_LOAD_MISSES.WALK_ACTIVE", whole(2_000));
    let stores = ("dtlb_store_misses.walk_active:u", whole(1_000));
    let ends = |one: &Metric| [one.value, one.low, one.high].map(|end| end.map(f64::round));
    let share = of(&[cycles.clone(), loads.clone(), stores.clone()]).expect("a share");
    assert_eq!(ends(&share), [30.0, 20.0, 30.0].map(Some));
    assert_eq!((share.evidence, share.unit.as_str()), (Some(Evidence::Counted), "percent"));
    let share = of(&[cycles.clone(), loads.clone()]).expect("a share");
    assert_eq!(
        (ends(&share), share.evidence),
        ([Some(20.0), Some(20.0), None], Some(Evidence::Counted))
    );
    // One event of both, as the Core microarchitecture has; and likwid's names.
    let both = [("PAGE_WALKS_D_SIDE_CYCLES", whole(500)), ("CPU_CLK_UNHALTED_CORE", whole(1_000))];
    assert_eq!(ends(&of(&both).expect("a share")), [50.0; 3].map(Some));
    let turns =
        ("dtlb_load_misses.walk_active", vec![(500, 100, 50), (1_100, 100, 50), (900, 100, 50)]);
    let share = of(&[cycles.clone(), turns, stores]).expect("a share");
    assert_eq!(share.evidence, Some(Evidence::Estimated));
    assert!(share.low < share.value && share.high >= share.value, "{share:?}");
    let alone = ("dtlb_load_misses.walk_active", vec![(500, 100, 50)]);
    let share = of(&[cycles.clone(), alone]).expect("a share");
    assert_eq!(share.low.or(share.high), None, "one reading: {share:?}");
    let none = ("dtlb_load_misses.walk_active", vec![(0, 100, 0)]);
    let share = of(&[cycles.clone(), none]).expect("a reason");
    assert!(
        share.value.is_none() && share.note.expect("a note").starts_with("no counter was free")
    );
    let dead = of(&[("cycles", whole(0)), loads]).expect("a reason");
    assert!(dead.value.is_none() && dead.note.is_some());
    assert_eq!(of(&[cycles]), None);
}

/// A virtual machine's PMU that takes all events and counts none: there is no tree of zeros.
#[test]
fn a_pmu_that_does_not_count_has_no_shares() {
    let zeros = || vec![(0, 100_000_000, 100_000_000); 2];
    let names = ["cycles", "de_no_dispatch_per_slot.backend_stalls", "ex_ret_ops"];
    let events = names.map(|name| (name, zeros()));
    let nodes = tree(&recording(host("AuthenticAMD", "25/17/1", true), &events)).expect("it").nodes;
    let known = |node: &&NodeShare| node.name == "backend_bound";
    let share = &nodes.iter().find(known).expect("a node").share;
    let why = share.note.as_deref().expect("a reason");
    assert!(share.value.is_none() && why.starts_with("this PMU does not count"), "{why}");
    let walks = [
        ("cpu_clk_unhalted.thread:u", vec![(0, 100_000_000, 100_000_000)]),
        ("dtlb_load_misses.walk_active", zeros()),
    ];
    let recording = recording(host("GenuineIntel", "6/85/4", false), &walks);
    let share = walk_share(&Profile::new(&recording)).expect("a reason");
    let why = share.note.expect("a reason");
    assert!(share.value.is_none() && why.starts_with("this PMU does not count"), "{why}");
}

#[test]
fn a_threshold_within_the_interval_is_not_decided() {
    let readings = |mean: u64| -> Vec<(u64, u64, u64)> {
        (0..20).map(|at| (mean * 4 + mean * (base::mixed(at) % 3), 100, 25)).collect()
    };
    let over = |not_delivered| {
        let events = [
            ("idq_uops_not_delivered.core", not_delivered),
            ("cpu_clk_unhalted.thread", vec![(10_000, 100, 100); 20]),
        ];
        let nodes =
            tree(&recording(host("GenuineIntel", "6/85/4", false), &events)).expect("a tree");
        nodes.nodes[0].clone()
    };
    // 15 % of 4 slots a cycle.
    for (mean, expected) in
        [(200, ThresholdState::No), (300, ThresholdState::Perhaps), (500, ThresholdState::Yes)]
    {
        let node = over(readings(mean));
        assert_eq!((node.name, node.over), ("frontend_bound", Some(expected)), "{:?}", node.share);
    }
}

#[test]
fn groups_hold_each_event_once() {
    for (vendor, model) in
        [("GenuineIntel", "6/143/8"), ("GenuineIntel", "6/85/4"), ("AuthenticAMD", "25/17/1")]
    {
        let groups = groups(&host(vendor, model, true)).expect("a table");
        let mut names: Vec<&str> = groups.iter().flatten().map(|one| one.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(groups.iter().all(|group| (1..=9).contains(&group.len())));
        let slots = groups.iter().flatten().position(|one| one.name.starts_with("topdown.slots"));
        assert!(slots.is_none_or(|at| at == 0), "{groups:?}");
    }
    let none = groups(&host("GenuineIntel", "6/23/1", true)).expect_err("too old");
    assert!(none.contains("no table"), "{none}");
}

/// An Alder Lake: each kind of cores has a table and counts of its own, whose names begin with its PMU.
#[test]
fn kinds_of_cores_have_trees_of_their_own() {
    let mut host = host("GenuineIntel", "6/151/2", true);
    host.core_types = vec![("cpu_core".to_owned(), 8), ("cpu_atom".to_owned(), 8)];
    let groups = groups(&host).expect("tables");
    let pmus: Vec<&str> = groups.iter().flatten().map(|one| one.pmu).collect();
    assert!(pmus.contains(&"cpu_core") && pmus.contains(&"cpu_atom"));
    assert!(groups.iter().all(|group| group.iter().all(|one| one.pmu == group[0].pmu)));
    let of_code = events_of_code(&host).expect("tables");
    assert!(of_code.iter().all(|one| !one.name.contains("perf_metrics")));
    assert!(of_code.iter().any(|one| one.full_name() == "cpu_core/topdown.memory_bound_slots/"));
    let events = [
        ("cpu_core/topdown-retiring/", 300),
        ("cpu_core/topdown-bad-spec/", 100),
        ("cpu_core/topdown-fe-bound/", 200),
        ("cpu_core/topdown-be-bound/", 400),
        ("cpu_atom/cycles/", 100),
        ("cpu_atom/TOPDOWN_BE_BOUND.ALL/", 350),
        ("cpu_atom/topdown_retiring.all/", 50),
    ];
    let counted: Vec<_> =
        events.iter().map(|(name, count)| (*name, vec![(*count, 9, 9)])).collect();
    let trees = trees(&recording(host, &counted)).expect("two trees");
    let shown: Vec<_> = trees
        .iter()
        .map(|tree| (tree.cpu, tree.cores, percent(&tree.nodes, "backend_bound")))
        .collect();
    let expected = [("ADL-P", Some("performance"), 40.0), ("ADL-E", Some("efficient"), 70.0)];
    assert_eq!(shown, expected);
    let back_end = trees[1].nodes.iter().find(|node| node.name == "backend_bound").expect("it");
    assert_eq!(back_end.over, Some(ThresholdState::Yes));
    assert!((percent(&trees[1].nodes, "retiring") - 10.0).abs() < 1e-9);
}

/// Servers of efficient cores have one kind.
#[test]
fn a_sierra_forest_has_one_tree() {
    let nodes = exact(
        host("GenuineIntel", "6/175/3", false),
        &[
            ("cpu_clk_unhalted.core", 1_000),
            ("topdown_fe_bound.all_p", 600),
            ("topdown_be_bound.all_p", 3_000),
            ("topdown_be_bound.mem_scheduler", 1_800),
            ("topdown_be_bound.alloc_restrictions", 300),
            ("topdown_retiring.all_p", 2_100),
            ("topdown_bad_speculation.all_p", 300),
        ],
    );
    for (name, share, over) in [
        ("frontend_bound", 10.0, ThresholdState::No),
        ("backend_bound", 50.0, ThresholdState::Yes),
        ("resource_bound", 45.0, ThresholdState::Yes),
        ("mem_scheduler", 30.0, ThresholdState::Yes),
        ("retiring", 35.0, ThresholdState::No),
    ] {
        let node = nodes.iter().find(|node| node.name == name).expect(name);
        assert!((percent(&nodes, name) - share).abs() < 1e-9, "{name}");
        assert_eq!(node.over, Some(over), "{name}");
    }
}

fn of_arm(core: &str, counts: &[(&str, u64)]) -> Vec<NodeShare> {
    let host = Host { cpu: format!("Arm {core}"), ..host("Arm", "8/0x1/1", false) };
    exact(host, counts)
}

/// By hand, from the formulas that Arm publishes: 8 slots a cycle, 4 cycles of a wrong prediction; 5 slots and 1, 3 and 4 cycles.
#[test]
fn neoverse_cores_by_hand() {
    let counts = [
        ("cycles", 1_000_u64),
        ("op_retired", 1_800),
        ("op_spec", 2_000),
        ("stall_slot", 4_000),
        ("stall_slot_frontend", 1_000),
        ("stall_slot_backend", 3_000),
        ("stall_frontend", 150),
        ("stall_backend", 400),
        ("br_mis_pred", 10),
    ];
    let near = |nodes: &[NodeShare], expected: &[(&str, f64)]| {
        for (name, value) in expected {
            let ours = percent(nodes, name);
            assert!((ours - value).abs() < 1e-9, "{name}: {ours}, not {value}");
        }
    };
    let stalled = [("frontend_stalled_cycles", 15.0), ("backend_stalled_cycles", 40.0)];
    let v1 = of_arm("Neoverse-V1", &counts);
    let expected = [
        ("frontend_bound", 8.5),
        ("backend_bound", 37.5),
        ("retiring", 45.0),
        ("bad_speculation", 9.0),
    ];
    near(&v1, &expected);
    near(&v1, &stalled);
    let n2 = of_arm("Neoverse-N2", &counts);
    let expected = [
        ("frontend_bound", 19.0),
        ("backend_bound", 57.0),
        ("retiring", 18.0),
        ("bad_speculation", 6.0),
    ];
    near(&n2, &expected);
    let n1 = of_arm("Neoverse-N1", &counts);
    assert_eq!(n1.len(), 2);
    near(&n1, &stalled);
    // Arm gives no thresholds.
    assert!(v1.iter().chain(&n1).all(|node| node.over.is_none()));
}

/// By hand: what stalled, level by level; 10 slots a cycle of a V3, 5 of an N3.
#[test]
fn deeper_levels_of_neoverse_by_hand() {
    let counts = [
        ("cycles", 1_000_u64),
        ("op_retired", 1_800),
        ("op_spec", 2_000),
        ("stall_slot", 4_000),
        ("stall_slot_frontend", 1_000),
        ("stall_slot_backend", 3_000),
        ("stall_frontend", 200),
        ("stall_frontend_cpubound", 80),
        ("stall_frontend_flush", 20),
        ("stall_frontend_flow", 40),
        ("stall_frontend_membound", 120),
        ("stall_frontend_l1i", 15),
        ("stall_frontend_mem", 45),
        ("stall_frontend_tlb", 30),
        ("stall_backend", 400),
        ("stall_backend_busy", 50),
        ("stall_backend_cpubound", 100),
        ("stall_backend_rename", 25),
        ("stall_backend_membound", 300),
        ("stall_backend_l1d", 60),
        ("stall_backend_mem", 180),
        ("stall_backend_tlb", 15),
        ("stall_backend_st", 45),
    ];
    let alike = [
        ("frontend_stalled_cycles", 20.0),
        ("frontend_core_bound", 40.0),
        ("frontend_core_flush_bound", 25.0),
        ("frontend_core_flow_bound", 50.0),
        ("frontend_mem_bound", 60.0),
        ("frontend_mem_cache_bound", 50.0),
        ("frontend_cache_l1i_bound", 25.0),
        ("frontend_cache_l2i_bound", 75.0),
        ("frontend_mem_tlb_bound", 25.0),
        ("backend_stalled_cycles", 40.0),
        ("backend_busy_bound", 12.5),
        ("backend_core_bound", 25.0),
        ("backend_core_rename_bound", 25.0),
        ("backend_mem_bound", 75.0),
        ("backend_mem_cache_bound", 80.0),
        ("backend_cache_l1d_bound", 25.0),
        ("backend_cache_l2d_bound", 75.0),
        ("backend_mem_tlb_bound", 5.0),
        ("backend_mem_store_bound", 15.0),
    ];
    let slots = |front, back, retiring, speculation| {
        [
            ("frontend_bound", front),
            ("backend_bound", back),
            ("retiring", retiring),
            ("bad_speculation", speculation),
        ]
    };
    for (core, level_1) in [
        ("Neoverse-V3", slots(8.0, 30.0, 54.0, 8.0)),
        ("Neoverse-N3", slots(18.0, 60.0, 18.0, 4.0)),
    ] {
        let nodes = of_arm(core, &counts);
        assert_eq!(nodes.len(), alike.len() + level_1.len(), "{core}");
        for (name, value) in alike.iter().chain(&level_1) {
            let ours = percent(&nodes, name);
            assert!((ours - value).abs() < 1e-9, "{core} {name}: {ours}, not {value}");
        }
        let deepest = nodes.iter().find(|node| node.name == "backend_cache_l2d_bound").expect("it");
        assert_eq!((deepest.path.len(), deepest.of), (5, "parent's cycles"), "{:?}", deepest.path);
    }
}

/// Models by the kernel's ranges: an MI300A is a Zen 4; a Zen 6 has no published tree.
#[test]
fn generations_of_amd_by_their_models() {
    let of = |model: &str| groups(&host("AuthenticAMD", model, true)).is_ok();
    for known in ["25/17/1", "25/144/0", "26/2/1", "26/68/0", "26/112/0"] {
        assert!(of(known), "{known}");
    }
    for none in ["25/33/2", "26/80/0", "26/144/0", "23/49/0"] {
        assert!(!of(none), "{none}");
    }
}

/// All counters of Neoverse cores take any event; four are as many as each has with two to spare.
#[test]
fn groups_of_arm_fit_its_counters() {
    let host = Host { cpu: "Arm Neoverse-V2".to_owned(), ..host("Arm", "8/0x0/1", false) };
    let groups = groups(&host).expect("a table");
    assert!(groups.iter().all(|group| group.len() <= 4), "{groups:?}");
    assert_eq!(groups.iter().flatten().count(), 9);
}
