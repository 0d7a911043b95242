//! Fills `corpus/` with valid inputs: a fuzzer that starts from nothing never gets past the first magic number.
//!
//! Usage: `cargo run --example seeds` in `fuzz/`. Takes what this machine has; what is missing is left out.

use std::fs;
use std::path::Path;

use fathom_fuzz::{complete_result, interrupted_result};

#[path = "../../crates/import/tests/common/mod.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod perf_data;

/// Small programs in many formats of debug information: `make programs` builds them.
const PROGRAMS: [&str; 8] = [
    "spin",
    "spin_dwarf4",
    "spin_compressed_debug",
    "spin_nodebug",
    "late_library.so",
    "typed_accesses_o0",
    "typed_accesses_dwarf4",
    "typed_classes_o2",
];

const MACHINE_FILES: [&str; 6] = [
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/self/status",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/cpu0/cache/index0/size",
    "/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
];

/// Lines of a server's PMUs, its model, and names of events.
const PMUS: &[u8] = b"cpu/type 4
cpu/format/event config:0-7
cpu/format/umask config:8-15
cpu/format/ldlat config1:0-15
cpu/format/offcore_rsp config1:0-63
cpu/events/mem-loads event=0xcd,umask=0x1,ldlat=3
cpu/caps/branches 32
uncore_imc_0/type 13
uncore_imc_0/cpumask 0,28
uncore_imc_0/format/event config:0-7
uncore_imc_0/format/umask config:8-15
uncore_imc_0/events/cas_count_read event=0x04,umask=0x03
uncore_imc_0/events/cas_count_read.scale 6.103515625e-5
uncore_imc_0/events/cas_count_read.unit MiB
uncore_imc_0/events/cas_count_write event=0x04,umask=0x0c
uncore_upi_0/type 19
uncore_upi_0/cpumask 0-1
uncore_upi_0/format/event config:0-7,21
uncore_upi_0/format/umask config:8-15,32-55
 6/85/4
 25/17/1
 Arm Neoverse-N1
 cpu/mem-loads/
 cpu/event=0xd1,umask=0x20/
 mem_load_retired.l3_miss
";

fn main() {
    for program in PROGRAMS {
        if let Ok(bytes) = fs::read(Path::new("../tests/programs/build").join(program)) {
            seed("symbols_elf", program, &bytes);
            seed("symbols_types", program, &bytes);
        }
    }
    seed(
        "symbols_kallsyms",
        "some",
        b"ffffffff81000000 T _text\nffffffff81000100 t do_fault\t[ext4]\n",
    );
    seed(
        "symbols_perf_map",
        "some",
        b"7f0000001000 40 jitted_loop\n7f0000002000 a0 Foo::bar(int)\n",
    );
    seed("symbols_names", "line", b"for (i = 0; i < n; i++)\n  grid->rows[i] =\n  malloc(n);");
    seed("symbols_names", "cpp", b"_ZNSt6vectorIiSaIiEE9push_backERKi");
    seed("symbols_names", "rust", b"_RNvCs1234_7mycrate3foo");
    seed("symbols_names", "legacy", b"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE");
    seed("tracee_proc_maps", "file", b"7f00-7fff r-xp 00001000 08:01 42   /usr/lib/a b.so");
    let id = "0123456789abcdef".repeat(4);
    let slice = "kubepods-besteffort-pod11111111_2222_3333_4444_555555555555.slice";
    let pod = format!("9:cpu,cpuacct:/\n0::/kubepods.slice/{slice}/cri-containerd-{id}.scope\n");
    seed("tracee_cgroup", "pod", pod.as_bytes());
    seed("export_otlp_answer", "part", b"\x0a\x14\x08\x01\x12\x10one is too large");
    seed("export_otlp_answer", "status", b"\x08\x03\x12\x05wrong");
    seed("tracee_cgroup", "unit", b"0::/user.slice/user@1000.service/app.slice/a.service\n");
    seed("machine_snapshot", "here", machine().as_bytes());
    seed("machine_snapshot", "blocks", b"Node 0, zone   Normal   2502   5407   2111   1805   1896    408    210     59     24     37      3");
    let mut module = [0_u8; 0x22].to_vec();
    module[..2].copy_from_slice(&[17, 0x22]);
    module[0x0c..0x13].copy_from_slice(&[0, 0x10, 9, 1, 1, 2, 0x18]);
    module.extend(b"DIMM_A1\0BANK 0\0\0");
    seed("machine_smbios", "module", &module);
    seed("machine_pmu", "server", PMUS);
    seed("facts_records", "some", &[0, 9, 2, 0xc8, 1, 0, 2, 3, 1, 2, 1, 1, 0, 0]);
    // One register at one place, twice; a loop of two instructions.
    seed("facts_registers", "some", &[1, 0, 16, 16, 2, 0, 2, 0, 1, 20, 1, 0, 0, 1, 40]);
    seed("x86_loops", "some", &[0x48, 0x83, 0xc7, 0x08, 0x48, 0xff, 0xc9, 0x75, 0xf7, 0xc3]);
    seed_accesses();
    seed_store();
}

