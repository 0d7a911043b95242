//! Every view of a handful of recordings, against the files in `golden/`. `FATHOM_BLESS=1` writes them.

mod recordings;

use std::path::PathBuf;

use base::{Bytes, FileOffset};
use facts::{AccessType, Recording};
use report::{Document, Options, View, build, parse_filter, parse_keys};

const TRIAD_SOURCE: &str = include_str!("recordings/triad_before.c");

/// The options from text such as `hotspots -g thread,function --filter module=libgomp* --limit 3`.
fn options(line: &str) -> Options {
    let mut words = line.split(' ');
    let view = View::parse(words.next().expect("a view")).expect("a view that exists");
    let mut options = Options { view, result_name: "r000ma".into(), ..Options::default() };
    while let Some(word) = words.next() {
        let value = words.next().expect("each option has a value");
        match word {
            "-g" => options.group = parse_keys(value).expect("keys that exist"),
            "--filter" => options.filters.push(parse_filter(value).expect("a filter that exists")),
            "--sort" => options.sort = Some(value.to_owned()),
            "--columns" => options.columns = value.split(',').map(str::to_owned).collect(),
            "--detail" => options.detail = value == "yes",
            "--limit" => options.limit = Some(value.parse().expect("a number")),
            _ => panic!("the tests have no option {word}"),
        }
    }
    options
}

fn view(recording: &Recording, line: &str) -> Document {
    let sources =
        |path: &str| (path == "/home/user/recipes/triad_before.c").then(|| TRIAD_SOURCE.to_owned());
    build(recording, &options(line), &sources).expect("the options fit the recording")
}

fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    testkit::golden::check(path, text);
}

/// Text views fit the width, whatever is in them.
fn text(document: &Document) -> String {
    let text = document.text(100, false);
    for line in text.lines().filter(|line| !line.starts_with("  fathom ")) {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        assert_eq!(line.trim_end(), line, "no trailing spaces");
    }
    assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    text
}

#[test]
fn summaries() {
    for (name, recording) in [
        ("triad", recordings::triad()),
        ("templates", recordings::templates()),
        ("nothing", recordings::nothing()),
        ("all_kernel", recordings::all_kernel()),
        ("incomplete", recordings::incomplete()),
        ("kernel", recordings::kernel()),
        ("empty", Recording::default()),
    ] {
        let summary = view(&recording, "summary");
        golden(&format!("summary_{name}.txt"), &text(&summary));
        golden(&format!("detail_{name}.txt"), &text(&view(&recording, "summary --detail yes")));
        assert!(!summary.text(100, true).is_empty() && summary.json().ends_with("}\n"));
    }
    let triad = view(&recordings::triad(), "summary");
    golden("summary_triad.json", &triad.json());
    golden("summary_triad.csv", &triad.csv());
    golden("summary_triad_colour.txt", &triad.text(80, true));
    golden("summary_triad.md", &triad.markdown());
    golden("detail_triad.md", &view(&recordings::triad(), "summary --detail yes").markdown());
    golden("summary_templates.md", &view(&recordings::templates(), "summary").markdown());
}

#[test]
fn tables_of_the_triad() {
    let recording = recordings::triad();
    for (name, line) in [
        ("hotspots", "hotspots"),
        ("hotspots_limit", "hotspots --limit 2"),
        ("hotspots_no_rows", "hotspots --limit 0"),
        ("hotspots_stack", "hotspots -g function,call-stack"),
        ("hotspots_line", "hotspots -g function,source-line --filter function=triad._omp_fn.0"),
        ("hotspots_module", "hotspots -g module"),
        ("hotspots_thread", "hotspots -g thread,function --filter time=0.25..1"),
        ("callers", "callers"),
        ("callers_of", "callers --filter function=pmemobj_direct_inline"),
        ("callees", "callees"),
        ("callees_of", "callees --filter function=main"),
        ("source", "source --filter source-file=triad_before.c"),
        ("source_hottest", "source"),
        ("faults", "faults"),
        ("faults_line", "faults -g function,source-line"),
        ("timeline", "timeline --limit 10"),
        ("timeline_thread", "timeline -g thread --limit 4"),
        ("threads", "threads"),
    ] {
        golden(&format!("triad_{name}.txt"), &text(&view(&recording, line)));
    }
    for (name, line) in [
        ("hotspots", "hotspots --limit 2"),
        ("hotspots_stack", "hotspots -g call-stack --limit 1"),
        ("callees", "callees --limit 2"),
        ("source", "source --filter function=triad._omp_fn.0"),
        ("timeline", "timeline --limit 2"),
    ] {
        let document = view(&recording, line);
        golden(&format!("triad_{name}.json"), &document.json());
        golden(&format!("triad_{name}.csv"), &document.csv());
        golden(&format!("triad_{name}.md"), &document.markdown());
    }
}

