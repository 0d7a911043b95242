#!/usr/bin/env python3
"""Fathom on aarch64: built here, run on an emulated machine with a PMU, compared with what programs do by construction.

What for: samples with their stacks (perf events and ptrace), counted and sampled events, heap blocks, threads, and kernel entries
are right there, and what is missing says so; imports and reports run under the emulation of one process. What not: times, caches and
memory accesses, which the emulator does not know (its PMU counts cycles and instructions; a cycle is a nanosecond), and SPE.

The guest is a Debian kernel with an initramfs of busybox, fathom, the programs and the C library. Time in it goes by instructions, two
nanoseconds each (-icount), so that it is the same on any machine. Needs qemu-system-aarch64, qemu-aarch64-static, a cross compiler
with its C library, the Rust target, and the Debian archive for kernel and busybox. Where one is missing it says `skipped: REASON`, and
ends well.

    tests/aarch64/aarch64.py [--keep DIR] [--fathom PATH]
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import guest  # noqa: E402
from guest import Missing  # noqa: E402

TARGET = "aarch64-unknown-linux-gnu"
COMPILER = "aarch64-linux-gnu-gcc"
# Where Debian's cross compiler has the C library of its target.
LIBRARIES = "/usr/aarch64-linux-gnu"
NANOSECONDS_PER_INSTRUCTION = 2
# An emulator on a busy machine is slow; a guest that hangs is ended all the same.
TIMEOUT_SECONDS = 540
TURNS = 100_000_000
# By name, the source and flags of the compiler. `signed` has no frame pointers, and signs its return addresses.
PROGRAMS = {"counted": ("tests/aarch64/counted.c", ""),
            **{name: (f"tests/programs/{name}.c", "") for name in ("two_functions", "malloc_mix", "lock_shares", "kernel_entries",
                                                              "regions")},
            "signed": ("tests/programs/two_functions.c", "-fomit-frame-pointer -mbranch-protection=standard"),
            "static": ("tests/programs/two_functions.c", "-static")}
COUNTED = f"/bin/counted --turns {TURNS}"
# What is recorded: by name of the result, the options and the program.
RUNS = {
    "hotspots": "collect hotspots -- /bin/two_functions --ms 1000",
    "signed": "collect hotspots -- /bin/signed --ms 1000",
    "static": "collect hotspots -- /bin/static --ms 1000",
    "ptrace": "collect hotspots -k sampling-mode=ptrace -- /bin/two_functions --ms 1000",
    "counts": "collect hotspots -k event-config={cycles,instructions},cache-misses,page-faults -- " + COUNTED,
    "sampled": "collect hotspots -k event-config=instructions:sa=1000003,cycles:sa=1000003 -- " + COUNTED,
    "heap": "collect memory-consumption -- /bin/malloc_mix --rounds 200",
    "heap_all": "collect memory-consumption -k stacks=all -- /bin/malloc_mix --rounds 20",
    "threads": "collect threading -- /bin/lock_shares --threads 2 --rounds 50 --us 5000",
    "kernel": "collect system-overview -- /bin/kernel_entries --calls 2000 --sleeps 20",
    "regions": "collect hotspots -- /bin/regions --rounds 20 --us 5000 --tiny 1000",
    "accesses": "collect memory-access -- /bin/two_functions --ms 300",
}


def init():
    """What the guest does."""
    lines = ["fathom doctor > /tmp/out/doctor.txt 2>&1", "fathom machine --format json > /tmp/out/machine.json 2> /tmp/out/machine.err",
             "echo 0 > /proc/sys/kernel/kptr_restrict"]
    for name, run in RUNS.items():
        analysis, options = run.removeprefix("collect ").split(" ", 1)
        options = f"-q -k dram-bandwidth-limits=false -r /tmp/out/{name} {options}"
        lines.append(f"fathom collect {analysis} {options} > /tmp/out/{name}.txt 2> /tmp/out/{name}.err || echo {name} failed")
    # A process that runs already.
    options = "-q -k dram-bandwidth-limits=false -d 1"
    lines += ["/bin/two_functions --ms 6000 > /tmp/out/attached.txt & program=$!",
              f"fathom collect hotspots {options} -r /tmp/out/attached --pid $program 2> /tmp/out/attached.err",
              f"fathom collect memory-consumption {options} -r /tmp/out/attached_heap --pid $program 2> /tmp/out/attached_heap.err",
              "kill $program", "fathom report hotspots -r /tmp/out/hotspots > /tmp/out/reported.txt 2>&1"]
    return f"""{guest.INIT}{chr(10).join(lines)}
