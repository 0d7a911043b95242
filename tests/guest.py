"""What the tests on virtual machines share: an initramfs, a machine that boots it, and what it sends back.

What for: a guest is a Debian kernel with a tree of files as its initramfs. It writes results as text to a serial line. What not: which
machine, and what runs on it (`numa/numa.py`, `aarch64/aarch64.py`).
"""
import base64
import gzip
import io
import os
import subprocess
import sys
import tarfile

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
mkdir /tmp/out
"""


class Missing(Exception):
    """What this machine has not."""


def folders(tree):
    """The folders that every guest needs."""
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        os.makedirs(os.path.join(tree, name))


def packed(tree, init, busybox, path):
    """All that a guest has, as a compressed archive at `path`; `busybox` runs here."""
    with open(os.path.join(tree, "init"), "w") as file:
        file.write(init)
    os.chmod(os.path.join(tree, "init"), 0o755)
    names = subprocess.run(["find", "."], cwd=tree, capture_output=True, check=True).stdout
    archive = subprocess.run([busybox, "cpio", "-o", "-H", "newc"], cwd=tree, input=names, capture_output=True, check=True)
    with gzip.open(path, "wb", 1) as file:
        file.write(archive.stdout)


def run(command, console, seconds):
    """Runs the guest to its end."""
    try:
        subprocess.run(command, check=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        sys.exit(f"the guest did not end within {seconds} s; its console: {open(console, errors='replace').read()[-2000:]}")


def unpacked(text, folder):
    """Writes what the guest sent, an archive as text, into a folder."""
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(text))) as archive:
        archive.extractall(folder, filter="data")