#[test]
fn accesses_that_the_hardware_sampled() {
    let recording = recordings::sampled();
    for (name, line) in [
        ("latency", "latency"),
        ("latency_function", "latency -g function"),
        ("latency_line", "latency -g source-line --filter function=gather"),
        ("latency_object", "latency -g object"),
        ("objects", "objects"),
        ("objects_function", "objects -g object,function --filter object=table"),
        ("sharing", "sharing"),
        ("pace", "pace"),
        ("summary", "summary"),
        ("detail", "summary --detail yes"),
    ] {
        golden(&format!("sampled_{name}.txt"), &text(&view(&recording, line)));
    }
    for (name, line) in
        [("latency_function", "latency -g function --limit 1"), ("sharing", "sharing")]
    {
        let document = view(&recording, line);
        golden(&format!("sampled_{name}.json"), &document.json());
        golden(&format!("sampled_{name}.csv"), &document.csv());
    }
}

#[test]
fn flushes_and_fences() {
    let recording = recordings::flushed();
    for (name, line) in [
        ("flushes", "flushes"),
        ("flushes_line", "flushes -g source-line"),
        ("flushes_filter", "flushes --filter function=write_table"),
        ("flushes_object", "flushes -g object"),
        ("findings_flushed", "findings"),
    ] {
        golden(&format!("{name}.txt"), &text(&view(&recording, line)));
    }
    golden("flushes.json", &view(&recording, "flushes").json());
    golden("flushes.csv", &view(&recording, "flushes").csv());
}

#[test]
fn long_names_and_thin_recordings() {
    let templates = recordings::templates();
    golden("templates_hotspots.txt", &text(&view(&templates, "hotspots")));
    golden("templates_hotspots_stack.txt", &text(&view(&templates, "hotspots -g call-stack")));
    golden("templates_callees.txt", &text(&view(&templates, "callees")));
    golden("templates_hotspots_70.txt", &view(&templates, "hotspots").text(70, false));
    let nothing = recordings::nothing();
    for line in [
        "hotspots",
        "callers",
        "callees",
        "source",
        "faults",
        "timeline",
        "threads",
        "accesses",
        "reuse",
        "working-set",
        "sharing",
        "flushes",
        "roofline",
        "findings",
        "kernel",
        "objects",
    ] {
        golden(&format!("nothing_{line}.txt"), &text(&view(&nothing, line)));
        text(&view(&Recording::default(), line));
        text(&view(&recordings::all_kernel(), line));
        text(&view(&recordings::incomplete(), line));
    }
    golden("all_kernel_source.txt", &text(&view(&recordings::all_kernel(), "source")));
}

#[test]
fn a_pause_is_no_time_that_was_observed() {
    let recording = recordings::paused(recordings::triad());
    for (name, line) in [
        ("paused_summary.txt", "summary"),
        ("paused_timeline.txt", "timeline --limit 12"),
        ("paused_bandwidth.txt", "bandwidth --limit 25"),
        ("paused_threads.txt", "threads"),
    ] {
        golden(name, &text(&view(&recording, line)));
    }
}

#[test]
fn regions_that_the_program_marks() {
    let regions = view(&recordings::paused(recordings::triad()), "regions");
    golden("regions.txt", &text(&regions));
    golden("regions.json", &regions.json());
    golden("regions.csv", &regions.csv());
    golden("nothing_regions.txt", &text(&view(&recordings::nothing(), "regions")));
}

