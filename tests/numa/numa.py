#!/usr/bin/env python3
"""Remote memory on a machine that has none: virtual ones with NUMA nodes, emulated by QEMU, record programs.

What for: the whole way from move_pages(2) in a guest to the finding; `fathom machine` on several nodes and on one without CPUs; and
what `fathom report nodes` predicts, from a recording on one node and from one on several, against what was measured and what
arithmetic says (placed.c). What not: times; the emulator knows no near and far, and only software events exist in it.

A guest is a Debian kernel with an initramfs of busybox, fathom, the programs, and the libraries they need. Results come back as text
over its second serial line. Needs qemu-system-x86_64, a static busybox, and a kernel: one in /boot, or that of `scripts/packages.sh
numa`. Where one is missing it says `skipped: REASON`, and ends well. `--smoke` is what `make test` runs.

    tests/numa/numa.py [--fathom PATH] [--kernel vmlinuz] [--keep DIR] [--store] [--shape 2x1+1 | --smoke]
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
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "bench")]
import common  # noqa: E402
import guest  # noqa: E402
from guest import Missing  # noqa: E402

FINDINGS = os.path.join(ROOT, "tests", "findings")
# The first is filled by a thread of node 0 and read by one of node 1; the second filled by its reader.
REMOTE, LOCAL = "table_elsewhere", "table_at_home"
PLACED = os.path.join(ROOT, "tests", "numa", "placed.c")
# An emulator on a busy machine is slow; a guest that hangs is ended all the same.
TIMEOUT_SECONDS = 1500
RUN_SECONDS = 8
PLACED_SECONDS = 8
# Under `fathom place`, which is a large program: an emulator takes seconds to look where its pages are, and the next look has to wait.
TIER_SECONDS = 20
# Percent that arithmetic may be outside of an interval, which is one of 95 %.
OUTSIDE = 5


class Shape:
    """A guest: as `fathom report nodes --topology` takes it (2x1+1), and what runs on it. Programs have a thread for each CPU."""

    def __init__(self, name, ways, findings=False, machine=False):
        self.name, self.ways, self.findings, self.machine = name, ways, findings, machine
        shape, _, alone = name.partition("+")
        self.with_cpus, self.cpus = (int(part) for part in shape.split("x"))
        self.nodes = self.with_cpus + int(alone or 0)
        self.threads = self.with_cpus * self.cpus

    def arithmetic(self, way):
        """Percent of the accesses of a program of placed.c that are remote."""
        apart = 1 - 1 / self.with_cpus
        half = sum(1 for part in range(self.with_cpus) if part % 2) / self.with_cpus
        return 100 * {"own": 0, "central": apart, "swapped": 1, "half": half, "shared": apart, "one": 0, "mixed": apart / 2,
                      "cold": apart / 31,
                      "waves": apart, "around": 1 - 1 / self.nodes}[way]


WAYS = ["own", "central", "swapped", "half", "shared", "one", "mixed", "cold", "waves", "around"]
SHAPES = [
    Shape("2x1", WAYS, findings=True),
    Shape("4x1", WAYS),
    Shape("2x1+1", WAYS, machine=True),
]
# On the node without CPUs: the way that is predicted, the row, the same placement really done, and percent of the accesses there.
COLD_BYTES = 2 * (8 << 20) + 4096
ON_TIER = [
    ("central", "all on a tier", "central-tier", "fathom place --membind=2", 100),
    ("cold", "cold on a tier", "cold-tier", f"fathom place --object={COLD_BYTES} --object-nodes=2", 100 / 31),
]
SMOKE = [Shape("2x1", ["central"])]


# What placements of `fathom place` and `fathom try` do, and that they leave the machine as it was, also when killed.
OWN = "cat /proc/self/status /proc/self/numa_maps"
PLACEMENTS = [
    f"fathom place --interleave all -- {OWN} > /tmp/out/interleaved.txt",
    f"fathom place -N 1 -m 1 -- {OWN} > /tmp/out/bound.txt",
    "fathom place -m 2 -- true 2> /tmp/out/wrong.txt",
    "fathom try numa-interleave numa-cpus numa-memory numa-bind -q --budget 1 --format json -- /bin/placed one 1 1 2 > /tmp/out/try.json",
    "fathom place --next-touch -- /bin/placed central 12 2 2 & sleep 9; cat /proc/$!/numa_maps > /tmp/out/touched.txt; wait",
    "fathom place --object 16777216 --object-nodes 1 --object-after 6 -- /bin/placed own 20 2 2 & sleep 4",
    "cat /proc/$!/numa_maps > /tmp/out/before.txt; sleep 13; cat /proc/$!/numa_maps > /tmp/out/object.txt; wait",
    "/bin/placed central 9 2 2 & sleep 7; cat /proc/$!/numa_maps > /tmp/out/untouched.txt; wait",
    "fathom try next-touch tier-memory -q --budget 1 --format json -- /bin/placed central 2 2 2 > /tmp/out/try-pages.json",
    "fathom try numa-bind -q -- /bin/placed one 4 1 2 & trial=$!",
    "sleep 15; kill -9 $trial",
    f"{OWN} > /tmp/out/after.txt",
]


def init(shape):
    """What a guest does."""
    runs = [(name, f"/bin/{name} {RUN_SECONDS}") for name in (REMOTE, LOCAL) if shape.findings]
    runs += [(way, f"/bin/placed {way} {PLACED_SECONDS} {shape.threads} {shape.nodes}") for way in shape.ways]
    if shape.machine:
        runs += [(name, f"{place} -- /bin/placed {way} {TIER_SECONDS} {shape.threads} {shape.nodes}")
                 for way, _, name, place, _ in ON_TIER]
    # A burst stops an emulated program for some 60 ms: by the allowed overhead there would be four of them.
    options = "--quiet -k dram-bandwidth-limits=false -k burst-interval=100"
    lines = [f"fathom run {options} -r /tmp/out/{name} -- {command} || echo {name} failed" for name, command in runs]
    if shape.machine:
        lines.append("fathom machine --format json > /tmp/out/machine.json")
        lines.append("fathom try tier-memory tier-interleave -q --budget 1 --format json -- /bin/placed one 1 1 3 > /tmp/out/try-tier.json")
    if shape.findings:
        lines += PLACEMENTS
    return f"""{guest.INIT}# Else the kernel moves pages to the thread that uses them, sooner or later.
