"""Runs one program of the table: alone, started by the profiler, attached to by it, or bereft of it by kill -9.

What not: the table (`table.py`), the counting (`corpus.py`). Every run has a folder of its own and a time limit; what a
run leaves behind is ended. A run's result is an `Outcome`; what went wrong in it is a list of sentences.
"""
import dataclasses
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import processes

POLL_SECONDS = 0.002


@dataclasses.dataclass
class Outcome:
    """What a run showed."""
    output: str = ""
    code: int | None = None
    seconds: float = 0.0
    problems: list = dataclasses.field(default_factory=list)
    bursts: int | None = None
    killed: int = 0


class Stopped(Exception):
    """The time limit is over."""


@dataclasses.dataclass
class Bench:
    """What all runs share."""
    fathom: str
    knobs: list
    data: str
    keep: str | None = None

    def run(self, program, mode, seed, reference=None):
        """One run. `mode`: alone, launch, attach or kill; all that is random in it comes from `seed`."""
        work = tempfile.mkdtemp(prefix="fathom-corpus-")
        os.chmod(work, 0o777)  # a server may run as somebody else
        limit = 120 if reference is None else 30 + 20 * reference.seconds
        run = Run(self, program, work, random.Random(seed), time.monotonic() + limit)
        outcome = Outcome()
        try:
            getattr(run, mode)(outcome, reference)
        except Stopped:
            outcome.problems.append(f"was not done after {limit:.0f} s:\n" + "\n".join(processes.describe()))
        except (OSError, subprocess.SubprocessError) as error:
            outcome.problems.append(f"{type(error).__name__}: {error}")
        finally:
            if processes.end_all() and not outcome.problems:
                outcome.problems.append("processes were left behind")
        outcome.output = run.shown()
        if reference is not None:
            outcome.problems += compared(outcome, reference, work)
        if outcome.problems and self.keep and mode != "alone":
            shutil.copytree(work, os.path.join(self.keep, seed.replace("/", "-")), dirs_exist_ok=True)
        shutil.rmtree(work, ignore_errors=True)
        return outcome


def compared(outcome, reference, work):
    """Sentences: how it differs from the program's run alone."""
    problems = []
    if outcome.code != reference.code:
        errors = processes.read(os.path.join(work, "stderr"))[-2000:]
        problems.append(f"exit code {outcome.code} instead of {reference.code}; standard error ends:\n{errors}")
    if outcome.output != reference.output:
        problems.append("other output: " + first_difference(reference.output, outcome.output))
    return problems


def first_difference(expected, found):
    """Where two texts part."""
    for number, (left, right) in enumerate(zip(expected.splitlines(), found.splitlines()), 1):
        if left != right:
            return f"line {number} is {right[:200]!r} instead of {left[:200]!r}"
    return f"{len(found)} characters instead of {len(expected)}, which begin alike"