#[test]
fn views_by_region_add_up() {
    let recording = recordings::paused(recordings::triad());
    for (name, line) in [
        ("region_hotspots.txt", "hotspots -g region"),
        ("region_hotspots_function.txt", "hotspots -g region,function"),
        ("region_hotspots_filter.txt", "hotspots -g function,region --filter region=solve"),
        ("region_faults.txt", "faults -g region"),
    ] {
        golden(name, &text(&view(&recording, line)));
    }
    golden("region_none.txt", &text(&view(&recordings::triad(), "hotspots -g region")));
    let by_region = view(&recording, "hotspots -g region");
    golden("region_hotspots.json", &by_region.json());
    let json: serde_json::Value = serde_json::from_str(&by_region.json()).expect("JSON");
    let cpu = |row: &serde_json::Value| row["cpu_time"]["value"].as_f64().expect("a time");
    let sum: f64 = json["rows"].as_array().expect("rows").iter().map(cpu).sum();
    assert!((sum / cpu(&json["total"]) - 1.0).abs() < 1e-5, "{json}");
    let refused = build(&recording, &options("bandwidth -g region"), &|_| None);
    let error = refused.err().expect("refused").to_string();
    assert!(error.ends_with("; and 'region' next to one of them"), "{error}");
}

#[test]
fn events_that_were_counted() {
    let events = view(&recordings::counted(), "events");
    golden("events.txt", &text(&events));
    golden("events.json", &events.json());
    golden("events.csv", &events.csv());
    golden("nothing_events.txt", &text(&view(&recordings::nothing(), "events")));
}

#[test]
fn top_down_trees() {
    let uarch = view(&recordings::top_down(), "uarch");
    golden("uarch.txt", &text(&uarch));
    golden("uarch.json", &uarch.json());
    golden("uarch.csv", &uarch.csv());
    golden("nothing_uarch.txt", &text(&view(&recordings::nothing(), "uarch")));
}

#[test]
fn counted_events_and_pipeline_slots_by_code() {
    let recording = recordings::counted_code();
    golden("summary_counted_code.txt", &text(&view(&recording, "summary --detail yes")));
    let uarch = view(&recording, "uarch -g function");
    golden("uarch_function.txt", &text(&uarch));
    golden("uarch_function.json", &uarch.json());
    golden("uarch_function.csv", &uarch.csv());
    golden("uarch_samples.txt", &text(&view(&recording, "uarch")));
    golden("uarch_filtered.txt", &text(&view(&recording, "uarch --filter function=compute")));
    golden("events_samples.txt", &text(&view(&recording, "events")));
    let events = view(&recording, "events -g function --limit 6");
    golden("events_function.txt", &text(&events));
    golden("events_function.csv", &events.csv());
    let by_cpu = view(&recording, "events -g cpu --limit 7");
    golden("events_cpu.txt", &text(&by_cpu));
    golden("events_cpu.csv", &by_cpu.csv());
    let none = view(&recordings::nothing(), "uarch -g function,thread");
    golden("nothing_uarch_function.txt", &text(&none));
    golden("nothing_events_function.txt", &text(&view(&recordings::nothing(), "events -g module")));
}

/// Where the cores sampled accesses, too, the memory branch leads to the objects of this result.
#[test]
fn the_memory_branch_leads_to_sampled_objects() {
    let mut recording = recordings::counted_code();
    assert!(view(&recording, "uarch").json().contains("fathom run: report objects"));
    recording.memory_samples = recordings::sampled().memory_samples;
    let table = view(&recording, "uarch").json();
    assert!(
        table.contains("\"report objects\"") && !table.contains("fathom run: report"),
        "{table}"
    );
}

#[test]
fn traffic_of_the_whole_machine() {
    let recording = recordings::sockets();
    golden("bandwidth_machine.txt", &text(&view(&recording, "bandwidth")));
    let domains = view(&recording, "bandwidth -g bandwidth-domain");
    golden("bandwidth_domain.txt", &text(&domains));
    golden("bandwidth_domain.json", &domains.json());
    let mut none = recordings::nothing();
    none.run.notes.push(facts::NoteSubject::MachineTraffic.note("it was not counted"));
    let none = view(&none, "bandwidth -g bandwidth-domain");
    golden("bandwidth_domain_none.txt", &text(&none));
}

/// A virtual machine whose host lends it the PMU of its cores only.
#[test]
fn what_the_cores_alone_tell() {
    let recording = recordings::by_cores();
    golden("bandwidth_cores.txt", &text(&view(&recording, "bandwidth")));
    let domains = view(&recording, "bandwidth -g bandwidth-domain");
    golden("bandwidth_cores_domain.txt", &text(&domains));
    golden("bandwidth_cores_domain.csv", &domains.csv());
    golden("summary_cores.txt", &text(&view(&recording, "summary")));
}