/// A loop that is summarised, a gather, a repeated string instruction; with one record each.
fn seed_accesses() {
    let cases: [(&str, &[u8], &str, &[u8]); 3] = [
        (
            "loop",
            b"\x48\x03\x07\x48\x83\xc7\x08\x48\x39\xf7\x75\xf4",
            "words 3; values rdi@0:1; ways 4; loop rdi 1..2 +8; advanced 0 0 8 8",
            &[2, 0, 2, 0xc8, 1, 0x80, 0x40, 0x80, 0x80, 1],
        ),
        (
            "gather",
            b"\xc4\xe2\xe5\x92\x0c\xd0\xc3",
            "words 9; values rax@0:1 rsp@0:2 v2@0:3+2 v3@0:5+4; ways 2",
            &[0, 0, 8, 0x80, 0x40, 0x80, 0x40, 2, 4, 1, 1, 1, 0],
        ),
        (
            "string",
            b"\xf3\xa4\xc3",
            "words 5; values rcx@0:1 rsp@0:2 rsi@0:3 rdi@0:4; ways 2",
            &[0, 0, 4, 0x80, 1, 0x80, 0x40, 0x80, 0x40, 0x80, 0x40],
        ),
    ];
    for (name, code, text, records) in cases {
        let mut bytes = vec![code.len() as u8, text.len() as u8];
        bytes.extend(code.iter().chain(text.as_bytes()).chain(records));
        seed("analysis_accesses", name, &bytes);
    }
}

fn machine() -> String {
    let read = |path: &&str| Some(format!("== {path}\n{}", fs::read_to_string(path).ok()?));
    MACHINE_FILES.iter().filter_map(read).collect()
}

