"""The programs of the corpus: how each is started, and what it needs. One row is one program.

`{work}` is the run's own folder, where it runs; `{data}` holds what was prepared once. A program says the same in every
run; `changing` names the lines that are no answer (process ids, times).
"""
import dataclasses
import os
import random
import re
import shutil
import subprocess

import servers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILT = os.path.join(ROOT, "tests", "programs", "build")


@dataclasses.dataclass
class Program:
    """A row."""
    name: str
    command: list
    code: int = 0  # as a shell tells it
    short: bool = False
    changing: re.Pattern | None = None
    files: tuple = ()
    environment: dict = dataclasses.field(default_factory=dict)
    # Once it runs, its code mappings, signal masks and open files stay as they are.
    steady: bool = False
    drive: object = None
    stop: object = None

    def missing(self):
        """The file it needs and that is not there, or None."""
        first = self.command[0]
        return None if shutil.which(first) else first


def own(name, *options, title=None, **more):
    """A target of tests/programs."""
    return Program(title or name, [os.path.join(BUILT, name), *options], **more)


MEASURED = re.compile(r"^\w*(_ns|_us|_tid|faults|pid|prof_handled)=")

PYTHON = """
import collections, hashlib, json, re, random, zlib
rng, seen = random.Random(1), hashlib.sha256()
for step in range(24):
    words = [f'w{rng.randrange(5000)}' for _ in range(20000)]
    counts = collections.Counter(words).most_common(500)
    text = json.dumps(counts); seen.update(text.encode())
    assert json.loads(text) == [list(pair) for pair in counts]
    seen.update(zlib.compress(re.sub(r'w(\\d)', r'<\\1>', ' '.join(sorted(words))).encode()))
    def deep(n): return 0 if n == 0 else 1 + deep(n - 1)
    try: deep(10**6)
    except RecursionError: seen.update(b'deep')
print(seen.hexdigest(), sum(pow(n, -1, 1000003) for n in range(1, 60000)))
"""

PYTHON_THREADS = """
import concurrent.futures, hashlib, subprocess
def work(n):
    value = str(n).encode()
    for _ in range(20000): value = hashlib.sha256(value).digest()
    return value.hex() + subprocess.run(['echo', str(n)], capture_output=True, text=True, check=True).stdout
with concurrent.futures.ThreadPoolExecutor(4) as pool: print(''.join(pool.map(work, range(48))))
"""

PERL = r"""
my ($seed, %count, $sum) = (1);
for (1 .. 2500000) { $seed = ($seed * 48271) % 2147483647; $count{"k" . $seed % 5000} += $seed % 100; }
for my $key (sort keys %count) { $sum = ($sum * 31 + $count{$key}) % 1000000007; }
my $text = join ",", map { "$_=$count{$_}" } sort keys %count;
my $hits = () = $text =~ /k(\d)\d*\1=\d+/g; eval { die "x\n" } for 1 .. 10000; print "$sum $hits\n";
"""

SQL = """
create table t (id integer primary key, k integer, v text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 120000)
  insert into t select i, (i * 7919) % 1009, hex(i * 104729 % 65537) from n;
create index tk on t (k); update t set v = v || k where id % 13 = 0; delete from t where id % 17 = 0;
select k, count(*), sum(length(v)) from t group by k order by 2 desc, 1 limit 10;
select count(*), sum(a.id + b.id) from t a join t b on a.k = b.k and a.id < b.id and b.id < 6000;
select sum(length(v)), max(v), (select count(*) from t where v like '%1F%') from t;
"""

NODE = """
const m = new Map(); let s = 1, h = 0;
for (let i = 0; i < 3e6; i++) { s = (s * 48271) % 2147483647; m.set(s % 5003, (m.get(s % 5003) || 0) + (s & 255)); }
for (const k of [...m.keys()].sort((a, b) => a - b)) h = (Math.imul(h, 31) + m.get(k)) | 0;
const c = require('crypto').createHash('sha256'); for (let i = 0; i < 20000; i++) c.update('x' + (i * h));
try { (function f() { f(); })(); } catch (e) { console.log(e instanceof RangeError); }
console.log(h, c.digest('hex'), JSON.stringify([...m.entries()].sort((a, b) => a[0] - b[0]).slice(0, 20)));
"""

BASH = """
sum=0
for n in $(seq 150); do
  part=$(echo "$n" | md5sum | tr -dc 0-9 | cut -c1-6); sum=$(( (sum * 31 + 10#$part) % 1000000007 ))
  (exit $((n % 3))) || sum=$((sum + $?))
done
echo $sum
"""

