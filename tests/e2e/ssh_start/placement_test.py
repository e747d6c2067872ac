# SPDX-License-Identifier: Apache-2.0
"""What a host list, its filters, --export, --wdir and --bind-to mean for the workers, seen from inside them."""
import ctypes.util
import os
import tempfile
import unittest

import interop

BARE_SSH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bare_ssh.sh")


def job(*arguments, shell, check=True, cwd=None, **environment):
    """The lines that the workers of `muster run ARGUMENTS` print, by rank."""
    command = ["env", "-C", cwd or os.getcwd(), interop.MUSTER, "run", "--ssh-command", BARE_SSH, "--local-addr", "127.0.0.1",
               *arguments, "sh", "-c", shell]
    result = interop.run(command, check=check, timeout=120, **environment)
    if not check:
        return result
    lines = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    return [lines[f"[{rank}]"] for rank in range(len(lines))]


class Placement(unittest.TestCase):
    def test_ranks_follow_the_hosts_and_their_slots(self):
        shell = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK"
        self.assertEqual(job("-H", "a:2,b:3", "-n", "4", shell=shell), ["0 4 0 2 0", "1 4 1 2 0", "2 4 0 2 1", "3 4 1 2 1"])
        self.assertEqual(job("-H", "a:2,b:3", "-n", "4", "--map-by", "node", shell=shell),
                         ["0 4 0 2 0", "1 4 1 2 0", "2 4 0 2 1", "3 4 1 2 1"])
        self.assertEqual(job("-H", "a:1,b:3", shell=shell), ["0 4 0 1 0", "1 4 0 3 1", "2 4 1 3 1", "3 4 2 3 1"])

    def test_a_filter_chooses_gpus(self):
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
            file.write("a slots=4\nb slots=4\nc slots=4\n")
            file.flush()
            gpus = job("--hostfile", file.name, "--include", "c:1@a:0,3", shell="echo $GROUP_RANK $CUDA_VISIBLE_DEVICES")
        self.assertEqual(gpus, ["0 0,3", "0 0,3", "1 1"])

    def test_the_environment_that_goes_there(self):
        seen = job("-H", "a,b", "--export", "ASKED,SET=x y,MANY_*", shell="echo $NCCL_DEBUG/$ASKED/$SET/$MANY_1/$NOT_ASKED/$HF_TOKEN",
                   NCCL_DEBUG="WARN", ASKED="yes", MANY_1="one", NOT_ASKED="no", HF_TOKEN="secret")
        self.assertEqual(seen, ["WARN/yes/x y/one//"] * 2)

    def test_the_program_is_found_through_the_path_of_here(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "only-here")
            with open(program, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho found\n")
            os.chmod(program, 0o755)
            command = [interop.MUSTER, "run", "--ssh-command", BARE_SSH, "--local-addr", "127.0.0.1", "-H", "a,b", "only-here"]
            result = interop.run(command, PATH=folder + ":" + os.environ["PATH"])
        self.assertEqual(sorted(result.stdout.splitlines()), ["[0]: found", "[1]: found"])

    def test_workers_start_where_we_are_or_where_they_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            self.assertEqual(job("-H", "a,b", shell="pwd -P", cwd=folder), [folder] * 2)
            self.assertEqual(job("-H", "a,b", "--wdir", folder, shell="pwd -P"), [folder] * 2)
        result = job("-H", "a,b", "--wdir", folder, shell="true", check=False)
        self.assertEqual(result.returncode, 125)
        self.assertIn(folder, result.stderr)
        self.assertIn("--wdir", result.stderr)

    @unittest.skipUnless(ctypes.util.find_library("hwloc"), "hwloc is not installed")
    def test_each_host_counts_and_binds_its_own_workers(self):
        cpus = job("-H", "a,b", "--nproc-per-node", "cpu", "--bind-to", "core",
                   shell="grep Cpus_allowed_list /proc/self/status | tr -d '\\t'")
        mine = sorted(os.sched_getaffinity(0))
        self.assertEqual(len(cpus), 2 * len(mine))
        half = len(mine)
        self.assertEqual(cpus[:half], cpus[half:])  # both "hosts" are this machine

    def test_more_workers_than_slots_start_nothing(self):
        result = job("-H", "a:1,b:1", "-n", "3", shell="true", check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--np=3: the hosts have 2 slots (a has 1, b has 1)", result.stderr)


if __name__ == "__main__":
    unittest.main()