echo; echo FATHOM-BEGIN
tar c -C /tmp/out . | gzip | base64
echo FATHOM-END
poweroff -f
"""


def need(program, package):
    path = shutil.which(program)
    if path is None:
        raise Missing(f"there is no {program} (Debian: {package})")
    return path


def built(folder):
    """Fathom, built for aarch64."""
    script = os.path.join(ROOT, "scripts", "aarch64.sh")
    if subprocess.run(["sh", script, "ready"], capture_output=True).returncode != 0:
        raise Missing(f"there is no {COMPILER} (Debian: gcc-aarch64-linux-gnu), or no library of Rust: rustup target add {TARGET}")
    subprocess.run(["sh", script, "build", "--quiet"], check=True)
    return os.path.join(folder, TARGET, "debug", "fathom")


def debian(folder):
    """A kernel for virtual machines and a static busybox, both of Debian's arm64, downloaded once into this folder."""
    def found():
        return [glob.glob(os.path.join(folder, place)) for place in ("root/boot/vmlinuz-*", "root/bin/busybox")]

    if not all(found()):
        state, cache = os.path.join(folder, "state"), os.path.join(folder, "cache")
        os.makedirs(os.path.join(state, "lists", "partial"), exist_ok=True)
        os.makedirs(os.path.join(cache, "archives", "partial"), exist_ok=True)
        # Lists of its own: the system's are not touched, and need not have the architecture.
        own = ["-q", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64", "-o", f"Dir::State={state}", "-o",
               f"Dir::Cache={cache}", "-o", "Dir::State::status=/dev/null", "-o", "APT::Sandbox::User=root"]
        try:
            subprocess.run(["apt-get", *own, "update"], capture_output=True, check=True, timeout=300)
            depends = subprocess.run(["apt-cache", *own, "depends", "linux-image-cloud-arm64"], capture_output=True, text=True)
            package = re.search(r"Depends: (linux-image-\S+)", depends.stdout)
            if package is None:
                raise Missing("apt knows no linux-image-cloud-arm64")
            subprocess.run(["apt-get", *own, "download", package[1], "busybox-static"], cwd=folder, capture_output=True, check=True,
                           timeout=300)
            for archive in glob.glob(os.path.join(folder, "*.deb")):
                subprocess.run(["dpkg-deb", "-x", archive, os.path.join(folder, "root")], check=True)
                os.remove(archive)
        except (OSError, subprocess.SubprocessError) as error:
            raise Missing(f"Debian's arm64 kernel and busybox could not be downloaded: {error}") from error
    return [paths[0] for paths in found()]


def needed(program):
    """The shared libraries that a program is started with, and its loader."""
    asked, names = [program], {"ld-linux-aarch64.so.1"}
    while asked:
        dynamic = subprocess.run(["readelf", "-d", asked.pop()], capture_output=True, text=True, check=True).stdout
        new = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)) - names
        names |= new
        asked += [os.path.join(LIBRARIES, "lib", name) for name in new]
    return names


def initramfs(folder, fathom, busybox):
    """All that the guest has, as a compressed archive."""
    tree = os.path.join(folder, "root")
    guest.folders(tree)
    os.makedirs(os.path.join(tree, "lib"))
    shutil.copy(busybox, os.path.join(tree, "bin", "busybox"))
    # Its debug information would only have to be unpacked.
    strip = COMPILER.removesuffix("gcc") + "strip"
    subprocess.run([strip, "--strip-debug", "-o", os.path.join(tree, "bin", "fathom"), fathom], check=True)
    for name, (source, flags) in PROGRAMS.items():
        subprocess.run([COMPILER, "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", os.path.join(ROOT, source), "-o",
                        os.path.join(tree, "bin", name), "-pthread", *flags.split()], check=True)
    for library in needed(fathom) | needed(os.path.join(tree, "bin", "counted")):
        shutil.copy(os.path.join(LIBRARIES, "lib", library), os.path.join(tree, "lib"))
    here = shutil.which("busybox")
    if here is None:
        raise Missing("there is no busybox (Debian: busybox-static)")
    path = os.path.join(folder, "initramfs.gz")
    guest.packed(tree, init(), here, path)
    return path