OWN = [
    own("signal_recovery", short=True),
    own("blocked_signals", short=True),
    own("threads_checksum", short=True),
    own("threads_checksum", "--threads", "32", "--alive", "32", "--rounds", "15000", title="threads_checksum 32"),
    own("barrier_rounds", "--rounds", "4000"),
    own("file_passes", "--rounds", "40000"),
    own("fork_loop", short=True),
    own("vfork_exec"),
    own("exec_midway", short=True),
    own("exit_midway", code=5, short=True),
    own("exceptions_map", short=True),
    own("sort_calls"),
    own("coroutines"),
    own("stack_overflow"),
    own("self_modifying"),
    own("dlopen_loop"),
    *(own("libraries_swapped", "--rounds", "1000", "--way", way, title=f"libraries_swapped {way}") for way in "012"),
    own("gs_user"),
    own("no_clock", short=True),
    own("rseq_user"),
    own("seccomp_user"),
    own("seccomp_user", "--kill", title="seccomp_user kill"),
    own("fault_address"),
    own("flags_redzone", short=True),
    own("odd_instructions", short=True),
    own("gather"),
    own("string_operations"),
    own("self_check", "--rounds", "100", steady=True),
    own("self_check_static"),
    own("no_libc", short=True),
    own("short_waits", changing=MEASURED),
    own("fib", "--n", "40", changing=MEASURED),
    own("cpp_exceptions", changing=MEASURED),
    own("signal_storm", "--count", "10000", changing=MEASURED),
    own("malloc_mix", "--rounds", "100000", changing=MEASURED),
    own("killed_by_signal", "--signal", "15", code=128 + 15, changing=MEASURED),
]

# Built by `make -C tests/programs corpus` where there is a compiler.
LANGUAGES = [
    own("rust_check"),
    own("fortran_check"),
    own("go_check"),
    own("blas_check", environment={"OPENBLAS_NUM_THREADS": "1"}),
    own("blas_check", title="blas_check 2 threads", environment={"OPENBLAS_NUM_THREADS": "2"}),
]

OTHERS = [
    Program("python3", ["/usr/bin/python3", "-c", "exec(open('{data}/check.py').read())"]),
    Program("python3 threads", ["/usr/bin/python3", "-c", "exec(open('{data}/threads.py').read())"]),
    Program("perl", ["perl", "{data}/check.pl"], environment={"PERL_HASH_SEED": "0"}),
    Program("sqlite3", ["sqlite3", ":memory:", ".read {data}/check.sql"]),
    Program("bash", ["bash", "{data}/check.sh"]),
    Program("awk", ["awk", "BEGIN {{ for (n = 0; n < 3000000; n++) {{ s = (s * 31 + n) % 1000003; c[s % 999]++ }} print s, c[7], length(c) }}"]),
    Program("sort", ["sort", "--parallel=2", "-S", "8M", "-T", "{work}", "-o", "sorted", "{data}/lines"], files=("sorted",)),
    Program("gzip", ["gzip", "-9nc", "{data}/small"]),
    Program("gzip -d", ["gzip", "-dc", "{data}/text.gz", "{data}/text.gz", "{data}/text.gz"]),
    Program("xz", ["xz", "-3", "-T2", "--block-size=500KiB", "-c", "{data}/small"]),
    Program("zstd", ["zstd", "-q", "-7", "-T2", "-c", "{data}/text"]),
    Program("openssl dgst", ["openssl", "dgst", "-sha3-512", "{data}/big"]),
    Program("openssl enc", ["openssl", "enc", "-aes-256-cbc", "-K", "11" * 32, "-iv", "22" * 16, "-in", "{data}/big", "-out", "enc"], files=("enc",)),
    Program("sha256sum", ["sha256sum", "{data}/big", "{data}/text"]),
    Program("git log", ["git", "-C", "{data}/repository", "--no-pager", "log", "-p", "--stat"]),
    Program("git fsck", ["git", "-C", "{data}/repository", "fsck", "--full", "--strict", "--root", "--no-progress"]),
    Program("git repack", ["sh", "-c", "git -C {data}/repository rev-list --objects --all | git -C {data}/repository pack-objects -q --threads=1 --no-reuse-delta --no-reuse-object --window=50 --stdout | sha256sum"]),
    Program("gcc", ["gcc", "-O2", "-S", "-o", "out.s", "-x", "c", "{data}/unit.c"], files=("out.s",)),
    Program("g++", ["g++", "-O2", "-S", "-o", "out.s", "{data}/unit.cpp"], files=("out.s",)),
    Program("node", ["node", "{data}/check.js"]),
    Program("java", ["java", "-Xmx256m", "-XX:-UsePerfData", f"{ROOT}/tests/programs/JavaCheck.java"]),
    Program("imagemagick", ["/usr/bin/convert-im6.q16", "-size", "500x400", "gradient:red-blue", "-swirl", "120", "-resize", "160%", "-blur", "0x3", "-depth", "8", "rgb:picture"],
            files=("picture",)),
    Program("redis", ["redis-server", "--port", "0", "--unixsocket", "{work}/redis.socket", "--save", "", "--enable-debug-command", "yes", "--loglevel", "warning", "--logfile", "{work}/log"],
            steady=True, drive=servers.redis_talk, stop=servers.redis_stop),
    Program("postgres", [*servers.as_postgres(), f"{servers.postgres_tools()}/postgres", "-D", "{data}/postgres", "-k", "{work}", "-h", "", "-c", "autovacuum=off", "-c", "fsync=off"],
            steady=True, drive=servers.postgres_talk, stop=servers.postgres_stop),
]


