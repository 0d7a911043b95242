#!/usr/bin/env python3
"""Remote memory on a machine that has none: a virtual one with two NUMA nodes, emulated by QEMU, records two programs.

What for: the whole way from move_pages(2) in a guest to the finding, on any machine. What not: times; the emulator knows no
near and far, and only software events exist in it.

The guest is a Debian kernel with an initramfs of busybox, fathom, the programs of tests/findings about nodes, and the
libraries they need. Results come back as text over its second serial line. Needs qemu-system-x86_64, a static busybox, and
a kernel: one in /boot, or the package that apt downloads. Where one is missing it says `skipped: REASON`, and ends well.

    tests/numa/numa.py [--fathom PATH] [--kernel vmlinuz] [--keep DIR]
"""
import argparse
import base64
import glob
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FINDINGS = os.path.join(ROOT, "tests", "findings")
# The first is filled by a thread of node 0 and read by one of node 1; the second filled by its reader.
REMOTE, LOCAL = "table_elsewhere", "table_at_home"
# An emulator on a busy machine is slow; a guest that hangs is ended all the same.
TIMEOUT_SECONDS = 540
RUN_SECONDS = 8

INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
mkdir /tmp/out
# Else the kernel moves pages to the thread that uses them, sooner or later.
echo 0 > /proc/sys/kernel/numa_balancing
# A burst stops an emulated program for some 60 ms: by the allowed overhead there would be four of them.
for program in {REMOTE} {LOCAL}; do
    fathom run --quiet -k dram-bandwidth-limits=false -k burst-interval=100 -r /tmp/out/$program -- /bin/$program {RUN_SECONDS}
done
stty -F /dev/ttyS1 raw
tar c -C /tmp/out . | gzip | base64 > /dev/ttyS1
poweroff -f
"""


class Missing(Exception):
    """What this machine has not."""


def kernel(folder):
    """A kernel for virtual machines: of this system, or from the Debian archive."""
    found = sorted(glob.glob("/boot/vmlinuz-*cloud-amd64"))
    if found:
        return found[-1]
    try:
        depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True)
        package = re.search(r"Depends: (linux-image-\S+)", depends.stdout)
        if package is None:
            raise Missing("there is no kernel in /boot for virtual machines, and apt knows no linux-image-cloud-amd64")
        subprocess.run(["apt-get", "download", "-q", package[1]], cwd=folder, capture_output=True, check=True, timeout=300)
        archive = glob.glob(os.path.join(folder, "*.deb"))[0]
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
        return glob.glob(os.path.join(folder, "boot", "vmlinuz-*"))[0]
    except (OSError, IndexError, subprocess.SubprocessError) as error:
        raise Missing(f"there is no kernel in /boot for virtual machines, and none could be downloaded: {error}") from error


def libraries(program):
    """The shared libraries that a program is started with, and its loader."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", listed)


def initramfs(folder, fathom):
    """All that the guest has, as a compressed archive."""
    tree = os.path.join(folder, "root")
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        os.makedirs(os.path.join(tree, name))
    programs = {"fathom": fathom, **{name: os.path.join(FINDINGS, "build", name) for name in (REMOTE, LOCAL)}}
    busybox = shutil.which("busybox")
    if busybox is None or "=>" in subprocess.run(["ldd", busybox], capture_output=True, text=True).stdout:
        raise Missing("there is no static busybox (Debian: busybox-static)")
    programs["busybox"] = busybox
    needed = {library for path in (fathom, programs[REMOTE]) for library in libraries(path)}
    for name, path in programs.items():
        shutil.copy(path, os.path.join(tree, "bin", name))
    for library in needed:
        target = tree + library
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.realpath(library), target)
    with open(os.path.join(tree, "init"), "w") as file:
        file.write(INIT)
    os.chmod(os.path.join(tree, "init"), 0o755)
    names = subprocess.run(["find", "."], cwd=tree, capture_output=True, check=True).stdout
    archive = subprocess.run([busybox, "cpio", "-o", "-H", "newc"], cwd=tree, input=names, capture_output=True, check=True)
    path = os.path.join(folder, "initramfs.gz")
    with gzip.open(path, "wb", 1) as file:
        file.write(archive.stdout)
    return path


def boot(folder, vmlinuz, archive):
    """Runs the guest to its end; gives what it wrote to its second serial line."""
    if shutil.which("qemu-system-x86_64") is None:
        raise Missing("there is no qemu-system-x86_64 (Debian: qemu-system-x86)")
    node = [("-object", f"memory-backend-ram,id=m{n},size=768M") + ("-numa", f"node,nodeid={n},cpus={n},memdev=m{n}")
            for n in (0, 1)]
    console, out = os.path.join(folder, "console.txt"), os.path.join(folder, "out.txt")
    command = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1536M", *node[0], *node[1],
               "-numa", "dist,src=0,dst=1,val=21", "-kernel", vmlinuz, "-initrd", archive, "-append",
               "console=ttyS0 quiet panic=-1", "-display", "none", "-no-reboot", "-nodefaults", "-nic", "none",
               "-serial", f"file:{console}", "-serial", f"file:{out}"]
    try:
        subprocess.run(command, check=True, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        sys.exit(f"the guest did not end within {TIMEOUT_SECONDS} s; its console: {open(console).read()[-2000:]}")
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


def check(fathom, results):
    """What the results must say."""
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
    if problems:
        sys.exit("\n".join(problems))
    print("passed: memory of the other node is found, and that of the own node is not")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fathom", type=os.path.abspath, default=os.path.join(ROOT, "target", "release", "fathom"))
    parser.add_argument("--kernel")
    parser.add_argument("--keep", help="leave the results there")
    options = parser.parse_args()
    subprocess.run(["make", "-s", "-C", FINDINGS], check=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            text = boot(folder, options.kernel or kernel(folder), initramfs(folder, options.fathom))
        except Missing as reason:
            print(f"skipped: {reason}")
            return
        results = options.keep or os.path.join(folder, "results")
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(text))) as archive:
            archive.extractall(results, filter="data")
        check(options.fathom, results)


if __name__ == "__main__":
    main()