def boot(folder, kernel, archive):
    """Runs the guest to its end; gives what it sent."""
    console = os.path.join(folder, "console.txt")
    shift = NANOSECONDS_PER_INSTRUCTION.bit_length() - 1
    # The kernel signs its return addresses; the architecture's own algorithm is slow to emulate.
    command = [need("qemu-system-aarch64", "qemu-system-arm"), "-M", "virt", "-accel", "tcg", "-cpu", "max,pauth-impdef=on", "-icount",
               f"shift={shift}", "-smp", "1", "-m", "768M", "-kernel", kernel, "-initrd", archive, "-append",
               "console=ttyAMA0 quiet panic=-1", "-display", "none", "-no-reboot", "-nodefaults", "-nic", "none", "-serial",
               f"file:{console}"]
    guest.run(command, console, TIMEOUT_SECONDS)
    with open(console, errors="replace") as file:
        text = file.read()
    sent = re.search(r"FATHOM-BEGIN\s+(.*?)FATHOM-END", text, re.DOTALL)
    if sent is None:
        sys.exit(f"the guest sent nothing; its console: {text[-3000:]}")
    print(text[:sent.start()])
    return sent[1]


class Result:
    """What the guest recorded, read by the views under the emulation of one process."""

    def __init__(self, reader, folder, name):
        self.reader, self.folder, self.name = reader, folder, name

    def view(self, view, *options):
        command = [*self.reader, "report", view, "-r", os.path.join(self.folder, self.name), "--format", "json", *options]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def rows(self, view, *options):
        return self.view(view, *options)["rows"]

    def printed(self):
        """What the program printed, by name."""
        with open(os.path.join(self.folder, f"{self.name}.txt")) as file:
            return dict(line.strip().split("=", 1) for line in file if "=" in line)

    def notes(self):
        return " ".join(self.view("summary")["notes"])


class Checks:
    """What is wrong, and how often something was compared."""

    def __init__(self):
        self.problems, self.made = [], 0

    def that(self, holds, what):
        self.made += 1
        if not holds:
            self.problems.append(what)

    def about(self, what, figure, known, percent=0.0):
        """A figure is a known one, by its interval or within so many percent."""
        value = figure["value"] if isinstance(figure, dict) else None
        print(f"{what:50} {value} against {known}")
        near = value is not None and abs(value - known) <= known * percent / 100 + 1e-9
        inside = value is not None and figure["low"] is not None and figure["low"] <= known <= figure["high"]
        self.that(near or inside, f"{what}: {figure} instead of {known}")


def check_time(checks, result, percent=20):
    """Samples: who ran, how long (a thousand samples, or a tenth of that by ptrace), called by whom."""
    printed = result.printed()
    rows = result.rows("callees")
    path, found = [], {}
    for row in rows:
        del path[row["level"]:]
        path.append(row["function"])
        found["/".join(path)] = row
    for name in ("hot_a", "hot_b"):
        whole = [row for path, row in found.items() if path.endswith(f"/main/{name}")]
        outermost = [path for path in found if path.endswith(f"/main/{name}") and path.startswith("_start/")]
        checks.that(len(whole) == 1 and outermost, f"{result.name}: {name} is not called by main from _start: {list(found)[:12]}")
        if len(whole) == 1:
            checks.about(f"{result.name}: seconds in {name}", whole[0]["total_time"], int(printed[f"{name}_cpu_ns"]) / 1e9,
                         percent)
            checks.that(whole[0]["line"] is not None, f"{result.name}: {name} has no line")


