"""Limits under which a bench runs a program: a CPU quota and a memory limit, by control groups of our own; swap for what
the memory limit takes away.

What not: changing groups of others; ours is removed afterwards, and so is our swap file. Both versions of control groups.
Needs root: without it, or where the system refuses, `NotAllowed` says why.
"""
import contextlib
import glob
import os
import subprocess
import tempfile

GROUPS = "/sys/fs/cgroup"
SWAP_MEBIBYTES = 256


class NotAllowed(Exception):
    """The system does not let us set a limit."""


@contextlib.contextmanager
def limits(words):
    """Of `cpus=1.5`, `memory=64` (MiB) and `nodes=2` (NUMA nodes that the machine must have): gives a function from Fathom's command and the program's to what is run. A quota
    is for both, for Fathom reads its own; a memory limit for the program alone."""
    with contextlib.ExitStack() as stack:
        both, alone = [], []
        for word in words:
            name, value = word.split("=")
            if name == "cpus":
                both.append(stack.enter_context(group("cpu", quota_files(float(value)))))
            elif name == "nodes":
                check_nodes(int(value))
            elif name == "memory":
                stack.enter_context(swap())
                alone.append(stack.enter_context(group("memory", memory_files(int(value) << 20))))
            else:
                raise ValueError(f"{word}: neither cpus, memory nor nodes")
        yield lambda fathom, program: entering(both) + fathom + entering(alone) + program


def check_nodes(wanted):
    found = len(glob.glob("/sys/devices/system/node/node[0-9]*"))
    if found < wanted:
        raise NotAllowed(f"this machine has {max(found, 1)} NUMA node, {wanted} are needed (`make numa` makes a virtual one)")


def entering(folders):
    """The beginning of a command that joins these groups first."""
    if not folders:
        return []
    join = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in folders)
    return ["sh", "-c", f'{join}exec "$@"', "sh"]


def is_second_version():
    return os.path.exists(os.path.join(GROUPS, "cgroup.controllers"))


def quota_files(cpus):
    period = 100000
    if is_second_version():
        return {"cpu.max": f"{int(cpus * period)} {period}"}
    return {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(int(cpus * period))}


def memory_files(limit):
    return {"memory.max" if is_second_version() else "memory.limit_in_bytes": str(limit)}


@contextlib.contextmanager
def group(controller, files):
    """A control group with these settings."""
    parent = GROUPS if is_second_version() else os.path.join(GROUPS, controller)
    folder = os.path.join(parent, f"fathom-bench-{os.getpid()}")
    try:
        os.mkdir(folder)
    except OSError as error:
        raise NotAllowed(f"no control group can be made in {parent}: {error.strerror}") from error
    try:
        for name, value in files.items():
            try:
                with open(os.path.join(folder, name), "w") as file:
                    file.write(value)
            except OSError as error:
                raise NotAllowed(f"{name} of a control group cannot be set: {error.strerror}") from error
        yield folder
    finally:
        os.rmdir(folder)


@contextlib.contextmanager
def swap():
    """Swap in a file of ours, unless the machine has some."""
    if len(open("/proc/swaps").readlines()) > 1:
        yield
        return
    with tempfile.NamedTemporaryFile(dir="/var/tmp", prefix="fathom-swap-") as file:
        os.posix_fallocate(file.fileno(), 0, SWAP_MEBIBYTES << 20)
        for command in (["mkswap", file.name], ["swapon", file.name]):
            try:
                done = subprocess.run(command, capture_output=True, text=True)
            except OSError as error:
                raise NotAllowed(f"{command[0]}: {error.strerror}") from error
            if done.returncode != 0:
                raise NotAllowed(f"this machine has no swap, and {command[0]} on a file is refused: {done.stderr.strip()}")
        try:
            yield
        finally:
            subprocess.run(["swapoff", file.name], check=True)
