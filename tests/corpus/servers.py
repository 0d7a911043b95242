"""Servers of the corpus: how each is talked to and stopped. The conversation is fixed; what it shows is the answer.

What not: starting them (the table's command does, or the profiler). Assumption: the socket lies in the run's folder.
"""
import glob
import hashlib
import os
import random
import signal
import socket
import subprocess
import time

START_SECONDS = 60


def until(ready, what):
    """Waits until `ready()` is true."""
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if time.monotonic() > deadline:
            raise OSError(f"{what} was not ready after {START_SECONDS} s")
        time.sleep(0.01)


class Redis:
    """The protocol of redis (RESP2) over a socket: enough for commands and flat answers."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(START_SECONDS)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        parts = [str(word).encode() for word in words]
        return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)

    def answer(self):
        line = self.file.readline().rstrip(b"\r\n")
        if not line:
            raise OSError("redis closed the connection")
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(max(0, int(rest)))]
        return rest

    def ask(self, *words):
        self.socket.sendall(self.send(*words))
        return self.answer()

    def ask_all(self, commands):
        """Many at once, as pipelining clients do."""
        self.socket.sendall(b"".join(self.send(*words) for words in commands))
        return [self.answer() for _ in commands]


def redis_talk(place):
    path = os.path.join(place["work"], "redis.socket")
    until(lambda: os.path.exists(path), "redis")
    client, rng, seen = Redis(path), random.Random(1), hashlib.sha256()
    client.ask("FLUSHALL")
    for batch in range(60):
        commands = []
        for number in range(500):
            key = rng.randrange(2000)
            commands.append(rng.choice([
                ("SET", f"s{key}", "x" * rng.randrange(200)), ("GET", f"s{rng.randrange(2000)}"),
                ("INCRBY", f"n{key}", number), ("LPUSH", f"l{key % 50}", key), ("RPOP", f"l{key % 50}"),
                ("ZADD", "z", rng.randrange(10**6), key), ("ZRANGEBYSCORE", "z", 0, key * 50),
                ("HSET", f"h{key % 100}", key, batch), ("HGETALL", f"h{key % 100}"), ("SADD", f"set{key % 20}", key)]))
        for answer in client.ask_all(commands):
            # The order of a hash's or set's members follows a seed drawn at the start.
            seen.update(repr(sorted(map(str, answer)) if isinstance(answer, list) else answer).encode())
    digest = client.ask("DEBUG", "DIGEST")
    return f"answers={seen.hexdigest()}\ndigest={digest.decode()}\nkeys={client.ask('DBSIZE').decode()}\n"


def redis_stop(place):
    client = Redis(os.path.join(place["work"], "redis.socket"))
    client.socket.sendall(client.send("SHUTDOWN", "NOSAVE"))


QUERIES = """
\\set QUIET on
\\set ON_ERROR_STOP on
set client_min_messages = warning;
drop table if exists orders, people;
create table people (id int primary key, name text, score numeric);
create table orders (id int primary key, person int references people, amount int, at date);
insert into people select n, md5(n::text), (n * 7919) % 1000 from generate_series(1, 2000) n;
insert into orders select n, 1 + (n * 31) % 2000, (n * 4729) % 500, date '2020-01-01' + n % 700
  from generate_series(1, 60000) n;
create index on orders (person);
analyze;
select sum(amount), count(distinct person), min(at), max(at) from orders;
select left(name, 6), sum(amount) from people join orders on person = people.id
  group by name order by 2 desc, 1 limit 20;
update orders set amount = amount + 1 where person % 7 = 3;
delete from orders where id % 11 = 5;
with recursive path(n, v) as (select 1, 1::numeric union all select n + 1, (v * 48271) % 2147483647 from path where n < 5000)
  select sum(v) from path;
select md5(string_agg(id || ':' || amount, ',' order by id)) from orders;
select count(*) from people a join people b on a.score = b.score and a.id < b.id;
"""


def postgres_tools():
    """Debian keeps them outside of PATH, by version."""
    return max(glob.glob("/usr/lib/postgresql/*/bin"), default="/usr/bin")


def as_postgres():
    """The words before a command that must not run as root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []


def postgres_prepare(data):
    """A data directory without TCP, shared by all runs: each begins by dropping what the last one made."""
    folder = os.path.join(data, "postgres")
    os.makedirs(folder, exist_ok=True)
    if os.getuid() == 0:
        subprocess.run(["chown", "postgres", folder], check=True)
    subprocess.run([*as_postgres(), f"{postgres_tools()}/initdb", "-D", folder, "-U", "corpus", "-A", "trust", "--locale=C", "-N"],
                   check=True, stdout=subprocess.DEVNULL)


def postgres_talk(place):
    work = place["work"]
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PGCONNECT_TIMEOUT": "10"}
    ready = [f"{postgres_tools()}/pg_isready", "-q", "-h", work]
    until(lambda: subprocess.run(ready, env=environment).returncode == 0, "postgres")
    client = [f"{postgres_tools()}/psql", "-X", "-A", "-t", "-h", work, "-U", "corpus", "postgres"]
    done = subprocess.run(client, input=QUERIES, capture_output=True, text=True, env=environment, timeout=300)
    return f"{done.stdout}{done.stderr}code={done.returncode}\n"


def postgres_stop(place):
    with open(os.path.join(place["data"], "postgres", "postmaster.pid")) as file:
        os.kill(int(file.readline()), signal.SIGINT)  # fast shutdown
