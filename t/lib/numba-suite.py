# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that numba-cuda's package carries, and compares what fails with a list. TAP on
stdout.

    python numba-suite.py KNOWN [MODULE...]

A test of TAP is one of numba's modules (cudapy.test_array); without any named, all of them. KNOWN
has a line for each test that is known to fail: MODULE::CLASS::TEST  # why. A test that fails and is
not listed fails its module, and so does one that is listed and passes, so that the list only
shrinks. Each module runs in a process of its own; a test that takes too long or kills that process
has failed, and the module's other tests still run.
"""
import collections
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TEST_LIMIT = 300  # seconds for one test
MODULE_LIMIT = 1500  # for all of a module
# These measure, or run without a device.
LEFT_OUT = ("benchmarks.", "cudasim.")

# numba's own conftest is not in the package. This one also notes how each test went.
CONFTEST = '''
import json, os, pytest

@pytest.fixture
def initialize_from_pytest_config(request):
    request.instance._dump_failed_filechecks = False

def note(**what):
    with open(os.environ["SUITE_NOTES"], "a") as f:
        f.write(json.dumps(what) + "\\n")

def pytest_runtest_logstart(nodeid, location):
    note(test=nodeid.split("::", 1)[1], outcome="began")

def pytest_runtest_logreport(report):
    outcome = report.outcome
    if outcome == "skipped" and hasattr(report, "wasxfail"):
        outcome = "passed"
    text = str(report.longrepr).strip().splitlines()[-1:] if outcome == "failed" else []
    test = report.nodeid.split("::", 1)[1]
    note(test=test, outcome=outcome, when=report.when, text=" ".join(text)[:300])

def pytest_collectreport(report):
    if report.skipped:
        note(test="(import)", outcome="skipped", when="call", text="")
    if report.failed:
        note(test="(import)", outcome="failed", when="call", text=str(report.longrepr)[-300:])
'''

# pytest would import the file by its path, as another module than numba.cuda.tests....
STUB = """
import importlib
m = importlib.import_module("numba.cuda.tests.{}")
globals().update({{k: v for k, v in vars(m).items()
                   if not k.startswith("__") and getattr(v, "__module__", "") == m.__name__}})
"""


def all_modules():
    folder = pathlib.Path(importlib.util.find_spec("numba_cuda").origin).parent / "numba/cuda/tests"
    names = [
        str(p.relative_to(folder).with_suffix("")).replace("/", ".")
        for p in sorted(folder.glob("**/test_*.py"))
    ]
    return [n for n in names if not n.startswith(LEFT_OUT)]


def run(module, folder):
    """{test: (outcome, text)} of a module, where the outcome is passed, failed or skipped."""
    stub = folder / ("test_" + module.replace(".", "__") + ".py")
    stub.write_text(STUB.format(module))
    results, left = {}, MODULE_LIMIT
    while True:
        notes = folder / "notes"
        notes.write_text("")
        done = [f"--deselect={stub.name}::{test}" for test in results]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--timeout={TEST_LIMIT}",
            "-W",
            "ignore",
            *done,
            stub.name,
        ]
        try:
            subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "SUITE_NOTES": str(notes), "PYTHONDONTWRITEBYTECODE": "1"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=left,
            )
            ended = "killed its process"
        except subprocess.TimeoutExpired:
            ended, left = f"took the module past {MODULE_LIMIT} s", 0
        open_test = None
        for line in notes.read_text().splitlines():
            n = json.loads(line)
            test, outcome = n["test"], n["outcome"]
            if outcome == "began":
                open_test = test
                continue
            if n["when"] == "teardown":
                open_test = None
            before = results.get(test, ("", ""))[0]
            # A failure of a part is the test's; a skip counts where nothing else happened.
            if before != "failed" and (
                outcome == "failed" or n["when"] == "call" or outcome == "skipped"
            ):
                results[test] = (outcome, n["text"])
        if open_test is None:
            return results
        results[open_test] = ("failed", ended)
        if not left:
            return results


def read_known(path):
    known = {}
    for line in pathlib.Path(path).read_text().splitlines():
        test, _, why = line.partition("#")
        if test.strip():
            known[test.strip()] = why.strip()
    return known


def main():
    known = read_known(sys.argv[1])
    modules = sys.argv[2:] or all_modules()
    total = collections.Counter()
    print(f"1..{len(modules)}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "conftest.py").write_text(CONFTEST)
        for number, module in enumerate(modules, 1):
            results = run(module, folder)
            count = collections.Counter(outcome for outcome, _ in results.values())
            total += count
            listed = {k.split("::", 1)[1] for k in known if k.startswith(module + "::")}
            failed = {t for t, (outcome, _) in results.items() if outcome == "failed"}
            complaints = [f"{module}::{t} fails: {results[t][1]}" for t in sorted(failed - listed)]
            complaints += [
                f"{module}::{t} is listed as failing and does not fail: take it from {sys.argv[1]}"
                for t in sorted(listed - failed)
            ]
            if not results:
                complaints.append(f"{module}: no test ran")
            says = ", ".join(f"{count[o]} {o}" for o in ("passed", "failed", "skipped") if count[o])
            print(f"{'not ok' if complaints else 'ok'} {number} - {module}: {says}", flush=True)
            for c in complaints:
                print(f"# {c}", file=sys.stderr, flush=True)
    print(
        f"# numba-cuda's tests: {total['passed']} passed, {total['failed']} failed, "
        f"{total['skipped']} skipped",
        flush=True,
    )


main()
