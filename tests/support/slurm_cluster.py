# SPDX-License-Identifier: Apache-2.0
"""A real Slurm on hosts made out of namespaces: slurmctld on "login", slurmd on every other host, munged on all of them, with
files of their own. All of it ends with the hosts."""
import os
import shutil
import subprocess
import time

import interop
from host_keeper import SHARED
from hosts import LAUNCHER, SEARCH_PATH

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "scancel", "sinfo")
START_LIMIT_S = 60
FOLDER = f"{SHARED}/slurm"
MUNGE = "/run/munge/munge.socket.2"  # where libraries look for it
# /run is a host's own. Nothing is bound to CPUs or cgroups, because all hosts are one machine.
CONFIGURATION = """
ClusterName=mustertest
SlurmctldHost={launcher}
SlurmUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir=/run/slurm-spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
GresTypes=gpu
NodeName={nodes} CPUs=4 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes={nodes} Default=YES MaxTime=INFINITE State=UP
"""


# Devices that every machine has stand for GPUs, which nobody opens.
GPUS = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"


def find(program):
    return shutil.which(program, path=SEARCH_PATH)


def need_slurm():
    missing = [program for program in PROGRAMS if find(program) is None]
    if missing:
        interop.skip(f"no {', '.join(missing)} (Debian: slurmctld, slurmd, slurm-client, munge)")


class SlurmCluster:
    """`hosts` are running and have SLURM_CONF in the environment that slurm_environment() gives."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.daemons = []

    def start(self):
        for path in (FOLDER, f"{FOLDER}/state"):
            os.makedirs(self.hosts.path(LAUNCHER, path), exist_ok=True)
        with open(os.open(self.hosts.path(LAUNCHER, f"{FOLDER}/munge.key"), os.O_WRONLY | os.O_CREAT, 0o400), "wb") as key:
            key.write(os.urandom(1024))
        self.hosts.write(LAUNCHER, f"{FOLDER}/slurm.conf",
                         CONFIGURATION.format(launcher=LAUNCHER, folder=FOLDER, nodes=",".join(self.hosts.names)))
        self.hosts.write(LAUNCHER, f"{FOLDER}/gres.conf", GPUS)
        for host in [LAUNCHER, *self.hosts.names]:
            os.mkdir(self.hosts.path(host, os.path.dirname(MUNGE)), 0o755)
            self.daemon(host, "munged", "--foreground", "--force", f"--socket={MUNGE}", f"--key-file={FOLDER}/munge.key",
                        "--pid-file=/run/munge.pid", "--seed-file=/run/munge.seed", "--log-file=/run/munge.log")
        for host in [LAUNCHER, *self.hosts.names]:
            self.wait_for(f"munge on {host}", lambda h=host: os.path.exists(self.hosts.path(h, MUNGE)))
        self.daemon(LAUNCHER, "slurmctld", "-D", "-f", f"{FOLDER}/slurm.conf")
        for host in self.hosts.names:
            self.daemon(host, "slurmd", "-D", "-f", f"{FOLDER}/slurm.conf", "-N", host)
        self.wait_for("idle nodes", self.is_idle)

    def daemon(self, host, program, *arguments):
        with open(self.hosts.path(LAUNCHER, f"{FOLDER}/{program}-{host}.out"), "wb") as output:
            self.daemons.append(self.hosts.popen(host, [find(program), *arguments], stdout=output, stderr=output,
                                                 env=self.environment()))

    def environment(self):
        return {"SLURM_CONF": f"{FOLDER}/slurm.conf"}

    def is_idle(self):
        states = self.hosts.run(LAUNCHER, [find("sinfo"), "--noheader", "--Node", "--format=%t"], env=self.environment(),
                                check=False).stdout.split()
        return states == ["idle"] * len(self.hosts.names)

    def wait_for(self, what, ready):
        end = time.monotonic() + START_LIMIT_S
        while not ready():
            ended = [daemon.args[0] for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() > end:
                interop.skip(f"this Slurm does not start here (waited for {what}; ended: {ended}):\n{self.logs()}")
            time.sleep(0.05)

    def logs(self):
        folder = self.hosts.path(LAUNCHER, FOLDER)
        text = ""
        for name in sorted(os.listdir(folder)):
            if name.endswith((".log", ".out")):
                with open(f"{folder}/{name}", encoding="utf-8", errors="replace") as file:
                    text += "".join(f"{name}: {line}" for line in file.readlines()[-5:])
        return text

    def popen(self, argv, **keywords):
        """A program of Slurm on the login host."""
        env = {**self.environment(), **keywords.pop("env", {})}
        return self.hosts.popen(LAUNCHER, [find(argv[0]) or argv[0], *argv[1:]], env=env,
                                **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **keywords})

    def run(self, argv, *, timeout=60, **keywords):
        process = self.popen(argv, **keywords)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{' '.join(map(str, argv))}: not done after {timeout} s\n{out}\n{err}\n{self.logs()}") from None
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