def check_attached(checks, result):
    """A process that ran before: samples as ever; its heap is refused with the reason."""
    names = {row["function"] for row in result("attached").rows("callees")}
    checks.that({"_start", "main", "hot_a", "hot_b"} <= names, f"attached: {names}")
    checks.that("unavailable on aarch64" in result("attached_heap").notes(), f"attached heap: {result('attached_heap').notes()}")
    with open(os.path.join(result("").folder, "reported.txt")) as file:
        checks.that("inlined_work" in file.read(), "the guest's own report has no inlined_work")


def check_counts(checks, result):
    """The PMU's counts of loops with a known number of instructions."""
    rows = {row["event"]: row for row in result.rows("events")}
    instructions = int(result.printed()["instructions"])
    checks.about("instructions", rows["instructions"]["count"], instructions, 3)
    # A cycle of the emulator's PMU is a nanosecond, which half an instruction takes.
    checks.about("cycles", rows["cycles"]["count"], instructions * NANOSECONDS_PER_INSTRUCTION, 3)
    faults = rows.get("page-faults")
    checks.that(faults is not None and 0 < faults["count"]["value"] < 2000, f"page-faults: {faults}")
    # The emulator has no caches: a count would be made up.
    checks.that("cache-misses" not in rows and "cache-misses" in result.notes(), f"cache-misses: {rows}, {result.notes()}")


def check_sampled(checks, result):
    """Samples of events, by function."""
    instructions = int(result.printed()["instructions"])
    rows = {(row["event"], row["function"]): row["count"] for row in result.rows("events", "-g", "function")}
    for event, of_one in (("instructions", 1), ("cycles", NANOSECONDS_PER_INSTRUCTION)):
        for function, part in (("counted_most", 0.75), ("counted_few", 0.25)):
            checks.about(f"{event} in {function}, sampled", rows.get((event, function)), part * instructions * of_one, 20)
    per_instruction = {row["function"]: row["cpi"] for row in result.rows("uarch", "-g", "function")}
    checks.about("cycles per instruction of counted_most", per_instruction.get("counted_most"), NANOSECONDS_PER_INSTRUCTION, 20)


def check_heap(checks, result, every_block):
    printed = result.printed()
    heap = result.view("summary")["heap"]
    calls = sum(int(printed[f"{call}_calls"]) for call in ("malloc", "calloc", "realloc", "aligned"))
    checks.about(f"{result.name}: blocks", heap["allocations"], calls)
    checks.about(f"{result.name}: bytes", heap["bytes_allocated"], int(printed["bytes_asked"]))
    checks.about(f"{result.name}: peak", heap["peak_bytes"], int(printed["bytes_peak"]))
    rows = {row["function"]: row for row in result.rows("allocations")}
    checks.that({"alloc_large", "alloc_small"} <= set(rows), f"{result.name}: allocations by {list(rows)}")
    checks.that(not every_block or "unavailable on aarch64" in result.notes(), f"{result.name}: {result.notes()}")


def check_threads(checks, result):
    waits = result.rows("waits")
    locks = [row for row in waits if row["reason"] == "lock"]
    checks.that(locks and locks[0]["object"] == "shared_lock" and locks[0]["function"] == "hold_lock", f"waits: {waits}")
    threads = {row["thread"].split(" ")[0]: row for row in result.rows("threads")}
    for name in ("holder-0", "holder-1"):
        waited = sum(threads[name][f"{kind}_wait"]["value"] or 0 for kind in ("lock", "sleep", "other"))
        # It sleeps with the lock, or waits until the other has slept; how much of each is an estimate from some stacks.
        checks.about(f"{name}: seconds asleep or waiting for the lock", {"value": waited, "low": None},
                     threads[name]["end"] - threads[name]["start"], 5)


def check_kernel(checks, result):
    printed = result.printed()
    entries = {row["name"]: row for row in result.rows("kernel")}
    for name in ("getppid", "clock_nanosleep"):
        checks.about(f"entries of {name}", entries[name]["entries"], int(printed[name]))


def check_regions(checks, result):
    """Regions that the program marks by fathom.h."""
    printed = result.printed()
    regions = {row["region"]: row for row in result.rows("regions")}
    for name in ("outer", "inner", "tiny"):
        checks.about(f"passes of the region {name}", regions[name]["passes"], int(printed[name]))
    # The program's own times include the calls, the first of which loads a library.
    for name in ("outer", "inner"):
        checks.about(f"seconds in the region {name}", regions[name]["time"], int(printed[f"{name}_ns"]) / 1e9, 20)