def rows():
    """All programs, in the order of the report."""
    return OWN + LANGUAGES + OTHERS


def prepare(data, programs):
    """Writes the inputs into `data`, the same bytes each time."""
    if not any("{data}" in part for program in programs for part in program.command):
        return
    texts = {"check.py": PYTHON, "threads.py": PYTHON_THREADS, "check.pl": PERL, "check.sql": SQL, "check.js": NODE,
             "check.sh": BASH, "unit.c": unit("c"), "unit.cpp": unit("cpp")}
    rng = random.Random(7)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randrange(2, 9))) for _ in range(3000)]
    lines = [" ".join(rng.choices(words, k=9)) for _ in range(400000)]
    texts |= {"lines": "\n".join(lines), "text": "\n".join(lines[:300000]), "small": "\n".join(lines[:100000])}
    for name, text in texts.items():
        with open(os.path.join(data, name), "w") as file:
            file.write(text)
    with open(os.path.join(data, "big"), "wb") as file:
        file.write(rng.randbytes(1 << 20) * 150)
    with open(os.path.join(data, "text.gz"), "wb") as file:
        subprocess.run(["gzip", "-nc", os.path.join(data, "text")], stdout=file, check=True)
    names = {program.name for program in programs}
    if any(name.startswith("git ") for name in names):
        repository(os.path.join(data, "repository"), rng, words)
    if "postgres" in names:
        servers.postgres_prepare(data)


def unit(language):
    """A source with work for the optimiser."""
    head = "#include <stdlib.h>\n#include <string.h>\n" if language == "c" else "#include <map>\n#include <string>\n#include <vector>\n#include <algorithm>\n"
    lines = [head]
    for number in range(120 if language == "c" else 25):
        lines.append(f"long f{number}(long *a, long n) {{ long s = {number}; for (long i = 0; i < n; i++) {{ "
                     f"switch (a[i] % 7) {{ case 0: s += a[i] * {number + 3}; break; case 3: s ^= a[n - 1 - i] << {number % 13}; break; "
                     f"case 5: a[i] = s / ({number} + (a[i] & 15) + 1); break; default: s -= i; }} }} return s; }}")
        if language == "cpp":
            lines.append(f"long g{number}(std::vector<std::string> v) {{ std::map<std::string, long> m; std::sort(v.begin(), v.end()); "
                         f"for (auto &s : v) m[s + \"{number}\"] += s.size(); long t = 0; for (auto &p : m) t += p.second; return t; }}")
    return "\n".join(lines)


def repository(path, rng, words):
    """400 commits over 60 files, by fast-import, with fixed names and dates."""
    files = {f"d{n % 7}/f{n}": [" ".join(rng.choices(words, k=8)) for _ in range(150)] for n in range(60)}
    stream = []
    for number in range(400):
        stream.append(f"commit refs/heads/main\ncommitter A <a@example.org> {1600000000 + number * 3600} +0000\ndata 8\nc {number:05}\n")
        for name in rng.sample(sorted(files), 60 if number == 0 else 4):
            files[name][rng.randrange(150)] = " ".join(rng.choices(words, k=8))
            text = "\n".join(files[name]) + "\n"
            stream.append(f"M 100644 inline {name}\ndata {len(text)}\n{text}\n")
    subprocess.run(["git", "init", "-q", "-b", "main", path], check=True)
    subprocess.run(["git", "-C", path, "fast-import", "--quiet"], input="".join(stream), text=True, check=True)