/// Every table with its number before it, both manifests, and the rows of a journal.
fn seed_store() {
    let tables = [
        "modules",
        "mappings",
        "stacks",
        "samples",
        "faults",
        "threads",
        "lost",
        "counters",
        "gauges",
        "frames",
        "blocks",
        "bursts",
        "records",
        "burst_refusals",
        "no_miss_times",
    ];
    for (number, table) in (0u8..).zip(tables) {
        let file = complete_result().join(format!("{table}.parquet"));
        let mut bytes = vec![number];
        bytes.extend(fs::read(file).expect("the table is there"));
        seed("store_table", table, &bytes);
    }
    for (name, directory) in
        [("complete", complete_result()), ("interrupted", interrupted_result())]
    {
        let bytes = fs::read(directory.join("run.json")).expect("the manifest is there");
        seed("store_manifest", name, &bytes);
    }
    let mut file = perf_data::File::new(vec![
        perf_data::Event { kind: 1, config: 0, name: "cpu-clock" },
        perf_data::Event { kind: 0, config: 0, name: "cycles:P" },
    ]);
    file.executed(1, 7, "solver");
    file.mapped(1, 7, (0x40_0000, 0x1000), "/bin/true");
    for number in 0..40 {
        file.sample(number % 2, 1000 + number as u64, 7, 1, &[0x40_0010, 0x40_0100]);
    }
    file.lost(2000, 1);
    seed("import_perf_data", "file", &file.bytes());
    let mut file = perf_data::File::new(vec![perf_data::Event {
        kind: 4,
        config: 0x1cd,
        name: "cpu/mem-loads,ldlat=30/P",
    }]);
    // Branch stacks, weights and sources of data.
    file.further = (2048 | 16384 | 32768, 0, 0);
    file.mapped(1, 7, (0x40_0000, 0x1000), "/bin/true");
    file.mapped_data(1, 7, (0x7000_0000, 0x1000), "[heap]");
    for number in 0..10 {
        let rest = [0, 1, 0x40_0010, 0x40_0100, 0, 77, 0x106_6810_0842];
        file.sample_of(0, 1000 + number, 7, 30, 0x40_0010, &rest);
    }
    seed("import_perf_data", "accesses", &file.bytes());
    let name = "arm_spe_0/ts_enable=1/";
    let mut file = perf_data::File::new(vec![perf_data::Event { kind: 9, config: 0, name }]);
    file.mapped(1, 7, (0x40_0000, 0x1000), "/bin/true");
    file.spe(0x413f_d0c1, 40 << 10, 1);
    file.switched_in(2, 7);
    // A load with its latencies, address, source and time.
    let load = [
        0xb0, 0x10, 0, 0x40, 0, 0, 0, 0, 0x80, 0x49, 0, 0x52, 0x16, 0, 0x99, 4, 0, 0x98, 12, 0,
        0xb2, 0, 0, 0, 0x70, 0, 0, 0, 0, 0x43, 0x0e, 0x71, 9, 0, 0, 0, 0, 0, 0, 0,
    ];
    file.traced(0, (u32::MAX, 0), &load);
    file.announced(900, 7, (0, load.len() as u64), 0);
    seed("import_perf_data", "spe", &file.bytes());
    let mut file =
        perf_data::File::new(vec![perf_data::Event { kind: 1, config: 0, name: "cpu-clock" }]);
    // In a section of its own: code that is generated, interpreted, and of a module of the kernel.
    file.mapped_as(7, (0x9000_0000, 0x100, 0), "jit_app_cache:0-9", 0x4000);
    file.mapped_as(7, (0x7000_0000, 0x1000, 0x8000), "/app/base.vdex", 1);
    file.map(0, u32::MAX, (0xffff_ff80_0a00_0000, 0x8000), "/lib/touch.ko", 1);
    let before = file.take_records();
    file.mapped(1, 7, (0x40_0000, 0x1000), "/system/lib64/libc.so");
    file.sample(0, 1000, 7, 1, &[0x40_0010, 0x40_0100, 0x9000_0010, 0x7000_0040]);
    file.sample(0, 1001, 7, 1, &[(-128_i64).cast_unsigned(), 0xffff_ff80_0a00_1010]);
    let tables = [
        perf_data::functions("/system/lib64/libc.so", 2, (0, 0), &[(0, 0x20, "malloc")]),
        perf_data::functions("jit_app_cache:0-9", 2, (0, 0), &[(0x9000_0000, 0x20, "a.b")]),
        perf_data::functions("/app/base.vdex", 3, (0, 0), &[(0x8040, 0x20, "a.c")]),
        perf_data::functions("/lib/touch.ko", 1, (0, 0x1000), &[(0x10, 0x10, "irq")]),
    ];
    let about = b"simpleperf_version\x001\0".to_vec();
    file.features = vec![(129, about), (132, tables.concat()), (134, before)];
    seed("import_perf_data", "simpleperf", &file.bytes());
    let likwid =
        fs::read("../crates/import/tests/likwid/mem.csv").expect("an example of likwid's tables");
    seed("import_likwid", "file", &likwid);
    // The journal's first frame; layout: crates/store/src/journal.rs.
    let journal =
        fs::read(interrupted_result().join("journal.fathom")).expect("the journal is there");
    if let Some(frame) = journal.get(28..) {
        let rows = zstd::bulk::decompress(frame, 1 << 20).expect("one whole frame");
        seed("store_journal", "rows", &rows);
    }
}

fn seed(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new("corpus").join(target);
    fs::create_dir_all(&folder).expect("the corpus can be made");
    fs::write(folder.join(format!("seed-{name}")), bytes).expect("a seed can be written");
}