#[test]
fn bursts_against_the_hardware() {
    let recording = recordings::checked();
    let table = view(&recording, "cross-check");
    golden("cross_check.txt", &text(&table));
    golden("cross_check.json", &table.json());
    golden("summary_cross_check.txt", &text(&view(&recording, "summary")));
    // A virtual machine's PMU that takes all events and counts none.
    let mut dead = recordings::checked();
    let of_cores = |id: u32| dead.counted_events[id as usize].socket.is_none();
    dead.event_counts.iter_mut().filter(|one| of_cores(one.event)).for_each(|one| one.count = 0);
    golden("cross_check_dead_pmu.txt", &text(&view(&dead, "cross-check")));
    golden("cross_check_none.txt", &text(&view(&recordings::objects(), "cross-check")));
    golden("nothing_cross_check.txt", &text(&view(&recordings::nothing(), "cross-check")));
}

#[test]
fn heap_blocks() {
    let (every, some) = (recordings::heap(), recordings::heap_by_lot());
    for (name, line) in [
        ("function", "allocations"),
        ("stack", "allocations -g call-stack"),
        ("line", "allocations -g source-line"),
        ("module", "allocations -g module"),
        ("process", "allocations -g process"),
        ("thread", "allocations -g thread"),
        ("thread_filter", "allocations --filter thread=worker"),
        ("process_filter", "allocations --filter process=child"),
        ("call", "allocations -g call"),
        ("call_function", "allocations -g function,call --filter function=grow"),
        ("free_stack", "allocations -g free-stack"),
        ("free_stack_time", "allocations -g free-stack,process --filter time=1.5..3"),
        ("lifetime", "allocations -g lifetime"),
        ("lifetime_call", "allocations -g lifetime,call,process --filter time=1.5..3"),
        ("time", "allocations -g time"),
        ("size_class", "allocations -g size-class"),
        ("size_class_process", "allocations -g size-class,process"),
        ("size_class_filter", "allocations -g size-class --filter function=grow"),
    ] {
        golden(&format!("heap_{name}.txt"), &text(&view(&every, line)));
    }
    for (name, line) in [
        ("function", "allocations"),
        ("stack", "allocations -g call-stack"),
        ("call", "allocations -g call"),
        ("free_stack", "allocations -g free-stack"),
        ("lifetime", "allocations -g lifetime"),
        ("time", "allocations -g time"),
        ("size_class", "allocations -g size-class"),
    ] {
        let document = view(&every, line);
        golden(&format!("heap_{name}.json"), &document.json());
        golden(&format!("heap_{name}.csv"), &document.csv());
        golden(&format!("heap_by_lot_{name}.txt"), &text(&view(&some, line)));
    }
    golden("summary_heap.txt", &text(&view(&every, "summary")));
    for line in [
        "allocations",
        "allocations -g free-stack",
        "allocations -g time",
        "allocations -g size-class",
        "allocations -g lifetime",
    ] {
        text(&view(&Recording::default(), line));
        text(&view(&recordings::nothing(), line));
    }
}

#[test]
fn entries_into_the_kernel() {
    let recording = recordings::kernel();
    for (name, line) in [
        ("cause", "kernel"),
        ("process", "kernel -g process"),
        ("thread", "kernel -g thread --filter process=matrix"),
        ("cpu", "kernel -g cpu"),
        ("time", "kernel -g time --limit 2"),
        ("time_cause", "kernel -g time,cause --filter time=1..2"),
    ] {
        golden(&format!("kernel_{name}.txt"), &text(&view(&recording, line)));
    }
    golden("kernel_cause.json", &view(&recording, "kernel --limit 2").json());
    golden("kernel_cause.csv", &view(&recording, "kernel").csv());
}

