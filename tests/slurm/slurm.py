#!/usr/bin/env python3
"""Ranks under a real Slurm of two nodes: `srun fathom collect`, and the figures of their results as an array job.

    slurm.py FATHOM PROGRAM FOLDER

What for: what srun says of a rank reaches the results; two nodes write into one folder; a rank that dies takes nothing from the others;
adding results to a dataset is a map over them, which the same command goes on with. What not: MPI itself (`ranks.rs` runs Open MPI).

The cluster is this machine in namespaces of its own: a head and two nodes with a network, a name and a slurmd each. Nothing of it is seen
outside, and all of it ends with this script. It needs root, and Debian's slurmctld, slurmd, slurm-client and munge.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

NODES = {"n1": "10.77.0.11", "n2": "10.77.0.12"}
HEAD = "10.77.0.1"
NEEDED = ["slurmctld", "slurmd", "srun", "sbatch", "munged", "ip", "unshare"]

# Of no plugin that needs cgroups or a database.
CONFIGURATION = """
ClusterName=test
SlurmctldHost=head({head})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
"""


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, **more)
    return done


def must(*words, **more):
    done = run(*words, **more)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


class Cluster:
    def __init__(self, folder):
        self.folder, self.running = folder, []

    def start(self, name, *words):
        log = (self.folder / f"{name}.out").open("w")
        self.running.append(subprocess.Popen([str(word) for word in words], stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def up(self):
        folder = self.folder
        must("hostname", "head")
        must("ip", "link", "set", "lo", "up")
        must("ip", "link", "add", "bridge", "type", "bridge")
        must("ip", "address", "add", f"{HEAD}/24", "dev", "bridge")
        must("ip", "link", "set", "bridge", "up")
        cpus = os.cpu_count()
        text = CONFIGURATION.format(head=HEAD, folder=folder)
        for name, address in NODES.items():
            text += f"NodeName={name} NodeAddr={address} NodeHostname={name} CPUs={cpus} State=UNKNOWN\n"
        text += f"PartitionName=all Nodes={','.join(NODES)} Default=YES OverSubscribe=FORCE:4 State=UP\n"
        (folder / "slurm.conf").write_text(text)
        # A plugin that needs no cgroups: those of a container may not be there.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        self.start("munged", "munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key",
                   f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed")
        self.wait("munged", lambda: (folder / "munge.socket").exists())
        (folder / "state").mkdir()
        self.start("slurmctld", "slurmctld", "-D")
        for name, address in NODES.items():
            must("ip", "netns", "add", name)
            must("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            must("ip", "link", "set", f"to-{name}", "master", "bridge", "up")
            within = ["ip", "netns", "exec", name]
            must(*within, "ip", "link", "set", "lo", "up")
            must(*within, "ip", "address", "add", f"{address}/24", "dev", "eth0")
            must(*within, "ip", "link", "set", "eth0", "up")
            (folder / f"spool-{name}").mkdir()
            self.start(f"slurmd-{name}", *within, "unshare", "--uts", "sh", "-c", f"hostname {name} && exec slurmd -D -N {name}")
        self.wait("the nodes", lambda: run("sinfo", "-h", "-o", "%T").stdout.split() == ["idle"])

    def wait(self, what, is_there):
        for _ in range(300):
            if is_there():
                return
            time.sleep(0.1)
        logs = [f"--- {file.name}\n{file.read_text()[-2000:]}" for file in [*self.folder.glob("*.log"), *self.folder.glob("*.out")]]
        raise AssertionError(f"{what} did not come up\n" + "\n".join(logs))

    def down(self):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def manifest(result):
    return json.loads((result / "run.json").read_text())


def ranks(fathom, program, folder):
    """Each rank has a result that says which it was, of its node's name."""
    collect = [fathom, "collect", "hotspots", "-q", "-k", "dram-bandwidth-limits=false"]
    must("srun", "-N2", "-n4", *collect, "--ranks", "0-1", "-r", "job.%h.%r", "--", program, "--ms", "200", cwd=folder)
    found = {result.name: manifest(result) for result in folder.glob("job.*")}
    assert sorted(found) == ["job.n1.0", "job.n1.1", "job.n2.2", "job.n2.3"], sorted(found)
    for name, run_of in found.items():
        _, host, rank = name.split(".")
        of = run_of["rank"]
        assert (of["rank"], of["ranks"], of["local_rank"]) == (int(rank), 4, int(rank) % 2), of
        assert run_of["host_name"] == host and run_of["state"] == "complete" and of["job"].isdigit(), run_of
    assert len({run_of["rank"]["job"] for run_of in found.values()}) == 1
    # The same by the wrapper: accesses are traced on one node, and a row for each rank.
    said = must(fathom, "mpi", "-n", "4", "--launcher", "srun -N2", "--nodes", "n2", "-k", "dram-bandwidth-limits=false", "-r", "wrapped",
                "--format", "json", "--", program, "--ms", "200", cwd=folder)
    rows = json.loads(said[said.index("{\n"):])["rows"]
    assert [(row["rank"], row["host"], row["end"]) for row in rows] == [(0, "n1", "ended"), (1, "n1", "ended"), (2, "n2", "ended"),
                                                                       (3, "n2", "ended")], rows
    others = [any("other ranks were chosen" in note for note in manifest(folder / f"wrapped/rank.{rank}")["notes"]) for rank in range(4)]
    assert others == [True, True, False, False], others
    # One that dies has a result, and the others too.
    script = folder / "dies.sh"
    script.write_text(f"#!/bin/sh\n[ $SLURM_PROCID = 1 ] && kill -9 $$\nexec {program} --ms 300\n")
    script.chmod(0o755)
    done = run("srun", "-N2", "-n2", *collect, "-r", "dead.%r", "--", script, cwd=folder)
    assert done.returncode == 137, (done.returncode, done.stderr)
    whole, dead = manifest(folder / "dead.0"), manifest(folder / "dead.1")
    assert (whole["exit"], dead["exit"]) == ({"code": 0}, {"signal": 9}), (whole["exit"], dead["exit"])
    assert whole["host_name"] == "n1" and dead["host_name"] == "n2"


