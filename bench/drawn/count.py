"""The truth of a drawn program: every access of its very binary, counted by callgrind, linear in the repeats of its phases.

One run with three repeats of each phase is cut at `drawn_mark`: the last repeat is what each further one costs, the rest
is fixed. Where the caches are not yet in turn then, it is nine repeats. What a figure is:
- loads, stores: instructions that read, that write memory; one that does both is both (callgrind counts only its write,
  cachegrind only its read; the disassembly says which do), a vector operand is one (valgrind splits those of FMA), each lane
  of a gather is one.
- misses: callgrind's caches are exact LRU by virtual address. Real sets are filled by random pages, which matters within
  a factor of two of a level's size only; such programs are marked as border when drawn.
- bytes read from DRAM: lines that miss the last level, but not where the kernel had just cleared their page, which leaves
  them in the cache (truth.h of the truth bench says more). Bytes written: dirty lines evicted; what is left
  at the end is freed, not written.
- The second and the last level are taken at the size that a ladder of latencies shows and at the size that the processor
  names; random pages and shared hosts make them differ. The last one is taken at half the smaller of these, too: pages of a
  set that nearly fills it fall into the same sets of the cache by chance, and threads share it. Shares and traffic are ranges; a
  wide one is no truth, and not scored.

What not: hardware prefetches, page-table walks, the kernel, other processes. Threads take turns under valgrind and share one
first-level cache there.
"""
import hashlib
import json
import os
import re
import subprocess
import tempfile

MODIFYING = re.compile(r"^(lock )?(add|sub|adc|sbb|and|or|xor|inc|dec|neg|not|shl|shr|sar|sal|rol|ror|xchg|xadd|cmpxchg|bt[src])"
                       r"[bwlq]?$")
# Of instructions that read memory, those that also write it included: their number, and where they missed.
OWN = ("loads", "stores", "l1_misses", "last_misses")
REPEATS = 3
# Sizes of the last level.
LAST = ("seen", "named", "half")
EVENTS = ("Ir", "Dr", "Dw", "D1mr", "D1mw", "DLmr", "DLmw", "DLdmr", "DLdmw", "ILdmr", "ILmr")
# Where fewer of the loads than this leave the first level, it is not told apart which of the next serves them.
FEW_LOADS = 0.01
with open(__file__, "rb") as own_source:
    SOURCE = own_source.read()


class CountError(Exception):
    """Why a program could not be counted."""


def disassembled(binary):
    """({address: "modifies" or "gather" or "string"}) of the instructions that callgrind counts otherwise."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", binary], capture_output=True, text=True, check=True).stdout
    special = {}
    for line in text.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\t((?:lock |rep[nz]* |notrack |bnd )?)(\S+)\s*(.*)", line)
        if not match:
            continue
        address, prefix, name, operands = match.groups()
        operands = operands.split("#")[0].split("<")[0].strip()
        if prefix.startswith("rep"):
            special[int(address, 16)] = "string"
        elif "gather" in name:
            special[int(address, 16)] = "gather"
        elif MODIFYING.match(name) and operands.endswith(")"):
            special[int(address, 16)] = "modifies"
    return special


def segment_of(path, binary, special):
    """Sums over one dump: callgrind's events, and OWN."""
    names, total, ours, skip = [], {}, False, False
    total = dict.fromkeys((*EVENTS, *OWN), 0)
    with open(path) as file:
        for line in file:
            if line.startswith("events:"):
                names = line.split()[1:]
            elif line.startswith("ob="):
                ours = line[3:].strip() == binary
            elif line.startswith("calls="):
                skip = True
            elif line.startswith("0x"):
                if skip:  # what the callee cost; it has lines of its own
                    skip = False
                    continue
                fields = line.split()
                values = dict(zip(names, map(int, fields[1:])))
                add_line(total, values, special.get(int(fields[0], 16)) if ours else None, ours)
    return total


def add_line(total, values, kind, ours):
    runs, reads, writes = values.get("Ir", 0), values.get("Dr", 0), values.get("Dw", 0)
    for key in EVENTS:
        total[key] += values.get(key, 0)
    if ours and kind not in ("gather", "string"):
        reads, writes = min(reads, runs), min(writes, runs)
    total["l1_misses"] += values.get("D1mr", 0)
    total["last_misses"] += values.get("DLmr", 0)
    if kind == "modifies":
        reads = writes
        total["l1_misses"] += values.get("D1mw", 0)
        total["last_misses"] += values.get("DLmw", 0)
    total["loads"] += reads
    total["stores"] += writes