#[test]
fn memory_accesses() {
    let recording = recordings::bursts();
    for (name, line) in [
        ("site", "accesses"),
        ("function", "accesses -g function"),
        ("line", "accesses -g source-line --filter function=transpose"),
        ("module", "accesses -g module"),
    ] {
        golden(&format!("accesses_{name}.txt"), &text(&view(&recording, line)));
    }
    golden("accesses_site.json", &view(&recording, "accesses --limit 2").json());
    golden("accesses_site.csv", &view(&recording, "accesses").csv());
    for (name, line) in [
        ("function", "reuse"),
        ("line", "reuse -g source-line --filter function=triad"),
        ("module", "reuse -g module"),
        ("pages", "working-set --limit 5"),
    ] {
        golden(&format!("reuse_{name}.txt"), &text(&view(&recording, line)));
    }
    golden("roofline_function.txt", &text(&view(&recording, "roofline")));
    let mut under_roofs = recordings::objects();
    under_roofs.run.calibration = recordings::triad().run.calibration;
    golden("roofline_loop.txt", &text(&view(&under_roofs, "roofline -g loop")));
    golden("roofline_loop.json", &view(&under_roofs, "roofline -g loop").json());
    golden("findings.txt", &text(&view(&recording, "findings")));
    golden("findings_triad.json", &view(&recordings::triad(), "findings").json());
    golden("reuse_function.json", &view(&recording, "reuse --limit 1").json());
    golden("summary_bursts.txt", &text(&view(&recording, "summary")));
}

#[test]
fn threads_that_wait() {
    let recording = recordings::threading();
    for (name, line) in [
        ("summary", "summary"),
        ("threads", "threads"),
        ("threads_time", "threads --filter time=1..2 --filter thread=worker"),
        ("timeline", "timeline --limit 20"),
        ("timeline_thread", "timeline -g thread --limit 2"),
        ("waits", "waits"),
        ("waits_thread", "waits -g thread"),
        ("waits_waker", "waits -g waker"),
        ("waits_thread_waker", "waits -g thread,waker --filter thread=worker"),
        ("waits_stack", "waits -g call-stack --filter thread=solver"),
    ] {
        golden(&format!("threading_{name}.txt"), &text(&view(&recording, line)));
    }
    for line in ["threads", "timeline", "waits"] {
        let document = view(&recording, &format!("{line} --limit 2"));
        golden(&format!("threading_{line}.json"), &document.json());
        golden(&format!("threading_{line}.csv"), &document.csv());
    }
    golden("threading_summary.json", &view(&recording, "summary").json());
    golden("nothing_waits.txt", &text(&view(&recordings::triad(), "waits")));
}

#[test]
fn memory_objects() {
    let recording = recordings::objects();
    for (name, line) in [
        ("object", "objects"),
        ("object_function", "objects -g object,function"),
        ("function_object", "objects -g function,object"),
        ("source_line", "objects -g object,source-line --filter function=walk"),
        ("cache_line", "objects -g cache-line --filter object=main --limit 5"),
        ("offset", "objects -g memory-object,offset --filter object=counters"),
        ("field", "objects -g field"),
        ("thread", "objects --filter thread=worker"),
        ("bandwidth", "bandwidth -g object"),
        ("bandwidth_function", "bandwidth -g function,object"),
        ("latency", "latency -g object,function"),
        ("faults", "faults -g object,function"),
        ("reuse", "reuse -g object"),
        ("accesses", "accesses -g object,function"),
        ("accesses_filter", "accesses --filter object=grid"),
    ] {
        golden(&format!("objects_{name}.txt"), &text(&view(&recording, line)));
    }
    golden("objects_object.json", &view(&recording, "objects --limit 2").json());
    golden("objects_object.csv", &view(&recording, "objects").csv());
    golden("summary_objects.txt", &text(&view(&recording, "summary")));
    let waited = recordings::waited();
    for (name, line) in [
        ("object", "objects"),
        ("function", "objects -g object,function"),
        ("offset", "objects -g offset --limit 5"),
        ("field", "objects -g field"),
        (
            "sorted",
            "objects --sort object_bytes --columns object,object_bytes,stall_percent --limit 3",
        ),
    ] {
        golden(&format!("waited_{name}.txt"), &text(&view(&waited, line)));
    }
    golden("waited_object.json", &view(&waited, "objects --limit 2").json());
    golden("waited_summary.txt", &text(&view(&waited, "summary")));
    golden("objects_none.txt", &text(&view(&recordings::bursts(), "objects")));
    golden(
        "objects_none_bandwidth.txt",
        &text(&view(&recordings::bursts(), "bandwidth -g object")),
    );
}

