# SPDX-License-Identifier: Apache-2.0
"""import muster: jobs that a Python program launches. Real jobs throughout."""

import contextlib
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import types
import unittest

SOURCE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "launcher", "python")
sys.path.insert(0, os.path.abspath(SOURCE))
os.environ["MUSTER_PROGRAM"] = os.path.join(os.environ["MUSTER_BIN_DIR"], "muster")

import functions  # noqa: E402
import muster  # noqa: E402
from muster import _call, _program  # noqa: E402
from muster.elastic import flags_of_config  # noqa: E402
from processes import marked, wait_until  # noqa: E402

LIMIT_S = 60


class Launch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        # Calls have a directory of this test for their own.
        self.calls = os.path.join(self.folder.name, "calls")
        os.mkdir(self.calls)
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = self.calls

    def script(self, text):
        path = os.path.join(self.folder.name, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_function_is_called_by_every_rank(self):
        report = muster.launch(functions.add, 40, kwargs={"two": 2}, nproc_per_node=2)
        self.assertEqual((report.results, report.outcome, report.exit_code), ({0: 42, 1: 43}, "succeeded", 0))
        self.assertEqual([worker.rank for worker in report.workers], [0, 1])

    def test_workers_find_what_the_caller_finds(self):
        report = muster.launch(functions.where, nproc_per_node=2, env={"MODULE_TEST": "a value"})
        directory, path, size, value = report.results[1]
        self.assertEqual((directory, path, size, value), (os.getcwd(), sys.path, "2", "a value"))

    def test_the_exception_of_a_worker_is_raised_with_its_traceback(self):
        with self.assertRaises(muster.WorkerFailed) as caught, self.silent():
            muster.launch(functions.fail, 1, nproc_per_node=2)
        error = caught.exception
        self.assertEqual((error.worker.rank, error.worker.exit_code, error.exit_code, error.report.outcome), (1, 1, 1, "failed"))
        self.assertIn("Unhappy: no luck on 1", str(error))
        self.assertIn("functions.py", str(error))
        self.assertNotIn("_worker.py", error.worker.traceback)
        self.assertIsInstance(error.__cause__, functions.Unhappy)
        self.assertEqual(str(error.__cause__), "no luck on 1")

    def test_results_are_those_of_the_last_round(self):
        with self.silent():
            report = muster.launch(functions.fail_in_first_round, "of the second", nproc_per_node=2, max_restarts=1)
        self.assertEqual((report.results, report.restarts), ({0: "of the second", 1: "of the second"}, 1))

    def test_a_result_that_cannot_be_sent_is_an_error_of_its_rank(self):
        with self.assertRaisesRegex(muster.WorkerFailed, "pickle"), self.silent():
            muster.launch(functions.unsendable)

    def test_a_script_gets_its_arguments_and_its_output_goes_where_ours_goes(self):
        script = self.script("import sys; print('out', sys.argv[1:]); print('err', file=sys.stderr)")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            report = muster.launch(script, "--epochs", 3)
        self.assertEqual((report.results, out.getvalue(), err.getvalue()), ({}, "out ['--epochs', '3']\n", "err\n"))

    def test_a_signal_that_ended_a_worker_is_told(self):
        with self.assertRaises(muster.WorkerFailed) as caught, self.silent():
            muster.launch(self.script("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
        self.assertEqual((caught.exception.worker.signal, caught.exception.exit_code), (signal.SIGSEGV, 128 + signal.SIGSEGV))

    def test_other_ends_are_told_with_their_code(self):
        with self.assertRaises(muster.UsageError) as caught, self.silent():
            muster.launch("script.py", max_restarts=-1)
        self.assertEqual(caught.exception.exit_code, 2)
        self.assertIn("--max-restarts", str(caught.exception))
        with self.assertRaises(muster.LaunchError) as caught, self.silent():
            muster.launch(self.script("import time; time.sleep(600)"), timeout=0.1)
        self.assertEqual((caught.exception.exit_code, caught.exception.report.outcome), (124, "deadline"))
        self.assertNotIsInstance(caught.exception, muster.WorkerFailed)
        with self.assertRaisesRegex(TypeError, "this host only"):
            muster.launch(functions.add, 1, host="n0,n1")
        with self.assertRaisesRegex(TypeError, "cannot be sent to workers|cannot pickle"):
            muster.launch(functions.add, threading.Lock())

    def test_a_function_of_the_program_itself_needs_cloudpickle(self):
        program = ("import os, sys\n{hide}import muster\noffset = 40\n"
                   "def double(value):\n    return 2 * value + offset + int(os.environ['RANK'])\n"
                   "print(muster.launch(double, 1, nproc_per_node=2).results)\n")
        python = os.environ["MUSTER_TORCH_PYTHON"]
        environment = {**os.environ, "PYTHONPATH": os.path.abspath(SOURCE)}

        def run(text, interpreter):
            return subprocess.run([interpreter, "-"], input=text, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)

        hidden = run(program.format(hide="sys.modules['cloudpickle'] = None\n"), sys.executable)
        self.assertIn("pip install cloudpickle", hidden.stderr)
        if not os.path.exists(python) or subprocess.run([python, "-c", "import cloudpickle"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no cloudpickle")
        shown = run(program.format(hide=""), python)
        self.assertEqual((shown.stdout, shown.stderr), ("{0: 42, 1: 43}\n", ""))

    def test_nothing_of_a_call_is_left(self):
        muster.launch(functions.add, 1)
        self.assertEqual(os.listdir(self.calls), [])

    def test_a_report_is_kept_where_it_is_wanted(self):
        path = os.path.join(self.folder.name, "report.json")
        muster.launch(functions.add, 1, report=path)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["outcome"], "succeeded")
        with self.assertRaises(muster.UsageError) as caught, self.silent():  # and that of an earlier job is not taken for this one's
            muster.launch(functions.add, 1, report=path, max_restarts=-1)
        self.assertIsNone(caught.exception.report)

    def test_an_error_of_an_earlier_round_is_no_cause(self):
        with self.assertRaises(muster.WorkerFailed) as caught, self.silent():
            muster.launch(functions.fail_and_be_killed, max_restarts=1)
        self.assertEqual((caught.exception.worker.signal, caught.exception.__cause__), (signal.SIGKILL, None))

    def test_what_cannot_be_waited_for_or_told_apart_is_refused(self):
        with self.assertRaisesRegex(TypeError, "dry_run starts no job"):
            muster.launch("train.py", dry_run=True)
        with self.assertRaisesRegex(ValueError, "has a comma"):
            muster.launch("train.py", export={"A": "x,B=1"})
        self.assertEqual(_program.flags_of({"export": {"A": 1, "B": "x"}, "tee": "0:1,1:3", "detach": False}), ["--export=A=1,B=x", "--tee=0:1,1:3"])

    def test_a_stream_that_breaks_ends_no_job(self):
        class Broken(io.StringIO):
            def write(self, text):
                raise RuntimeError("gone")

        with contextlib.redirect_stdout(Broken()):
            self.assertEqual(muster.launch(self.script("for i in range(100_000): print(i)")).exit_code, 0)

    @contextlib.contextmanager
    def silent(self):
        with contextlib.redirect_stderr(io.StringIO()):
            yield


class End(unittest.TestCase):
    """What becomes of a job when the Python program that has launched it does not wait in peace."""

    def start(self, function):
        """Launches the function on two workers, in a program of its own, and waits until both run."""
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.calls = tempfile.TemporaryDirectory()
        self.addCleanup(self.calls.cleanup)
        self.mark = f"module-{os.getpid()}-{self._testMethodName}"
        program = ("import functions, muster, sys\n"
                   "try:\n    muster.launch(getattr(functions, sys.argv[2]), sys.argv[1], nproc_per_node=2)\n"
                   "except KeyboardInterrupt:\n    print('interrupted')\n")
        here = os.path.dirname(os.path.abspath(__file__))
        self.process = subprocess.Popen([sys.executable, "-c", program, self.folder.name, function], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={
            **os.environ, "TMPDIR": self.calls.name, "PYTHONPATH": os.pathsep.join([os.path.abspath(SOURCE), here]), "MUSTER_TEST_MARK": self.mark})
        self.addCleanup(lambda: (self.process.kill(), self.process.communicate()))
        self.wait_for("0", "1")

    def wait_for(self, *names):
        wait_until(lambda: set(os.listdir(self.folder.name)) >= set(names), f"{names} of the ranks", LIMIT_S)

    def test_an_interrupt_ends_it_in_order(self):
        self.start("wait_for_the_end")
        self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.process.communicate(timeout=LIMIT_S)[0], "interrupted\n")
        self.assertEqual(marked(self.mark), [])

    def test_a_second_interrupt_ends_it_without_grace(self):
        self.start("refuse_to_end")
        self.process.send_signal(signal.SIGINT)
        self.wait_for("told0", "told1")
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=LIMIT_S)
        self.assertEqual(out, "interrupted\n")
        self.assertIn("second Ctrl-C: killing all workers", err)
        self.assertEqual(marked(self.mark), [])

    def test_it_ends_with_a_killed_caller(self):
        self.start("wait_for_the_end")
        self.process.kill()
        wait_until(lambda: marked(self.mark) == [], "the end of every process of the job", LIMIT_S)
        self.assertEqual(len(self.folders()), 1)
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = self.calls.name
        self.assertEqual(muster.launch(functions.add, 1, kwargs={"two": 2}).results, {0: 3})
        self.assertEqual(self.folders(), [], "the next call removes it")

    def folders(self):
        return [name for name in os.listdir(self.calls.name) if name.startswith("muster-call-")]


class Environment(unittest.TestCase):
    """Which python runs scripts where muster is installed in a virtual environment."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.programs = os.path.join(self.folder, "bin")
        os.mkdir(self.programs)
        os.symlink(os.path.realpath(sys.executable), os.path.join(self.programs, "python3"))
        try:
            os.link(os.environ["MUSTER_PROGRAM"], os.path.join(self.programs, "muster"))
        except OSError:  # another file system
            shutil.copy(os.environ["MUSTER_PROGRAM"], self.programs)
        self.elsewhere = os.path.join(self.folder, "elsewhere")
        os.mkdir(self.elsewhere)
        self.program("elsewhere/python3", "#!/bin/sh\necho of PATH\n")
        self.program("named", "#!/bin/sh\necho named\n")
        self.program("script.py", "import sys; print(sys.prefix)\n")

    def program(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_script(self, **environment):
        ran = subprocess.run([os.path.join(self.programs, "muster"), "run", os.path.join(self.folder, "script.py")], text=True, check=False,
                             env={"PATH": self.elsewhere + ":/usr/bin:/bin", **environment}, capture_output=True, timeout=LIMIT_S)
        return ran.stdout or ran.stderr

    def test_it_is_that_of_the_environment_unless_another_is_named(self):
        self.assertEqual(self.run_script(), "of PATH\n")
        home = os.path.dirname(os.path.realpath(sys.executable))
        with open(os.path.join(self.folder, "pyvenv.cfg"), "w", encoding="utf-8") as file:
            file.write(f"home = {home}\n")
        self.assertEqual(self.run_script(), self.folder + "\n")
        self.assertEqual(self.run_script(PYTHON_EXEC=os.path.join(self.folder, "named")), "named\n")


class Trust(unittest.TestCase):
    """Pickles are read from a directory of this user alone."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_of_a_directory_that_others_may_write_nothing_is_read(self):
        _call.write_result(self.folder, 0, 0, "a result")
        self.assertEqual((_call.read_results(self.folder, 0), _call.read_results(self.folder, 1)), ({0: "a result"}, {}))
        os.chmod(self.folder, 0o777)
        with self.assertRaisesRegex(PermissionError, "of this user alone"):
            _call.read_results(self.folder, 0)
        os.chmod(self.folder, 0o2700)  # as below a directory whose group is inherited
        os.rename(os.path.join(self.folder, "result.0.0"), os.path.join(self.folder, "elsewhere"))
        os.symlink("elsewhere", os.path.join(self.folder, "result.0.0"))
        with self.assertRaises(OSError):
            _call.read_results(self.folder, 0)

    def test_what_is_written_is_for_this_user(self):
        _call.write_call(self.folder, functions.add, (1,), {})
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.folder, "call")).st_mode), 0o600)