echo 0 > /proc/sys/kernel/numa_balancing
{chr(10).join(lines)}
stty -F /dev/ttyS1 raw
tar c -C /tmp/out . | gzip | base64 > /dev/ttyS1
poweroff -f
"""


def kernel():
    """A kernel for virtual machines: of this system, or what `scripts/packages.sh numa` took from the Debian archive."""
    tools = os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"), "tools")
    found = [path for where in ("/boot", tools) for path in sorted(glob.glob(os.path.join(where, "vmlinuz-*cloud-amd64")))]
    if not found:
        raise Missing("there is no kernel for virtual machines (vmlinuz-*cloud-amd64): scripts/packages.sh numa")
    return found[-1]


def libraries(program):
    """The shared libraries that a program is started with, and its loader."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", listed)


def initramfs(folder, fathom, shape):
    """All that a guest has, as a compressed archive."""
    tree = os.path.join(folder, "root", shape.name)
    guest.folders(tree)
    placed = os.path.join(folder, "placed")
    subprocess.run(["cc", "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", PLACED, "-o", placed, "-pthread"], check=True)
    programs = {"fathom": fathom, "placed": placed}
    if shape.findings:
        programs |= {name: os.path.join(FINDINGS, "build", name) for name in (REMOTE, LOCAL)}
    busybox = shutil.which("busybox")
    if busybox is None or "=>" in subprocess.run(["ldd", busybox], capture_output=True, text=True).stdout:
        raise Missing("there is no static busybox (Debian: busybox-static)")
    programs["busybox"] = busybox
    needed = {library for path in (fathom, placed) for library in libraries(path)}
    for name, path in programs.items():
        target = os.path.join(tree, "bin", name)
        # Its debug information would only have to be unpacked.
        if name != "fathom" or subprocess.run(["strip", "-o", target, path]).returncode != 0:
            shutil.copy(path, target)
    for library in needed:
        target = tree + library
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.realpath(library), target)
    path = os.path.join(folder, f"initramfs-{shape.name}.gz")
    guest.packed(tree, init(shape), busybox, path)
    return path


