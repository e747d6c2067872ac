# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: dry runs, help, errors and their exit codes. Hardly a worker is ever started."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from terminal import Terminal

BIN = os.environ["MUSTER_BIN_DIR"]
MUSTER = os.path.join(BIN, "muster")
FAKE_NVML = os.path.join(os.path.dirname(BIN), "tests", "fake_nvml")


def muster(*arguments, env=None, cwd=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "TORCH", "OMP_", "CUDA_"))}
    environment.update(env or {})
    return subprocess.run([MUSTER, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          env=environment, cwd=cwd)


def dry_run(*arguments, **options):
    result = muster("run", "--dry-run", *arguments, **options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


class InDirectory(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="muster_test_")
        self.addCleanup(shutil.rmtree, self.directory)

    def file(self, name, text="", mode=0o644):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path


class DryRun(InDirectory):
    def test_it_prints_the_job_and_makes_nothing(self):
        job = dry_run("--nproc-per-node", "11", "--tee", "0:3,10:1", "--log-dir", "logs", "true", "x", cwd=self.directory)
        self.assertEqual((job["schema"], job["version"]), ("muster.job", 2))
        self.assertEqual(job["agent"]["workers"], 11)
        self.assertEqual(job["agent"]["command"], ["true", "x"])
        self.assertEqual(job["agent"]["output"]["tee"]["by_rank"], [[0, 3], [10, 1]])
        self.assertEqual(os.listdir(self.directory), [])

    def test_run_path_behaves_like_running_the_script(self):
        script = self.file("train.py", "import sys\nprint(__name__, sys.argv)\n")
        command = dry_run("--run-path", script, "--flag", "$$")["agent"]["command"]
        output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        self.assertEqual(output.strip(), "__main__ " + repr([script, "--flag", "$$"]))

    def test_gpus_are_counted_through_nvml(self):
        env = {"LD_LIBRARY_PATH": FAKE_NVML, "MUSTER_FAKE_GPUS": "4"}
        self.assertEqual(dry_run("--nproc-per-node=gpu", "true", env=env)["agent"]["workers"], 4)
        self.assertEqual(dry_run("--nproc-per-node=auto", "true", env=env)["agent"]["workers"], 4)
        env["CUDA_VISIBLE_DEVICES"] = "1,GPU-03"
        self.assertEqual(dry_run("--nproc-per-node=gpu", "true", env=env)["agent"]["workers"], 1)
        env["CUDA_VISIBLE_DEVICES"] = "GPU-03,GPU-00"
        self.assertEqual(dry_run("--nproc-per-node=gpu", "true", env=env)["agent"]["workers"], 2)
        env["CUDA_VISIBLE_DEVICES"] = ""
        result = muster("run", "--dry-run", "--nproc-per-node=gpu", "true", env=env)
        self.assertEqual(result.returncode, 2)
        self.assertIn("CUDA_VISIBLE_DEVICES= hides all 4", result.stderr)

    def test_a_closed_stdout_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([MUSTER, "run", "--dry-run", "true"], stdout=full, stderr=subprocess.PIPE, text=True,
                                    timeout=60, check=False)
        self.assertEqual(result.returncode, 125)
        self.assertIn("stdout cannot be written", result.stderr)


class Errors(InDirectory):
    def check(self, code, text, *arguments, **options):
        result = muster("run", *arguments, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("muster: error: "), result.stderr)
        self.assertIn(text, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_usage_errors_are_one_line_and_exit_2(self):
        self.check(2, "no program given")
        self.check(2, "'--bogus' is not a flag", "--bogus", "true")
        self.check(2, "--nproc-per-node=none", "--nproc-per-node", "none", "true")
        self.check(2, "--master-addr=192.0.2.1", "--master-addr=192.0.2.1", "true")
        self.check(2, "--numa-binding=near", "--numa-binding=near", "true")
        self.check(2, "PET_MAX_RESTARTS=-1", "true", env={"PET_MAX_RESTARTS": "-1"})
        self.check(2, "--rdzv-id=x\\x0ay", "--rdzv-id", "x\ny", "true")
        self.check(2, "--rdzv-id has 300 bytes", "--rdzv-id", "x" * 300, "true")

    def test_a_report_that_cannot_be_written_is_found_before_the_start(self):
        for path, why in ((self.directory, "Is a directory"), ("/proc/report.json", "No such file or directory"),
                          (os.path.join(self.directory, "none", "report.json"), "No such file or directory")):
            started = os.path.join(self.directory, "started")
            self.check(2, f"--report={path} cannot be written ({why})", "--report", path, "touch", started)
            self.assertFalse(os.path.exists(started))

    def test_a_wrong_hostfile_is_shown_with_its_line(self):
        hosts = self.file("hosts", "# ours\nn0 slots=8\nn1 slots=many\n")
        result = muster("run", "--hostfile", hosts, "true")
        self.assertEqual(result.returncode, 2, result.stderr)
        message, line, caret = result.stderr.splitlines()
        self.assertEqual(message, f"muster: error: {hosts}:3:10: 'many' is not a number of slots")
        self.assertEqual((line, caret), ("  n1 slots=many", "           ^"))

    def test_text_from_the_command_line_is_escaped(self):
        self.check(2, "--role\\x1b[2J", "--role\x1b[2J", "true")

    def test_programs_that_cannot_run(self):
        self.check(127, "program './none.py' does not exist", "./none.py")
        self.check(127, "'no-such-command' does not exist in PATH", "--no-python", "no-such-command")
        self.check(126, "is not executable", "--no-python", self.file("text"))
        self.check(126, "is a directory", self.directory)
        self.check(127, "interpreter '/no/such/sh'", self.file("broken", "#!/no/such/sh\n", 0o755))
        self.check(127, "PYTHON_EXEC", self.file("x.py"), env={"PYTHON_EXEC": "/no/python"})

    def test_a_log_directory_that_cannot_be_made_is_125(self):
        self.check(125, "cannot be made (Not a directory)", "--log-dir", self.file("file"), "true")
        self.check(125, "set TMPDIR or give --log-dir", "--tee", "3", "true", env={"TMPDIR": self.file("file2")})

    def test_error_files_that_nobody_asked_for_are_not_worth_the_job(self):
        result = muster("run", "true", env={"TMPDIR": self.file("file")})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("muster: note: workers have no error files: the log directory '", result.stderr)

    def test_a_current_directory_that_was_removed(self):
        def run(*arguments):
            gone = os.path.join(self.directory, "gone")
            os.mkdir(gone)
            return subprocess.run(["sh", "-c", 'rmdir "$0" && exec "$@"', gone, MUSTER, "run", *arguments, "--no-python", "pwd"],
                                  cwd=gone, capture_output=True, text=True, timeout=60, check=False)
        refused = run()
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("does not exist any more", refused.stderr)
        self.assertIn("--wdir", refused.stderr)
        self.assertEqual(run("--wdir", "near").returncode, 2)
        self.assertEqual(run("--wdir", "/").stdout, "/\n")

    def test_other_commands(self):
        self.assertEqual(muster().returncode, 2)
        self.assertIn("'train.py' is not a command", muster("train.py").stderr)
        self.assertEqual(muster("train.py").returncode, 2)
        self.assertEqual(muster("rendezvous").returncode, 2)
        self.assertEqual(muster("rendezvous", "--listen", "0.0.0.0:0").returncode, 2)
        self.assertEqual(muster("rendezvous", "--listen", "nonsense").returncode, 2)


    def test_under_the_name_of_torchrun_it_is_run(self):
        with tempfile.TemporaryDirectory() as folder:
            shim = os.path.join(folder, "new", "torchrun")
            for _ in range(2):  # the second time it is there
                self.assertIn(shim, muster("install-shim", os.path.dirname(shim)).stdout)
            ran = subprocess.run([shim, "--nproc-per-node", "2", "--no-python", "sh", "-c", "echo $WORLD_SIZE"], capture_output=True, text=True,
                                 timeout=60, check=False)
            self.assertEqual((ran.returncode, ran.stdout), (0, "2\n2\n"), ran.stderr)
            os.remove(shim)
            os.symlink("/bin/true", shim)
            refused = muster("install-shim", os.path.dirname(shim))
            self.assertEqual((refused.returncode, os.readlink(shim)), (125, "/bin/true"))
            self.assertIn("is there already and is not ours", refused.stderr)
        self.assertEqual(muster("install-shim").returncode, 2)

    def test_it_ends_with_its_parent_only(self):
        for pid, code in ((os.getpid(), 0), (1, 2)):
            ran = muster("run", "--end-with", str(pid), "--no-python", "true")
            self.assertEqual(ran.returncode, code, ran.stderr)
        self.assertIn(f"our parent is process {os.getpid()}", ran.stderr)
        self.assertEqual(muster("run", "--detach", "--end-with", str(os.getpid()), "--no-python", "true").returncode, 2)


class FirstHour(InDirectory):
    """What goes wrong in the first hour, and what is said of it."""

    def test_exec_errors_say_what_to_do(self):
        self.file("bare", "echo hi\n", 0o755)
        with open(os.path.join(self.directory, "dos"), "w", encoding="utf-8", newline="") as file:
            file.write("#!/bin/sh\r\necho hi\r\n")
        os.chmod(os.path.join(self.directory, "dos"), 0o755)
        for program, code, text in (("./bare", 126, "Exec format error: it has no '#!' line: add '#!/bin/sh'"),
                                    ("./dos", 127, "its interpreter '/bin/sh\\r' does not exist: the file has CRLF line ends; run dos2unix")):
            result = muster("run", program, cwd=self.directory)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(text, result.stderr)

    def compile(self, output, *arguments):
        source = self.file(output + ".c", "int main(void) { return 0; }\n")
        subprocess.run(["cc", source, "-o", os.path.join(self.directory, output), *arguments], check=True, timeout=60, cwd=self.directory)

    def test_a_program_of_mpi_is_refused_where_each_worker_would_be_alone(self):
        self.compile("libmpi.so.40", "-shared", "-Wl,-soname,libmpi.so.40")
        self.compile("solver", "-Wl,--no-as-needed", "libmpi.so.40", "-Wl,-rpath,$ORIGIN")
        refused = muster("run", "--nproc-per-node", "2", "./solver", cwd=self.directory)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertRegex(refused.stderr, "^muster: error: './solver' is an MPI program .it needs libmpi.so.40.*mpirun, or give --allow-singletons")
        for arguments in (("--nproc-per-node", "2", "--allow-singletons"), ()):
            ran = muster("run", *arguments, "./solver", cwd=self.directory)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_a_real_program_of_mpi_is_known(self):
        if not shutil.which("mpicc"):
            self.skipTest("no mpicc")
        source = self.file("m.c", "#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }\n")
        subprocess.run(["mpicc", source, "-o", os.path.join(self.directory, "m")], check=True, timeout=60)
        refused = muster("run", "--nproc-per-node", "2", "./m", cwd=self.directory)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("'./m' is an MPI program (it needs libmpi", refused.stderr)

    def test_a_library_that_is_not_found_is_told_with_what_to_do(self):
        self.compile("libgone.so.1", "-shared", "-Wl,-soname,libgone.so.1")
        self.compile("program", "-Wl,--no-as-needed", "libgone.so.1")
        result = muster("run", "--tee", "3", "--log-dir", "logs", "./program", cwd=self.directory)
        self.assertEqual(result.returncode, 127, result.stderr)
        self.assertIn("next       the folder of libgone.so.1 is not searched: link with -Wl,-rpath,DIR, or set LD_LIBRARY_PATH", result.stderr)
        result = muster("run", "./program", cwd=self.directory)
        self.assertIn("of a library 'ldd ./program' tells which", result.stderr)

    def test_a_flag_behind_the_program_is_a_note(self):
        script = self.file("ok.py", "import sys; print(sys.argv[1:])\n")
        result = muster("run", script, "--nproc-per-node", "3")
        self.assertEqual((result.returncode, result.stdout), (0, "['--nproc-per-node', '3']\n"))
        self.assertEqual(result.stderr.count("flags after the program belong to the program"), 1, result.stderr)
        self.assertEqual(muster("run", script, "--log-dir", "x").stderr, "")

    def test_errors_have_a_colour_on_a_terminal_only(self):
        for environment, expected in (({}, "muster: \x1b[1;31merror:\x1b[0m 'rn' is"), ({"NO_COLOR": "1"}, "muster: error: 'rn' is"),
                                      ({"TERM": "dumb"}, "muster: error: 'rn' is")):
            terminal = Terminal(MUSTER, "rn", **environment)
            self.addCleanup(terminal.close)
            self.assertEqual(terminal.end(), 2)
            self.assertTrue(terminal.text.startswith(expected), terminal.text)
        self.assertTrue(muster("rn", env={"TERM": "xterm"}).stderr.startswith("muster: error: 'rn' is"))


class Help(unittest.TestCase):
    def test_each_command_has_help_and_there_is_a_version(self):
        for arguments in (("--help",), ("run", "--help"), ("run", "-h"), ("rendezvous", "--help"), ("ps", "--help"), ("status", "-h"),
                          ("stacks", "--help"), ("logs", "--help"), ("attach", "--help"), ("kill", "--help"), ("clean", "--help"), ("doctor", "--help"),
                          ("agent", "--help"), ("install-shim", "--help"), ("show", "--help"), ("version", "--help")):
            result = muster(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("Usage: muster", result.stdout)
            self.assertLessEqual(max(map(len, result.stdout.splitlines())), 100, arguments)
        self.assertRegex(muster("--version").stdout, r"^muster \d+\.\d+\.\d+\n$")

    def test_help_and_version_are_commands_too(self):
        self.assertEqual(muster("help").stdout, muster("--help").stdout)
        for command in ("run", "ps", "status", "stacks", "logs", "attach", "kill", "clean", "doctor", "rendezvous", "install-shim", "show", "agent", "version"):
            asked = muster("help", command)
            self.assertEqual((asked.returncode, asked.stderr), (0, ""))
            self.assertEqual(asked.stdout, muster(command, "--help").stdout)
            self.assertTrue(asked.stdout.startswith("Usage: muster " + command) or command in ("run", "rendezvous", "install-shim"), asked.stdout)
        wrong = muster("help", "rn")
        self.assertEqual((wrong.returncode, wrong.stderr), (2, "muster: error: 'rn' is not a command; did you mean 'run'?\n"))
        self.assertEqual(muster("version").stdout, muster("--version").stdout)
        self.assertEqual(muster("version", "x").returncode, 2)
        facts = json.loads(muster("--version", "--json").stdout)
        self.assertEqual((facts["schema"], facts["version"]), ("muster.version", 1))
        self.assertEqual("muster " + facts["muster_version"] + "\n", muster("--version").stdout)
        self.assertIn("shm", facts["backends"])
        self.assertRegex(facts["compiler"], r"^\w+ \d+\.")
        self.assertTrue(facts["build_type"])
        self.assertTrue(all(facts["libraries"].values()), facts)
        self.assertEqual(json.loads(muster("version", "--json").stdout), facts)

    def test_a_report_is_shown_as_the_run_has_said_it(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            ran = muster("run", "--report", report, "--no-python", "sh", "-c", "exit 3")
            self.assertEqual(ran.returncode, 3)
            shown = muster("show", report)
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertIn("exit code  3\n", shown.stdout)
            self.assertIn(shown.stdout, ran.stderr)
            self.assertEqual(muster("run", "--report", report, "--no-python", "true").stderr, "")
            self.assertRegex(muster("show", report).stdout, r"^muster: true succeeded\n  ran +\d+\.\d s, ")
            absent = muster("show", os.path.join(folder, "none"))
            self.assertEqual((absent.returncode, absent.stdout), (125, ""))
            self.assertIn("none cannot be read: No such file or directory", absent.stderr)
            wrong = muster("show", MUSTER)
            self.assertEqual(wrong.returncode, 125)
            self.assertIn(f"{MUSTER} is no report of 'muster run --report': ", wrong.stderr)
        self.assertEqual(muster("show").returncode, 2)

    def test_a_variable_that_nobody_reads_is_a_note(self):
        result = muster("run", "--dry-run", "true", env={"PET_MAX_RESTART": "2"})
        self.assertEqual(result.returncode, 0)
        self.assertIn("muster: note: the variable PET_MAX_RESTART is not read; did you mean 'PET_MAX_RESTARTS'?\n", result.stderr)

    def test_every_flag_is_documented(self):
        text = ""
        for page in ("torchrun.md", "operations.md"):
            with open(os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", page), encoding="utf-8") as file:
                text += file.read()
        completion = muster("run", "--print-completion", "bash").stdout
        flags = [word for word in completion.replace("'", " ").split() if word.startswith("--") and len(word) > 2]
        self.assertGreater(len(flags), 30)
        for flag in flags:
            self.assertTrue(f"`{flag}`" in text or flag in ("--version", "--help"), flag)

    def test_the_bash_completion_completes(self):
        script = 'source <("$1" run --print-completion bash); shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _muster; ' \
                 'echo "${COMPREPLY[@]}"'
        for words, completed in (("run --nproc", "--nproc-per-node"), ("sta", "status stacks"), ("ps --a", "--all"), ("logs --f", "--follow"), ("att", "attach"),
                                 ("status --", "--help --json --rank --watch"), ("stacks job --he", "--help --helpers"), ("stacks job --n", "--native"), ("ki", "kill"),
                                 ("kill job --n", "--now"), ("doctor --t", "--towards"), ("status no-such-jo", "")):
            result = subprocess.run(["bash", "-c", script, "bash", MUSTER, "muster", *words.split()], capture_output=True, text=True,
                                    timeout=60, check=True)
            self.assertEqual(result.stdout.strip(), completed, words)

    def test_zsh_and_fish_complete(self):
        # zsh's own functions need a terminal: what they are told is looked at.
        zsh = 'compdef() { :; }; compadd() { shift; print -l -- $@; }; source <("$1" run --print-completion zsh); shift; ' \
              'words=("$@"); CURRENT=$#; _muster'
        fish = '$argv[1] run --print-completion fish | source; complete -C "$argv[2..]"'
        environment = {**os.environ, "PATH": f"{os.path.dirname(MUSTER)}:{os.environ['PATH']}"}  # the scripts ask muster for jobs
        shells = (("zsh", ["zsh", "-f", "-c", zsh, "zsh", MUSTER]), ("fish", ["fish", "--no-config", "-c", fish, MUSTER]))
        for name, command in shells:
            if shutil.which(name) is None:
                continue
            for line, wanted in (("muster sta", "status"), ("muster run --nproc", "--nproc-per-node"), ("muster kill job --g", "--grace"),
                                 ("muster help doc", "doctor"), ("muster ps --a", "--all")):
                ran = subprocess.run([*command, *line.split()], capture_output=True, text=True, timeout=60, env=environment, check=True)
                self.assertEqual(ran.stderr, "", (name, line))
                self.assertIn(wanted, [word.split("\t")[0] for word in ran.stdout.splitlines()], (name, line))
        self.assertEqual(muster("run", "--print-completion", "tcsh").returncode, 2)


if __name__ == "__main__":
    unittest.main()