class Clash(unittest.TestCase):
    def test_another_distribution_of_the_name_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "muster-9.9.dist-info"))
            with open(os.path.join(folder, "muster-9.9.dist-info", "METADATA"), "w", encoding="utf-8") as file:
                file.write("Metadata-Version: 2.1\nName: muster\nVersion: 9.9\n")
            sys.path.insert(0, folder)
            try:
                with self.assertWarnsRegex(UserWarning, "'muster' 9.9 is another project's"):
                    _program.find_program()
            finally:
                sys.path.remove(folder)


class Tarball(unittest.TestCase):
    def test_a_module_beside_a_folder_bin_uses_the_program_there(self):
        with tempfile.TemporaryDirectory() as folder:
            module = os.path.join(folder, "python", "muster")
            shutil.copytree(os.path.dirname(_program.__file__), module)
            program = os.path.join(folder, "bin", "muster")
            os.mkdir(os.path.dirname(program))
            os.symlink(os.path.realpath(os.environ["MUSTER_PROGRAM"]), program)
            environment = {name: value for name, value in os.environ.items() if name != "MUSTER_PROGRAM"}
            ran = subprocess.run([sys.executable, "-c", "from muster import _program; print(_program.find_program())"], text=True, check=True,
                                 env={**environment, "PYTHONPATH": os.path.dirname(module)}, capture_output=True, timeout=LIMIT_S)
            self.assertEqual(ran.stdout, program + "\n")