def run_callgrind(binary, repeats, first, last, special):
    """The dumps of one run, in order; the last one is the program's end."""
    with tempfile.TemporaryDirectory(prefix="fathom-drawn-") as folder:
        out = os.path.join(folder, "out")
        command = ["nice", "-n", "10", "valgrind", "--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--compress-pos=no",
                   "--compress-strings=no", "--cache-sim=yes", "--simulate-wb=yes", f"--I1={first}", f"--D1={first}",
                   f"--LL={last}", "--dump-before=drawn_mark", f"--callgrind-out-file={out}", binary, *map(str, repeats)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            said = [line for line in result.stderr.splitlines() if line.startswith("==") and len(line.split(None, 1)) > 1]
            raise CountError(f"callgrind ended with {result.returncode}: {' '.join(line.split(None, 1)[1] for line in said[-3:])}")
        stated = json.loads(next(line for line in result.stdout.splitlines() if line.startswith('{"name"')))
        parts = sorted((int(name.rsplit(".", 1)[1]), name) for name in os.listdir(folder) if re.fullmatch(r"out\.\d+", name))
        dumps = [segment_of(os.path.join(folder, name), binary, special) for _, name in parts]
        if os.path.exists(out):
            dumps.append(segment_of(out, binary, special))
    return dumps, stated


def added(dumps):
    return {key: sum(dump[key] for dump in dumps) for key in dumps[0]}


def linear(dumps, phases, repeats):
    """{key: [fixed, slope of each phase]} of a run with as many repeats of each phase."""
    # Dump 0 is what comes before the first repeat; each phase has a mark per repeat, and one at its end.
    steady = [dumps[phase * (repeats + 1) + repeats] for phase in range(phases)]
    whole = added(dumps)
    return {key: [whole[key] - repeats * sum(part[key] for part in steady), *(part[key] for part in steady)] for key in whole}


def settled(dumps, phases, repeats, lines):
    """Whether the last repeat of each phase is like all later ones: it moves what the one before it moved, and what the
    cache of so many lines held at first is gone."""
    for phase in range(phases):
        own = dumps[phase * (repeats + 1) + 1:phase * (repeats + 1) + repeats + 1]
        moved = [part["DLmr"] + part["DLmw"] for part in own]
        dirty = [part["DLdmr"] + part["DLdmw"] for part in own]
        if any(abs(a - b) > max(2000, 0.03 * max(a, b)) for *_, a, b in (moved, dirty)):
            return False
        if moved[-1] > 2000 and sum(moved[:-1]) < 3 * lines:
            return False
    return True


def geometry(level_bytes, ways):
    """SIZE,WAYS,LINE as valgrind takes it: a power of two of sets, and as many ways as come nearest to the size."""
    sets = 1 << max(0, (level_bytes // (64 * ways)).bit_length() - 1)
    return f"{sets * 64 * max(1, round(level_bytes / (sets * 64)))},{max(1, round(level_bytes / (sets * 64)))},64"


def size_of(cache):
    return int(cache.split(",")[0])


def count(binary, phases, caches, store, repeats=REPEATS):
    """{"l2", "l2 seen" (or None), "seen", "named", "half": {key: [fixed, slopes...]}, "touched"}; kept in `store` by what it depends on.

    `caches`: {"l1", "l2", "l2 seen", "seen", "named", "half": geometry}; the last three are sizes of the last level.
    """
    with open(binary, "rb") as file:
        digest = hashlib.sha256(file.read() + SOURCE + json.dumps([caches, repeats]).encode())
    kept = os.path.join(store, digest.hexdigest()[:32] + ".json")
    if os.path.exists(kept):
        with open(kept) as file:
            return json.load(file)
    special = disassembled(binary)

    def counted_with(name):
        for several in (repeats, 3 * repeats):
            dumps, stated = run_callgrind(binary, [several] * phases, caches["l1"], caches[name], special)
            if len(dumps) < phases * (several + 1) + 1:
                raise CountError(f"{len(dumps)} dumps of {phases} phases")
            if settled(dumps, phases, several, size_of(caches[name]) // 64):
                break
        return linear(dumps, phases, several), stated["touched_bytes"]

    counted = {}
    counted["seen"], counted["touched"] = counted_with("seen")
    # What fits into the smaller last level fits into the larger one.
    fits = counted["touched"] < min(size_of(caches["seen"]), size_of(caches["named"])) / 2
    counted["named"] = counted["seen"] if fits else counted_with("named")[0]
    counted["half"] = counted["seen"] if fits else counted_with("half")[0]
    few = all(first - last <= FEW_LOADS * loads
              for first, last, loads in zip(*(counted["seen"][key] for key in ("l1_misses", "last_misses", "loads"))))
    counted["l2"] = None if few else counted_with("l2")[0]
    counted["l2 seen"] = None if few else counted["l2"] if caches["l2 seen"] == caches["l2"] else counted_with("l2 seen")[0]
    os.makedirs(store, exist_ok=True)
    with open(kept + ".part", "w") as file:
        json.dump(counted, file)
    os.replace(kept + ".part", kept)
    return counted


def ends(figures):
    figures = list(figures)
    return min(figures), max(figures)


def truth_at(counted, repeats):
    """{quantity: (low, high)} of a whole run. Bytes, counts, percent of loads."""
    def at(cache, *keys):
        return max(0, sum(line[0] + sum(slope * repeat for slope, repeat in zip(line[1:], repeats))
                          for line in (counted[cache][key] for key in keys)))

    loads, stores = at("seen", "loads"), at("seen", "stores")
    read = ends(max(0, 64 * at(size, "DLmr", "DLmw", "ILmr") - counted["touched"]) for size in LAST)
    written = ends(64 * at(size, "DLdmr", "DLdmw", "ILdmr") for size in LAST)
    first = at("seen", "l1_misses")
    beyond = ends(at(size, "last_misses") for size in LAST)
    truth = {"loads": (loads, loads), "stores": (stores, stores), "read": tuple(read), "write": tuple(written),
             "dram": (read[0] + written[0], read[1] + written[1])}
    shares = {"l1": (loads - first,) * 2, "dram": tuple(beyond)}
    if counted["l2"] is None:
        shares.update({"l2": (0, first - beyond[0]), "l3": (0, first - beyond[0])})
    else:
        second = sorted(at(size, "last_misses") for size in ("l2", "l2 seen"))
        shares.update({"l2": (first - second[1], first - second[0]), "l3": (second[0] - beyond[1], second[1] - beyond[0])})
    truth.update({f"{level} share": tuple(max(0, 100 * value / loads) for value in pair) for level, pair in shares.items()})
    return truth
