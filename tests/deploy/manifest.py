#!/usr/bin/env python3
"""The manifest of Kubernetes is right, and its command is one of this Fathom.

    manifest.py FATHOM FOLDER

What for: the schemas, what they cannot say, and the command, run for one round while it is off. What not: a cluster.
"""
import pathlib
import subprocess
import sys

from schemas import objects_of

fathom, folder = sys.argv[1], pathlib.Path(sys.argv[2])
objects = objects_of("fathom-watch.yaml")

namespace, daemons = objects
assert [one["kind"] for one in objects] == ["Namespace", "DaemonSet"]
assert daemons["metadata"]["namespace"] == namespace["metadata"]["name"]
pod = daemons["spec"]["template"]
assert pod["metadata"]["labels"] == daemons["spec"]["selector"]["matchLabels"]
assert pod["spec"]["hostPID"] and not pod["spec"]["automountServiceAccountToken"]
[container] = pod["spec"]["containers"]
capabilities = container["securityContext"]["capabilities"]
assert capabilities["drop"] == ["ALL"] and {"SYS_PTRACE", "PERFMON"} <= set(capabilities["add"])
assert "cpu" not in container["resources"]["limits"], "a profiler that is held up holds up programs"
volumes = {volume["name"]: volume["hostPath"]["path"] for volume in pod["spec"]["volumes"]}
mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
assert mounts == {"/run/fathom": "/run/fathom", "/var/lib/fathom": "/var/lib/fathom"}
paths = [word.split("=")[1] for word in container["command"] if "=/" in word]
assert len(paths) >= 4 and all(any(path.startswith(mount) for mount in mounts) for path in paths)

off = folder / "off"
off.touch()
words = [word.replace("/run/fathom/off", str(off)).replace("/var/lib/fathom", str(folder)) for word in container["command"][1:]]
done = subprocess.run([fathom, *words, "--once"], capture_output=True, text=True)
assert done.returncode == 0 and '"event":"off"' in done.stdout, done.stdout + done.stderr
assert (folder / "fathom.prom").is_file() and (folder / "spool").is_dir()