def boot(folder, vmlinuz, archive, shape):
    """Runs the guest to its end; gives what it wrote to its second serial line."""
    if shutil.which("qemu-system-x86_64") is None:
        raise Missing("there is no qemu-system-x86_64 (Debian: qemu-system-x86)")
    megabytes = 768 if shape.with_cpus < 4 else 512
    nodes = []
    for node in range(shape.nodes):
        cpus = f"cpus={node * shape.cpus}-{(node + 1) * shape.cpus - 1}," if node < shape.with_cpus else ""
        nodes += ["-object", f"memory-backend-ram,id=m{node},size={megabytes}M", "-numa", f"node,nodeid={node},{cpus}memdev=m{node}"]
    for source in range(shape.nodes):
        for to in range(source + 1, shape.nodes):
            nodes += ["-numa", f"dist,src={source},dst={to},val={21 if to < shape.with_cpus else 17}"]
    console, out = (os.path.join(folder, f"{name}-{shape.name}.txt") for name in ("console", "out"))
    command = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", str(shape.threads), "-m",
               f"{megabytes * shape.nodes}M", *nodes, "-kernel", vmlinuz, "-initrd", archive, "-append",
               "console=ttyS0 quiet panic=-1", "-display", "none", "-no-reboot", "-nodefaults", "-nic", "none",
               "-serial", f"file:{console}", "-serial", f"file:{out}"]
    guest.run(command, console, TIMEOUT_SECONDS)
    text = open(out).read()
    if not text:
        sys.exit(f"the guest sent nothing; its console: {open(console).read()[-2000:]}")
    return text


def summary(fathom, result):
    text = subprocess.run([fathom, "report", "summary", "-r", result, "--format", "json"], capture_output=True, text=True,
                          check=True).stdout
    return json.loads(text)


def told(fathom, result):
    """All findings, and why rules are silent."""
    return subprocess.run([fathom, "report", "findings", "-r", result], capture_output=True, text=True, check=True).stdout


def check_findings(fathom, results):
    """What is wrong with the findings of the two programs."""
    remote, local = (summary(fathom, os.path.join(results, name)) for name in (REMOTE, LOCAL))
    nodes = remote["host"]["numa_nodes"]
    found = [one for one in remote["findings"] if one["id"] == "remote-memory"]
    problems = []
    if nodes != 2:
        problems.append(f"the guest has {nodes} NUMA nodes instead of 2")
    where = found[0]["where"] if len(found) == 1 else {}
    if where.get("function") != "sum" or "table_elsewhere.c" not in (where.get("object") or ""):
        problems.append(f"{REMOTE}: no remote-memory in sum and its table, but:\n{told(fathom, os.path.join(results, REMOTE))}")
    else:
        share = found[0]["evidence"][0]["metric"]
        print(f"{REMOTE}: {share['value']:.1f} % ({share['low']:.1f} to {share['high']:.1f}) of the lines are remote")
        if share["low"] < 50:
            problems.append(f"{REMOTE}: only {share['low']:.0f} % or more are remote")
    if any(one["id"] == "remote-memory" for one in local["findings"]):
        problems.append(f"{LOCAL}: remote-memory is found")
    return problems


