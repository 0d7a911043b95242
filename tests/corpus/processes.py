"""What /proc says of processes: who descends from whom, who runs which file, and what must be as it was.

What not: finding processes by name; everything here starts from this process. Assumption: `adopt_orphans` was called,
so a process whose parent was killed becomes ours, is found below us, and its exit code is ours to collect.
"""
import ctypes
import os
import re
import signal
import time

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def adopt_orphans():
    """Orphans below us become our children instead of init's."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")


def parents():
    """{pid: parent} of all processes."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            text = read(f"/proc/{name}/stat")
            # The name in parentheses may hold anything; the fields after the last one are fixed (proc(5)).
            fields = text.rpartition(")")[2].split()
            if len(fields) > 1 and fields[0] not in "ZX":
                found[int(name)] = int(fields[1])
    return found


def descendants():
    """Our living descendants, parents before children, as (pid, parent)."""
    links, found, layer = parents(), [], [os.getpid()]
    while layer:
        layer_pairs = [(pid, parent) for pid, parent in links.items() if parent in layer]
        found += layer_pairs
        layer = [pid for pid, _ in layer_pairs]
    return found


def executable(pid):
    """(device, inode) of the file that it runs; None when it is gone."""
    try:
        status = os.stat(f"/proc/{pid}/exe")
        return status.st_dev, status.st_ino
    except OSError:
        return None


def split(profiler):
    """(the profiler's processes, the program's topmost process or None) among our descendants.

    A process of the profiler runs the profiler's file, whoever its parent is by now; the program is the first other one
    below it.
    """
    pairs = descendants()
    ours = [pid for pid, _ in pairs if executable(pid) == profiler]
    program = next((pid for pid, parent in pairs if parent in ours and executable(pid) not in (profiler, None)), None)
    return ours, program


def end_all(grace=5):
    """Ends whatever still descends from us, and collects it. True when there was something."""
    left = [pid for pid, _ in descendants()]
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        except ChildProcessError:
            break
    return bool(left)


def read(path):
    """The text, or "" when it cannot be read: processes vanish while one looks."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def snapshot(pid):
    """What a profiler that left must have left as it was, as {what: value}."""
    state = {}
    mappings = [line.split(None, 5) for line in read(f"/proc/{pid}/maps").splitlines()]
    # Heaps and stacks grow by themselves; code, and what has no name of a file on disk, does not.
    state["code and memfd mappings"] = [" ".join(fields) for fields in mappings
                                        if "x" in fields[1] or "memfd:" in fields[-1]]
    for thread in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
        status = read(f"/proc/{pid}/task/{thread}/status")
        wanted = re.findall(r"^(SigBlk|SigIgn|SigCgt|TracerPid|Seccomp|NoNewPrivs):\s*(\S+)", status, re.M)
        state[f"thread {thread}"] = dict(wanted)
        # Debug registers and gs of a thread can't be read without stopping it; those are left to the programs.
    descriptors = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            descriptors[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
        except OSError:
            pass
    state["open files"] = sorted(descriptors.items())
    return state


def differences(before, after):
    """Sentences: what is not as it was. A thread that is gone has ended: the program's output tells whether it should have."""
    ended = {what for what in before if what.startswith("thread ") and what not in after}
    return [f"{what}: {before.get(what)} became {after.get(what)}"
            for what in sorted((before.keys() | after.keys()) - ended) if before.get(what) != after.get(what)]


def describe():
    """A line per process and thread below us: state and where it waits. For a report about a hang."""
    lines = []
    for pid, parent in descendants():
        command = read(f"/proc/{pid}/cmdline").replace("\0", " ")[:100]
        lines.append(f"{pid} (parent {parent}) {command}")
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            status = dict(re.findall(r"^(State|TracerPid|SigPnd|ShdPnd):\s*(.*)$", read(f"/proc/{pid}/task/{thread}/status"), re.M))
            lines.append(f"  thread {thread}: {status} {read(f'/proc/{pid}/task/{thread}/syscall').strip()}")
    return lines
