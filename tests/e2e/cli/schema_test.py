# SPDX-License-Identifier: Apache-2.0
"""What programs read of us is as docs/schema says: reports, dry runs, status, events and the version, of real runs."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from interop import MUSTER, ROOT, TORCH_PYTHON, clean_environment, skip

try:
    import jsonschema
except ImportError:
    jsonschema = None

SCHEMAS = os.path.join(ROOT, "docs", "schema")
LIMIT_S = 60
# Rank 1 fails in each round; the other one waits to be stopped.
FAILS = 'if [ "$RANK" = 1 ]; then echo ValueError: no luck >&2; exit 3; fi; exec sleep 60'


def schema(name):
    with open(os.path.join(SCHEMAS, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def parts(node):
    """Every schema in a schema that describes an object, itself included."""
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict):
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from parts(item)


def strict(name):
    """The schema without the freedom to add fields, but where it grants that itself: so a new field has to be described."""
    whole = schema(name)
    for part in parts(whole):
        if part.get("type") == "object" and "additionalProperties" not in part:
            part["unevaluatedProperties"] = False
    return jsonschema.Draft202012Validator(whole)


def run(*arguments, code=0, **options):
    ran = subprocess.run([MUSTER, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                         env=clean_environment(), **options)
    assert ran.returncode == code, f"{arguments} ended with {ran.returncode}\n{ran.stderr}"
    return ran.stdout


class Schemas(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def fits(self, name, value):
        errors = [f"{error.json_path}: {error.message}" for error in strict(name).iter_errors(value)]
        self.assertEqual(errors, [], f"docs/schema/{name}.json")

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def test_they_are_schemas_and_describe_each_field(self):
        self.assertEqual(sorted(os.listdir(SCHEMAS)), ["dry_run.json", "event.json", "report.json", "status.json", "version.json"])
        named = set()
        for page in ("report.md", "operations.md"):
            with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
                named.update(word for code in re.findall(r"`([^`\n]+)`", file.read()) for word in re.findall(r"\w+", code))
        for name in os.listdir(SCHEMAS):
            whole = schema(name[:-len(".json")])
            jsonschema.Draft202012Validator.check_schema(whole)
            self.assertIsInstance(whole["properties"]["version"]["const"], int)
            for part in parts(whole):
                if part.keys() == {"properties"}:  # a condition
                    continue
                self.assertLessEqual(set(part["required"]), set(part["properties"]), name)
                for field, what in part["properties"].items():
                    self.assertTrue(what.get("description"), f"{name}: {field}")
                self.assertEqual(set(part["properties"]) - named, set(), f"{name}: the pages do not have these")

    def test_a_job_that_fails_after_a_restart(self):
        run("run", "--nproc-per-node", "2", "--max-restarts", "1", "--restart-policy", "torchrun", "--tee", "3", "--log-dir", "logs", "--name", "night",
            "--event-file", "events", "--report", "report", "--no-python", "sh", "-c", FAILS, code=3, cwd=self.folder)
        report = json.loads(self.read("report"))
        self.fits("report", report)
        self.assertEqual((report["root_cause"]["rank"], len(report["decisions"]), len(report["nodes"][0]["workers"])), (1, 2, 2))
        kinds = set()
        for line in self.read("events").splitlines():
            event = json.loads(line)
            self.fits("event", event)
            kinds.add(event["kind"])
        self.assertEqual(kinds, {"job_start", "round_begin", "node_begin", "worker_end", "failure", "restart", "no_restart", "job_end"})

    def test_a_job_that_succeeds(self):
        run("run", "--report", "report", "--no-python", "true", cwd=self.folder)
        report = json.loads(self.read("report"))
        self.fits("report", report)
        self.assertEqual((report["outcome"], report["root_cause"]), ("succeeded", None))

    def test_dry_runs(self):
        for flags, ranks in (((), 1), (("-H", "a:2,b:2", "--tee", "0:3,1:1", "--local-ranks-filter", "0"), 4), (("--nproc-per-node", "2", "--name", "night"), 2)):
            job = json.loads(run("run", "--dry-run", *flags, "true", cwd=self.folder))
            self.fits("dry_run", job)
            self.assertEqual(len(job["placement"]["ranks"]), ranks)

    def test_the_status_of_a_job_that_runs_and_has_ended(self):
        name = f"schema-{os.getpid()}"
        job = subprocess.Popen([MUSTER, "run", "--nproc-per-node", "2", "--name", name, "--no-python", "sh", "-c", "echo ready; exec sleep 60"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=clean_environment())
        try:
            for _ in range(2):
                self.assertEqual(job.stdout.readline(), "ready\n")
            status = json.loads(run("status", name, "--json"))
            self.fits("status", status)
            self.assertEqual([worker["rank"] for worker in status["nodes"][0]["workers"]], [0, 1])
            stacks = json.loads(run("stacks", name, "--json"))
            self.fits("status", stacks)
            self.assertTrue(stacks["nodes"][0]["workers"][0]["processes"])
        finally:
            job.terminate()
            job.communicate(timeout=LIMIT_S)
        ended = json.loads(run("status", name, "--json"))
        self.fits("status", ended)
        self.assertEqual(ended["ended"]["exit_code"], 143)

    def test_the_version(self):
        self.fits("version", json.loads(run("version", "--json")))

    def test_a_field_that_is_missing_or_new_is_found(self):
        facts = json.loads(run("version", "--json"))
        facts["features"]["new"] = True
        del facts["compiler"]
        errors = [error.message for error in strict("version").iter_errors(facts)]
        self.assertEqual(sorted(errors), ["'compiler' is a required property", "Unevaluated properties are not allowed ('new' was unexpected)"])
        self.assertEqual(len(list(jsonschema.Draft202012Validator(schema("version")).iter_errors(facts))), 1)


def main():
    if jsonschema is not None:
        unittest.main()
    if os.environ.get("MUSTER_SCHEMA_TEST") != "again" and os.access(TORCH_PYTHON, os.X_OK):
        return subprocess.run([TORCH_PYTHON, __file__, *sys.argv[1:]], env={**os.environ, "MUSTER_SCHEMA_TEST": "again"}, check=False).returncode
    return skip("no jsonschema package; scripts/make_venv.sh installs it where PyPI can be reached")


if __name__ == "__main__":
    sys.exit(main())