class Elastic(unittest.TestCase):
    def test_outputs_come_by_rank(self):
        config = muster.LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, rdzv_backend="c10d", max_restarts=0)
        self.assertEqual(muster.elastic_launch(config, functions.add)(1), {0: 1, 1: 2})
        self.assertEqual(muster.elastic_launch(config, "true")(), {0: None, 1: None})
        with self.assertRaises(muster.WorkerFailed) as caught, contextlib.redirect_stderr(io.StringIO()):
            muster.elastic_launch(config, functions.fail)(0)
        self.assertEqual(caught.exception.get_first_failure()[0], 0)

    def test_its_fields_are_flags(self):
        specs = types.SimpleNamespace(root_log_dir="logs", _redirects=0, _tee={1: 3, 0: 1}, _local_ranks_filter={1, 0})
        config = muster.LaunchConfig(2, 4, 8, specs, "job", rdzv_endpoint="n0:29400", rdzv_configs={"join_timeout": 60}, rdzv_timeout=9,
                                     shutdown_timeout=5, duplicate_stdout_filters=["a", "b"])
        flags = _program.flags_of(flags_of_config(config))
        for flag in ("--nnodes=2:4", "--rdzv-id=job", "--rdzv-endpoint=n0:29400", "--rdzv-backend=c10d", "--rdzv-conf=join_timeout=60,timeout=9",
                     "--shutdown-timeout=5", "--duplicate-stdout-filters=a,b", "--log-dir=logs", "--tee=0:1,1:3", "--local-ranks-filter=0,1",
                     "--max-restarts=3"):
            self.assertIn(flag, flags)
        self.assertNotIn("--standalone", flags)
        config = muster.LaunchConfig(2, 2, 1, rdzv_backend="static", rdzv_endpoint="n0:29500", rdzv_configs={"rank": 1})
        flags = _program.flags_of(flags_of_config(config))
        for flag in ("--node-rank=1", "--rdzv-endpoint=n0:29500", "--rdzv-backend=static"):
            self.assertIn(flag, flags)
        with self.assertRaisesRegex(ValueError, "metrics_cfg"):
            muster.LaunchConfig(1, 1, 1, metrics_cfg={"a": "b"})


if __name__ == "__main__":
    unittest.main()