def check_machine(checks, folder):
    """The machine is measured; what has no loop here is not there."""
    with open(os.path.join(folder, "machine.json")) as file:
        measured = json.load(file)["calibration"]
    rates = {point["kernel"]: point["program"]["value"] for point in measured["bandwidth"]}
    checks.that(all(rates.values()) and "load" in rates and not any(name.endswith("-nt") for name in rates), f"bandwidth: {rates}")
    # Sixteen loads and two other instructions a turn, without caches.
    latency = NANOSECONDS_PER_INSTRUCTION * 18 / 16
    checks.about("nanoseconds per load of a chase", measured["ladder"][0]["latency"], latency, 10)
    checks.that(measured["flops_peak"]["value"] > 0 and measured["page_fault_4k"]["value"] > 0, f"{measured}")


def check_absent(checks, result):
    """Memory accesses: time is sampled, and what is missing says why."""
    summary = result.view("summary")
    why = "unavailable on aarch64"
    checks.that(why in result.notes(), f"accesses: no reason in {result.notes()}")
    for name, figure in (("bandwidth", summary["dram_bandwidth"]["average"]), ("loads", summary["loads"])):
        checks.that(figure["value"] is None and figure["note"].startswith(why), f"accesses: {name}: {figure}")


def check_user_mode(checks, reader, folder):
    """What needs no kernel of its own: the program starts, names what is missing, imports and reports."""
    def told(*arguments):
        return subprocess.run([*reader, *arguments], capture_output=True, text=True, cwd=folder, env={**os.environ, "HOME": folder})

    checks.that(told("--version").stdout.startswith("fathom "), "--version")
    doctor = told("doctor").stdout
    checks.that("exact memory accesses" in doctor and doctor.count("unavailable on aarch64") == 2, f"doctor: {doctor}")
    fixtures = os.environ.get("FATHOM_FIXTURES", os.path.join(ROOT, "..", "shared", "fixtures"))
    recorded = os.path.join(fixtures, "perfdata-rust-lib", "sleep.compressed.data")
    if os.path.exists(recorded):
        imported = told("import", "-q", "-r", os.path.join(folder, "imported"), recorded)
        checks.that(imported.returncode == 0, f"import: {imported.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fathom", type=os.path.abspath, help="the program for aarch64; without, it is built")
    parser.add_argument("--keep", help="leave the results there")
    options = parser.parse_args()
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
    checks = Checks()
    try:
        with tempfile.TemporaryDirectory() as folder:
            emulator = need("qemu-aarch64-static", "qemu-user-static")
            need("qemu-system-aarch64", "qemu-system-arm")
            fathom = options.fathom or built(os.path.join(target, "aarch64"))
            reader = [emulator, "-L", LIBRARIES, fathom]
            check_user_mode(checks, reader, folder)
            downloads = os.path.join(target, "tools", "arm64")
            os.makedirs(downloads, exist_ok=True)
            kernel, busybox = debian(downloads)
            results = options.keep or os.path.join(folder, "results")
            guest.unpacked(boot(folder, kernel, initramfs(folder, fathom, busybox)), results)
            check_guest(checks, lambda name: Result(reader, results, name))
    except Missing as reason:
        print(f"skipped: {reason}")
        return
    if checks.problems:
        sys.exit("\n".join(checks.problems))
    print(f"passed: {checks.made} checks of Fathom on aarch64")


def check_guest(checks, result):
    for name in ("hotspots", "signed", "static"):
        check_time(checks, result(name))
    check_time(checks, result("ptrace"), 60)
    check_attached(checks, result)
    check_counts(checks, result("counts"))
    check_sampled(checks, result("sampled"))
    check_heap(checks, result("heap"), False)
    check_heap(checks, result("heap_all"), True)
    check_threads(checks, result("threads"))
    check_kernel(checks, result("kernel"))
    check_regions(checks, result("regions"))
    check_absent(checks, result("accesses"))
    check_machine(checks, result("").folder)


if __name__ == "__main__":
    main()