def on_node_1(path):
    """Percent of the pages of large mappings that are on node 1."""
    found = [0, 0]
    with open(path) as file:
        for line in file:
            pages = {int(node): int(count) for node, count in re.findall(r" N(\d)=(\d+)", line)}
            if sum(pages.values()) >= 1024 and " anon=" in line:
                found = [sum_ + pages.get(node, 0) for node, sum_ in enumerate(found)]
    return 100 * found[1] / max(sum(found), 1)


def check_remedies(results):
    """What is wrong with the remedies of placement."""
    def has(name, *wanted):
        with open(os.path.join(results, name)) as file:
            text = file.read()
        return [f"{name}: no {what!r} in:\n{text}" for what in wanted if what not in text]

    problems = has("interleaved.txt", "Cpus_allowed_list:\t0-1", " interleave:0-1 ")
    problems += has("bound.txt", "Cpus_allowed_list:\t1\n", " bind:1 ")
    problems += has("wrong.txt", "no NUMA node 2 with memory; there are 0, 1")
    problems += has("after.txt", "Cpus_allowed_list:\t0-1", " default ")
    problems += has("try.json", '"verdict"')
    # Pages of the two blocks on node 1, percent: filled by a thread of node 0, half of one is used from node 1, the other not at all.
    for name, least, most in [("untouched.txt", 0, 5), ("touched.txt", 20, 30), ("before.txt", 20, 30), ("object.txt", 95, 100)]:
        share = on_node_1(os.path.join(results, name))
        print(f"{name}: {share:.0f} % of the large blocks on node 1")
        if not least <= share <= most:
            problems.append(f"{name}: {share:.0f} % on node 1 instead of {least} to {most}")
    with open(os.path.join(results, "try.json")) as file:
        rows = json.load(file)["rows"]
    lines = {row["remedy"]: row["line"] for row in rows}
    print(f"fathom try: {lines}")
    wanted = {"(as it is)": None, "numa-interleave": "fathom place --interleave=all", "numa-cpus": "fathom place --cpunodebind=0",
              "numa-memory": "fathom place --membind=0", "numa-bind": "fathom place --cpunodebind=0 --membind=0"}
    failed = [row for row in rows if row["verdict"] is not None and ("fails" in row["verdict"] or "prints" in row["verdict"])]
    return problems + ([f"fathom try: {rows}"] if lines != wanted or failed else [])