def array(fathom, folder):
    """The figures of a result are a task of an array job; a task that is done again changes nothing."""
    results = sorted(folder.glob("job.*"))
    script = folder / "add.sh"
    script.write_text("#!/bin/sh\nset -- job.*\nshift $SLURM_ARRAY_TASK_ID\nexec " f"{fathom} dataset add -q ds $1\n")
    for tasks in ("0-1", "0-3"):
        must("sbatch", "--wait", f"--array={tasks}", "-o", "add.%a.out", script, cwd=folder)
        wanted = int(tasks[-1]) + 1
        said = must(fathom, "dataset", "verify", "ds", cwd=folder)
        assert said == f"ds: {wanted} results are whole, 0 files are damaged\n", said
    assert len(results) == 4
    hosts = {path.name for path in (folder / "ds/runs").glob("date=*/host=*")}
    assert {"host=n1", "host=n2"} <= hosts, hosts


def main():
    fathom, program, folder = sys.argv[1:]
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing or os.getuid() != 0:
        print(f"skipped: {'root is' if not missing else ', '.join(missing) + ' are'} needed")
        return
    if os.environ.get("FATHOM_SLURM_INSIDE") is None:
        words = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", sys.executable, *sys.argv]
        done = subprocess.run(words, env={**os.environ, "FATHOM_SLURM_INSIDE": "1"})
        sys.exit(done.returncode)
    folder = pathlib.Path(folder).resolve()
    must("mount", "-t", "tmpfs", "none", "/run")
    cluster = Cluster(folder / "cluster")
    cluster.folder.mkdir(parents=True)
    try:
        cluster.up()
        work = folder / "work"
        work.mkdir()
        ranks(fathom, program, work)
        array(fathom, work)
    finally:
        cluster.down()
    print("two nodes, ranks, a rank that dies, an array job: as they should be")


main()