#[test]
fn accesses_by_type_and_field() {
    let recording = typed_bursts();
    for (name, line) in [
        ("type", "accesses -g type"),
        ("field", "accesses -g field"),
        ("field_function", "accesses -g function,field --filter function=walk"),
    ] {
        golden(&format!("accesses_{name}.txt"), &text(&view(&recording, line)));
    }
    golden("accesses_type.json", &view(&recording, "accesses -g type").json());
    golden("reuse_field.txt", &text(&view(&recording, "reuse -g field")));
}

#[test]
fn what_other_nodes_would_make_of_it() {
    let recording = recordings::touched();
    golden("nodes.txt", &text(&view(&recording, "nodes")));
    golden("objects_touched.txt", &text(&view(&recording, "objects")));
    let touched = "objects --columns object,first_thread,first_function,first_percent --limit 3";
    golden("objects_touched.json", &view(&recording, touched).json());
    golden("nodes.json", &view(&recording, "nodes").json());
    golden("nodes.csv", &view(&recording, "nodes").csv());
    golden("nodes_object.txt", &text(&view(&recording, "nodes -g object")));
    golden("nodes_unknown.txt", &text(&view(&recordings::triad(), "nodes")));
    let several = recordings::with_nodes(recording);
    let laid = Options {
        topology: Some(report::Topology::parse("2x1+1").expect("a shape")),
        ..options("nodes")
    };
    let laid = build(&several, &laid, &|_| None).expect("the options fit");
    golden("nodes_shape.txt", &text(&laid));
    golden("nodes_measured.txt", &text(&view(&several, "nodes")));
    golden("nodes_summary.txt", &text(&view(&several, "summary")));
    golden("nodes_detail.txt", &text(&view(&several, "summary --detail yes")));
    golden("nodes_bandwidth.txt", &text(&view(&several, "bandwidth")));
    let domains = view(&several, "bandwidth -g bandwidth-domain");
    golden("nodes_domain.txt", &text(&domains));
    golden("nodes_domain.csv", &domains.csv());
    golden(
        "nodes_domain_object.txt",
        &text(&view(&several, "bandwidth -g bandwidth-domain,object")),
    );
    let refused = Options { view: View::Hotspots, ..laid_out() };
    let why = build(&several, &refused, &|_| None).err().map(|error| error.to_string());
    assert!(why.is_some_and(|why| why.contains("only 'nodes' has")));
    let filtered = options("nodes --filter thread=7");
    assert!(build(&several, &filtered, &|_| None).is_err());
}

/// A filter by node keeps that node's part; all nodes together are the whole, in each step of time.
#[test]
fn traffic_with_the_memory_of_a_node() {
    let recording = recordings::with_nodes(recordings::touched());
    golden("nodes_over_time.txt", &text(&view(&recording, "bandwidth -g time,bandwidth-domain")));
    let filtered = "bandwidth -g object --filter bandwidth-domain=0";
    golden("nodes_filtered.txt", &text(&view(&recording, filtered)));
    let both = |line: &str| -> Vec<f64> {
        let json: serde_json::Value =
            serde_json::from_str(&view(&recording, line).json()).expect("JSON");
        let rows = json["rows"].as_array().expect("rows");
        rows.iter().map(|row| row["total"]["value"].as_f64().expect("a rate")).collect()
    };
    // Each has six digits.
    let same = |one: &[f64], other: &[f64]| {
        one.len() == other.len()
            && one.iter().zip(other).all(|(a, b)| (a - b).abs() <= 1e-5 * a.abs())
    };
    let whole = both("bandwidth");
    assert!(whole[0] > 0.1, "{whole:?}");
    assert!(same(&whole, &both("bandwidth --filter bandwidth-domain=*")), "{whole:?}");
    let of_nodes = both("bandwidth -g bandwidth-domain,time");
    let sums: Vec<f64> = of_nodes.chunks(3).map(|nodes| nodes.iter().sum()).collect();
    assert!(same(&whole, &sums), "{whole:?} {sums:?}");

    let refused = |recording: &Recording, line: &str| {
        let why = build(recording, &options(line), &|_| None).err();
        why.map(|why| why.to_string()).unwrap_or_default()
    };
    let why = refused(&recording, "bandwidth --filter bandwidth-domain=7");
    assert!(why.contains("node 0, node 1"), "{why}");
    let why = refused(&recording, "hotspots --filter bandwidth-domain=0");
    assert!(why.contains("takes no filter by bandwidth-domain"), "{why}");
    let why = refused(&recordings::touched(), "bandwidth --filter bandwidth-domain=*");
    assert!(why.ends_with("this machine has one NUMA node"), "{why}");
    let why = refused(&recording, "bandwidth -g time");
    assert!(why.contains("'bandwidth-domain', also with 'time'"), "{why}");
}