def placements(fathom, result, shape):
    """By placement, the share of remote accesses that `report nodes` has; and all that it says."""
    command = [fathom, "report", "nodes", "-r", result, "--topology", shape.name, "--format", "json"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {row["placement"]: row["remote"] for row in json.loads(text)["rows"]}, text


def words(share):
    return "n/a" if share is None or share["value"] is None else f"{share['value']:5.1f} ({share['low']:.1f} to {share['high']:.1f})"


# Where the recording of a prediction was made.
WHERE = ("on one node", "there")


class Compared:
    """Percent of remote accesses: predicted, measured, and by arithmetic."""

    def __init__(self):
        self.problems, self.rows = [], []

    def add(self, names, predicted, measured, arithmetic, text=""):
        """`names`: topology, program, placement. `predicted`: by where it was recorded."""
        problems, told = [], measured is not None and measured["value"] is not None
        for where, one in predicted.items():
            if not told or one is None or one["value"] is None:
                continue
            both = [metric for metric in (one, measured) if metric is not None and metric["value"] is not None]
            near = [metric["low"] - OUTSIDE <= arithmetic <= metric["high"] + OUTSIDE for metric in both]
            # Most bursts are in both, but of some the nodes of the pages are not known.
            overlap = both[0]["low"] <= both[1]["high"] and both[1]["low"] <= both[0]["high"]
            if not overlap or not all(near):
                problems.append(f"{', '.join(names)}: predicted {words(one)} {where}, measured {words(measured)}, but {arithmetic:.1f} % "
                                f"is right\n{text}")
        self.problems += problems
        cells = [*names, *(words(predicted.get(where)) for where in WHERE), words(measured), f"{arithmetic:.1f}"]
        all_told = told and all(one is not None and one["value"] is not None for one in predicted.values())
        cells.append("NO" if problems else "yes" if all_told else "not told")
        self.rows.append([cell.strip() for cell in cells])
        print(*(f"{cell:22}" for cell in self.rows[-1]), flush=True)

    def text(self):
        """The table, to be stored."""
        head = ["topology", "program", "memory", *(f"predicted {where}" for where in WHERE), "measured", "by arithmetic", "right"]
        rows = "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *self.rows))
        right, told = (sum(row[-1] in those for row in self.rows) for those in (["yes"], ["yes", "NO"]))
        return f"""# Remote accesses: predicted and measured

{common.machine()}

Virtual machines that QEMU emulates, with one CPU for each thread; the third node of 2x1+1 has no CPUs. Percent of the accesses to another
node, with intervals of 95 %. *Predicted* by `fathom report nodes --topology`, from a recording on a machine with one node and as many CPUs, and from
one on that topology. *Measured* by the nodes of pages (`move_pages`) and the CPUs of bursts; in rows of a remedy, of the program that is
written or placed so. *By arithmetic*: the head of `tests/numa/placed.c`. *Right*: predicted and measured intervals meet, and arithmetic is within {OUTSIDE}
points of both; *not told*: one of them had too few bursts, or the nodes of too few pages. Times are not compared: an emulator knows no near
and far.

{right} of {told} rows are right, of {len(self.rows)} in all.

{rows}
"""


def check_placements(fathom, results, shape, compared, one_node):
    """Predicted against measured against arithmetic; `one_node` has the recordings on one node, if any."""
    problems, measured, predicted = [], {}, {}
    for way in shape.ways:
        folders = {"there": os.path.join(results, way)}
        if one_node:
            folders["on one node"] = os.path.join(one_node, way)
        absent = [where for where, folder in folders.items() if not os.path.isdir(folder)]
        if absent:
            problems.append(f"{shape.name}, {way}: no result of it {', '.join(absent)}")
            continue
        found = {where: placements(fathom, folder, shape) for where, folder in folders.items()}
        predicted[way] = {where: rows for where, (rows, _) in found.items()}
        measured[way] = predicted[way]["there"].get("where it was recorded")
        # What set_mempolicy does is not first touch.
        like = "interleave" if way == "around" else "as it is"
        compared.add((shape.name, way, like), of_row(predicted[way], like), measured[way], shape.arithmetic(way), found["there"][1])
        problems += check_other_views(fathom, folders["there"], measured[way], way)
    # A remedy's prediction is measured where the program was written so.
    remedies = [("central", "first touch by users", "own"), ("central", "interleave", "around")]
    known = [(*names, shape.arithmetic(names[2])) for names in remedies]
    if shape.machine:
        for way, remedy, name, _, arithmetic in ON_TIER:
            measured[name] = placements(fathom, os.path.join(results, name), shape)[0].get("where it was recorded")
            known.append((way, remedy, name, arithmetic))
    for way, remedy, really, arithmetic in known:
        if way in predicted and really in measured:
            compared.add((shape.name, way, remedy), of_row(predicted[way], remedy), measured[really], arithmetic)
    return problems


def of_row(predicted, placement):
    return {where: rows.get(placement) for where, rows in predicted.items()}


def check_other_views(fathom, result, measured, way):
    """The summary has the same share; the objects have who touched them first."""
    problems = []
    share = summary(fathom, result)["remote_accesses"]
    if (share or {}).get("value") is None and (measured or {}).get("value") is None:
        print(f"{way}: the nodes of its pages are hardly known")
    elif share != measured:
        problems.append(f"{way}: {words(share)} remote in the summary, {words(measured)} in report nodes")
    if way == "central":
        command = [fathom, "report", "objects", "-r", result, "--format", "json"]
        rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["rows"]
        # That of the parts: the threads wait for it.
        thread, function, share = (rows[0][key] for key in ("first_thread", "first_function", "first_percent"))
        print(f"{way}: {rows[0]['object']} was touched first by {thread} in {function}, {words(share)} %")
        if thread is None or function != "fill_pages" or share["value"] != 100:
            problems.append(f"{way}: one thread filled the parts, but they were touched first by {thread} in {function}, {words(share)} %")
    return problems


def check_tried(results, name, wanted):
    """The lines of the remedies that were tried, and that none of them changed the program."""
    with open(os.path.join(results, name)) as file:
        tried = json.load(file)
    rows = [row for row in tried["rows"] if row["remedy"] != "(as it is)"]
    print(f"{name}: {[(row['remedy'], row['verdict']) for row in rows]}; {tried['notes']}")
    lines = {row["remedy"]: row["line"] for row in rows}
    failed = [row for row in rows if "fails" in row["verdict"] or "prints" in row["verdict"]]
    return [f"{name}: {tried}"] if lines != wanted or failed else []


def check_machine(results, shape):
    """Each node with CPUs reaches the memory of each node."""
    with open(os.path.join(results, "machine.json")) as file:
        pairs = json.load(file)["calibration"].get("node_pairs", [])
    wanted = [(source, to) for source in range(shape.with_cpus) for to in range(shape.nodes)]
    problems = []
    if [(pair["from"], pair["to"]) for pair in pairs] != wanted:
        problems.append(f"{shape.name}: fathom machine measured the pairs {pairs}")
    for pair in pairs:
        figures = {name: pair[name] for name in ("latency", "one_thread", "all_threads")}
        print(f"{shape.name}, memory of node {pair['to']} from node {pair['from']}: "
              + ", ".join(f"{one['value'] or 'n/a'} {one['unit']}" for one in figures.values()))
        problems += [f"{shape.name}: {name} is not available: {one['note']}" for name, one in figures.items() if not one["value"]]
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fathom", type=os.path.abspath, default=os.path.join(ROOT, "target", "release", "fathom"))
    parser.add_argument("--kernel")
    parser.add_argument("--keep", help="leave the results there")
    parser.add_argument("--store", action="store_true", help="put the table into bench/results/numa.md")
    parser.add_argument("--shape", choices=[shape.name for shape in SHAPES], help="only this guest")
    parser.add_argument("--smoke", action="store_true", help="one program on the smallest guest")
    options = parser.parse_args()
    shapes = SMOKE if options.smoke else [shape for shape in SHAPES if options.shape in (None, shape.name)]
    if any(shape.findings for shape in shapes):
        subprocess.run(["make", "-s", "-C", FINDINGS], check=True)
    problems, compared, one_node = [], Compared(), {}
    with tempfile.TemporaryDirectory() as folder:
        def ran(shape):
            """The results of a guest."""
            results = os.path.join(options.keep or os.path.join(folder, "results"), shape.name)
            guest.unpacked(boot(folder, vmlinuz, initramfs(folder, options.fathom, shape), shape), results)
            return results

        try:
            vmlinuz = options.kernel or kernel()
            for shape in shapes:
                if not options.smoke and shape.threads not in one_node:
                    one_node[shape.threads] = ran(Shape(f"1x{shape.threads}", WAYS))
                results = ran(shape)
                if shape.findings:
                    problems += check_findings(options.fathom, results)
                    problems += check_remedies(results)
                    problems += check_tried(results, "try-pages.json", {"next-touch": "fathom place --next-touch"})
                if shape.machine:
                    problems += check_tried(results, "try-tier.json", {"tier-memory": "fathom place --membind=2"})
                    problems += check_machine(results, shape)
                problems += check_placements(options.fathom, results, shape, compared, one_node.get(shape.threads))
        except Missing as reason:
            print(f"skipped: {reason}")
            return
    if options.store:
        common.store("numa", compared.text())
    problems += compared.problems
    if problems:
        sys.exit("\n".join(problems))
    print("passed")


if __name__ == "__main__":
    main()