@dataclasses.dataclass
class Run:
    """One run in its folder."""
    bench: Bench
    program: object
    work: str
    rng: random.Random
    deadline: float

    def alone(self, outcome, _reference):
        """Natively: the known answer."""
        began = time.monotonic()
        child = self.start(self.command())
        self.drive(lambda: child)
        outcome.code = as_shell(self.end_of(child))
        outcome.seconds = time.monotonic() - began

    def launch(self, outcome, _reference):
        """Started by the profiler."""
        child = self.start(self.profiler("--") + self.command())
        self.drive(self.program_below)
        outcome.code = as_shell(self.end_of(child))
        outcome.bursts = self.result(outcome)

    def attach(self, outcome, reference):
        """Started alone; the profiler comes at some moment, stays a while, and goes."""
        child = self.start(self.command())
        time.sleep(self.rng.uniform(0.02, 0.6 * reference.seconds))
        before = self.steady_state(child)
        stay = self.rng.uniform(0.1, 0.5)
        with open(os.path.join(self.work, "stderr-fathom"), "w") as errors:
            # The library that counts heap blocks stays in a process that we leave (decision 0006); all else must not.
            heap = ["-k", "analyze-mem-objects=false"] if before else []
            profiler = subprocess.Popen(self.profiler(*heap, "-d", f"{stay:.2f}", "--pid", str(child)), stderr=errors,
                                        stdout=subprocess.DEVNULL, cwd=self.work, env=self.environment())
        if self.program.drive:
            self.drive(lambda: child, until=lambda: profiler.poll() is not None)
        profiler.wait(timeout=max(1, self.deadline - time.monotonic()))
        lives = child in processes.parents()
        if before and lives:
            outcome.problems += processes.differences(before, self.steady_state(child))
        if self.program.drive:
            self.program.stop(self.place())
        outcome.code = as_shell(self.end_of(child))
        if profiler.returncode == 0:
            outcome.bursts = self.result(outcome)
        elif lives:  # else it had ended before the profiler came, which nobody can help
            outcome.problems.append(f"fathom --pid ended with {profiler.returncode}: "
                                    + processes.read(os.path.join(self.work, "stderr-fathom"))[-1000:])

    def kill(self, outcome, reference):
        """Started by the profiler, whose processes are killed at a moment uniform over the program's time."""
        profiler = file_id(self.bench.fathom)
        only_main = self.rng.random() < 0.5
        child = self.start(self.profiler("--") + self.command())
        program = self.program_below()
        moment = time.monotonic() + self.rng.uniform(0, reference.seconds)
        killed = []

        def strike():
            ours, _ = processes.split(profiler)
            # All at once, in any order; or only the one that was started, whose helpers then have to clean up.
            targets = [pid for pid in ours if pid == child] if only_main else self.rng.sample(ours, len(ours))
            for pid in targets:
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                except ProcessLookupError:
                    pass

        self.drive(lambda: program, at=moment, then=strike)
        # The program was the profiler's child and is ours now; if the profiler lived on, it tells the code.
        codes = self.end_of_all()
        outcome.killed = len(killed)
        if codes.get(child) != -signal.SIGKILL:
            outcome.code = as_shell(codes[child])
        else:  # not ours to collect when fathom had collected it before it was killed; its output is all there is then
            outcome.code = as_shell(codes[program]) if program in codes else reference.code

    # What the modes are made of.

    def place(self):
        """What commands and drivers of the table may refer to."""
        return {"work": self.work, "data": self.bench.data}

    def command(self):
        return [part.format(**self.place()) for part in self.program.command]

    def environment(self):
        """The same for every run, but for the folder."""
        return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.work, "LC_ALL": "C", "TZ": "UTC",
                "XDG_CACHE_HOME": os.path.join(self.bench.data, "cache"), "PYTHONHASHSEED": "0",
                **self.program.environment}

    def profiler(self, *rest):
        result = os.path.join(self.work, "result")
        return [self.bench.fathom, "collect", "memory-access", "-q", *self.bench.knobs, "-r", result, *rest]

    def start(self, command):
        """Starts it with its output in files; its pid. Not a Popen: its exit code may be collected by any wait."""
        os.environ.pop("LD_PRELOAD", None)
        write = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        for number, name in ((1, "stdout"), (2, "stderr")):
            actions.append((os.POSIX_SPAWN_OPEN, number, os.path.join(self.work, name), write, 0o666))
        back = os.getcwd()
        os.chdir(self.work)  # posix_spawn has no folder of its own
        try:
            return os.posix_spawnp(command[0], command, self.environment(), file_actions=actions)
        finally:
            os.chdir(back)

    def program_below(self):
        """Waits until the profiler has started the program."""
        profiler = file_id(self.bench.fathom)
        while True:
            ours, program = processes.split(profiler)
            if program or not ours:
                return program
            self.wait_a_little()

    def drive(self, find_program, at=None, then=None, until=None):
        """For a server: talks to it, then stops it. `then` is called at the time `at`, in the midst of it."""
        timer = None
        if then is not None:
            timer = threading.Timer(max(0, at - time.monotonic()), then)
            timer.start()
        if self.program.drive:
            find_program()
            shown = self.program.drive(self.place())
            while until is not None and not until():
                self.program.drive(self.place())
                self.wait_a_little()
            with open(os.path.join(self.work, "driven"), "w") as file:
                file.write(shown)
            if until is None:
                self.program.stop(self.place())
        if timer is not None:
            timer.join()

    def wait_a_little(self):
        if time.monotonic() > self.deadline:
            raise Stopped
        time.sleep(POLL_SECONDS)

    def end_of(self, child):
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            self.wait_a_little()

    def end_of_all(self):
        """Collects everything below us: {pid: exit code}."""
        codes = {}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return codes
            if pid:
                codes[pid] = os.waitstatus_to_exitcode(status)
            else:
                self.wait_a_little()

    def steady_state(self, pid):
        """What must not change; None for a program that changes it by itself."""
        if not self.program.steady:
            return None
        last = None
        for _ in range(1000):  # until it is past its start; servers do not say so: two looks must be alike
            seen = processes.snapshot(pid) if self.program.drive else None
            if (seen and seen == last) or "ready=1" in processes.read(os.path.join(self.work, "stdout")):
                return seen or processes.snapshot(pid)
            last = seen
            self.wait_a_little()
        raise Stopped

    def result(self, outcome):
        """Verifies the profiler's result; the bursts in it, where the report tells them."""
        result = os.path.join(self.work, "result")
        environment = self.environment()
        verified = subprocess.run([self.bench.fathom, "verify", result], capture_output=True, text=True, env=environment, timeout=120)
        if verified.returncode != 0:
            outcome.problems.append(f"fathom verify: {verified.stdout[-500:]}{verified.stderr[-500:]}")
        report = subprocess.run([self.bench.fathom, "report", "summary", "-r", result, "--format", "json"],
                                capture_output=True, text=True, env=environment, timeout=120)
        if report.returncode != 0:
            outcome.problems.append(f"fathom report summary: {report.stderr[-500:]}")
            return None
        return bursts_in(json.loads(report.stdout))

    def shown(self):
        """All that the program said: its output without lines that differ from run to run, and files it wrote."""
        changing = self.program.changing
        lines = processes.read(os.path.join(self.work, "stdout")).splitlines()
        said = [line for line in lines if not (changing and changing.search(line))]
        said.append(processes.read(os.path.join(self.work, "driven")))
        # Bytes that are no text are compared by their hash, standard output's too.
        for name in (*self.program.files, *([] if changing else ["stdout"])):
            try:
                with open(os.path.join(self.work, name), "rb") as file:
                    said.append(f"{name}: {hashlib.sha256(file.read()).hexdigest()}")
            except OSError as error:
                said.append(f"{name}: {error.strerror}")
        return "\n".join(said)


def bursts_in(summary):
    """How many bursts a run took, from the JSON of `report summary`; None where it does not say."""
    metric = summary.get("coverage", {}).get("bursts")
    return None if not metric or metric.get("value") is None else int(metric["value"])


def as_shell(code):
    """An exit code as fathom passes it on: 128 and the number of the signal."""
    return 128 - code if code < 0 else code


def file_id(path):
    status = os.stat(path)
    return status.st_dev, status.st_ino