fn laid_out() -> Options {
    Options { topology: report::Topology::parse("2x1").ok(), ..Options::default() }
}

#[test]
fn the_machine() {
    let run = recordings::triad().run;
    use facts::host::{Calibration, Host};
    let shown = |host: &Host, calibration: &Calibration| {
        report::machine(host, calibration, serde_json::json!({"pmus": []}))
    };
    let machine = shown(&run.host, &run.calibration.expect("the triad has one"));
    golden("machine.txt", &text(&machine));
    golden("machine.csv", &machine.csv());
    golden("machine_unmeasured.txt", &text(&shown(&Host::default(), &Calibration::default())));
    let run = recordings::with_nodes(recordings::triad()).run;
    let mut calibration = run.calibration.expect("the triad has one");
    let machine = shown(&run.host, &calibration);
    golden("machine_nodes.txt", &text(&machine));
    golden("machine_nodes.csv", &machine.csv());
    golden("machine_nodes.svg", &report::machine_svg(&run.host, &calibration));
    for pair in &mut calibration.node_pairs {
        for metric in [&mut pair.latency, &mut pair.one_thread, &mut pair.all_threads] {
            *metric = facts::Metric::unavailable(&metric.unit.clone(), "mbind is not permitted");
        }
    }
    golden("machine_nodes_refused.txt", &text(&shown(&run.host, &calibration)));
    assert!(machine.json().starts_with("{\n  \"host\": {"));
    assert!(machine.json().ends_with("  },\n  \"counters\": {\n    \"pmus\": []\n  }\n}\n"));
}

#[test]
fn the_same_recording_gives_the_same_bytes() {
    let recording = recordings::triad();
    for line in [
        "summary",
        "hotspots -g function,call-stack",
        "callers",
        "callees",
        "faults",
        "timeline",
        "threads",
        "accesses",
        "reuse",
    ] {
        let (first, second) = (view(&recording, line), view(&recording.clone(), line));
        assert_eq!(first.json(), second.json());
        assert_eq!(first.text(100, true), second.text(100, true));
        assert_eq!(first.csv(), second.csv());
    }
}

#[test]
fn requests_that_do_not_fit_are_refused() {
    let recording = recordings::triad();
    let refuse = |line: &str| match build(&recording, &options(line), &|_| None) {
        Ok(_) => panic!("'{line}' was accepted"),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        refuse("callers -g module"),
        "the view 'callers' cannot be grouped by 'module'; it takes none"
    );
    assert!(
        refuse("summary --filter function=main")
            .starts_with("the summary and the findings are of the whole recording")
    );
    assert_eq!(
        refuse("hotspots --filter function=mian"),
        "no function in this result matches 'mian'; it has pmemobj_direct_inline, triad._omp_fn.0, \
         clear_page_erms, oid_offset, initialise, do_exit"
    );
}

/// The bursts with types: the triad's numbers, and nodes of 64 bytes of which the list follows one member. Nothing is known of
/// the transposition.
fn typed_bursts() -> Recording {
    let mut recording = recordings::bursts();
    let module = recording.modules[0].id;
    let typed = |offset, type_name: &str, type_bytes, field: Option<&str>, at, bytes| AccessType {
        module,
        offset: FileOffset(offset),
        access: 0,
        variable: None,
        type_name: type_name.to_owned(),
        type_bytes: Bytes(type_bytes),
        field: field.map(str::to_owned),
        field_offset: Bytes(at),
        field_bytes: Bytes(bytes),
    };
    recording.access_types = vec![
        typed(0x1000, "double", 8, None, 0, 8),
        typed(0x1009, "double", 8, None, 0, 8),
        typed(0x100e, "state", 48, Some("result[]"), 8, 16),
        typed(0x3000, "node", 64, Some("next"), 0, 8),
    ];
    recording
}

#[test]
fn pace_of_loops() {
    let nest = view(&recordings::pace(), "pace");
    golden("pace.txt", &text(&nest));
    golden("pace.json", &nest.json());
    golden("pace.csv", &nest.csv());
    golden("pace_none.txt", &text(&view(&recordings::triad(), "pace")));
}
