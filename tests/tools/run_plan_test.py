"""tools/run_plan.py in a made-up checkout: what it runs, what it says, and how it stops and goes on."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import run_plan  # noqa: E402

PLAN = """
default = [
  { minutes = 1, program = "ceilings" },
  { minutes = 2.5, program = "decode_time", config = "decode/table1", flags = "--rows a,b --threads {cores}" },
  { minutes = 3, program = "perplexity", config = "training/fig1", corpus = true },
  { minutes = 1, program = "bench_kernels", flags = "--benchmark_filter=x$|^(y)/" },
]
full = [{ minutes = 10, program = "perplexity", config = "training/fig3", corpus = true }]
smoke = [{ minutes = 0.1, program = "ceilings", flags = "--quick" }]
quick = [{ minutes = 0.1, program = "ceilings" }]
headline = [
  { minutes = 1, program = "ceilings" },
  { minutes = 2, program = "decode_time", config = "decode/table1" },
]
[peers]
quick = [
  { minutes = 1, program = "theirs", command = "{peers} theirs.py", flags = "--threads {cores}" },
  { minutes = 1, program = "both", command = "{python} both.py {pytorches}" },
]
"""
# Notes its name and arguments; does what a file of its name says.
PROGRAM = f"""#!{sys.executable}
import os, pathlib, sys, time
name = pathlib.Path(sys.argv[0]).name
with open("calls", "a") as calls:
    calls.write(" ".join([name, *sys.argv[1:]]) + "\\n")
if "--where" in sys.argv:
    print("results/local/here")
if os.path.exists("does/" + name):
    exec(open("does/" + name).read())
"""


class MadeUpCheckout(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name).resolve() / "checkout"
        for folder in ("tools", "experiments", "build/release/experiments", "plots", "does"):
            (self.root / folder).mkdir(parents=True)
        shutil.copy(ROOT / "run_all.sh", self.root)
        for name in ("machine.py", "run_plan.py", "sitting.py"):
            shutil.copy(ROOT / "tools" / name, self.root / "tools")
        (self.root / "experiments" / "plan.toml").write_text(PLAN)
        for name in ("ceilings", "decode_time", "perplexity", "bench_kernels"):
            self.program(f"build/release/experiments/{name}")
        for name in (
            "install_dependencies.sh",
            "build.sh",
            "plots/summarise.py",
            "plots/draw.py",
            "plots/make_report.py",
        ):
            self.program(name)

    def program(self, name):
        path = self.root / name
        path.write_text(PROGRAM)
        path.chmod(0o755)

    def does(self, name, text):
        (self.root / "does" / name).write_text(text)

    def run_all(self, *arguments):
        return subprocess.run(
            [self.root / "run_all.sh", *arguments],
            cwd=self.root.parent,
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self):
        """What ran, and forgets it."""
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


class RunPlanTest(MadeUpCheckout):
    def test_steps_run_in_order_into_the_machines_folder(self):
        done = self.run_all()
        self.assertEqual(done.returncode, 0, done.stderr)
        into = "--results results/local/here"
        cores = len(os.sched_getaffinity(0))
        self.assertEqual(
            self.calls(),
            [
                "install_dependencies.sh",
                "build.sh release drivers",
                "decode_time --where",
                f"ceilings {into}",
                f"decode_time --config experiments/configs/decode/table1.cfg {into} --rows a,b --threads {cores}",
                f"perplexity --config experiments/configs/training/fig1.cfg {into}",
                f"bench_kernels {into} --benchmark_filter=x$|^(y)/",
                f"summarise.py {into}",
                f"draw.py {into}",
                f"make_report.py {into}",
            ],
        )
        self.assertIn("== Plan: about 8 minutes, and up to twice that", done.stdout)
        self.assertIn("== [2/4] table1: about 2.5 min, about 7 min left in all", done.stdout)
        self.assertIn(
            "report: results/local/here/report.md and, for a browser, report.html", done.stdout
        )

    def test_a_text_goes_to_the_curves_alone_and_paths_are_the_callers(self):
        (self.root.parent / "text.txt").write_text("words")
        self.assertEqual(
            self.run_all("--corpus", "text.txt", "--results", "mine", "--full").returncode, 0
        )
        with_text = [line for line in self.calls() if "--corpus" in line]
        self.assertEqual(len(with_text), 2)
        for line in with_text:
            self.assertTrue(line.startswith("perplexity "))
            self.assertTrue(
                line.endswith(
                    f"--results {self.root.parent}/mine --corpus {self.root.parent}/text.txt"
                )
            )

    def test_what_takes_a_text_is_said_by_the_plan(self):
        (self.root / "experiments" / "plan.toml").write_text(PLAN.replace(", corpus = true", ""))
        (self.root.parent / "text.txt").write_text("words")
        self.assertEqual(self.run_all("--corpus", "text.txt").returncode, 0)
        self.assertEqual([line for line in self.calls() if "--corpus" in line], [])

    def peers(self):
        """An environment that is ready; what a run with it prints."""
        for folder in ("build/peers/bin", "experiments/peers"):
            (self.root / folder).mkdir(parents=True)
        for name in ("build/peers/ready", "experiments/peers/requirements.txt"):
            (self.root / name).write_text("jax\n")
        for name in ("build/peers/bin/python", "both.py"):
            self.program(name)
        with mock.patch.dict(os.environ):
            os.environ.pop("SCALING_PEERS", None)
            return self.run_all("--quick", "--peers", "--results", "mine")

    def test_programs_of_python_run_by_the_interpreter_that_the_plan_says(self):
        done = self.peers()
        self.assertEqual(done.returncode, 0, done.stderr)
        build, theirs, _, both = self.calls()[3:7]
        self.assertEqual(build, "python experiments/peers/build_libraries.py")
        cores = len(os.sched_getaffinity(0))
        into = f"--results {self.root.parent}/mine"
        self.assertEqual(theirs, f"python theirs.py {into} --threads {cores}")
        self.assertTrue(both.startswith("both.py --python pytorch=build/peers/bin/python "))
        self.assertTrue(both.endswith(into))

    def test_without_a_library_the_other_peers_are_timed(self):
        self.does("python", "sys.exit('build_libraries' in sys.argv[1])")
        done = self.peers()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left out are skipped", done.stderr)
        self.assertIn("python theirs.py", " ".join(self.calls()))

    def test_a_failing_step_leaves_the_others_and_is_named(self):
        self.does("decode_time", "sys.exit(0 if '--where' in sys.argv else 3)")
        done = self.run_all()
        self.assertEqual(done.returncode, 1)
        self.assertIn("table1 ended with status 3; going on with the others", done.stderr)
        self.assertIn("not complete: table1; the same command repeats only those", done.stderr)
        self.assertIn("make_report.py", " ".join(self.calls()))

    def test_a_failing_build_is_the_end(self):
        self.does("build.sh", "sys.exit(4)")
        self.assertEqual(self.run_all("--smoke").returncode, 4)
        self.assertEqual(self.calls(), ["install_dependencies.sh", "build.sh release drivers"])

    def test_smoke_leaves_nothing(self):
        done = self.run_all("--smoke")
        self.assertEqual(done.returncode, 0, done.stderr)
        folder = next(line for line in self.calls() if line.startswith("ceilings")).split()[2]
        self.assertFalse(os.path.exists(folder))
        self.assertFalse((self.root / "results").exists())

    def test_stopped_by_hand_or_by_a_program_it_says_how_to_go_on(self):
        self.does("decode_time", "sys.exit(0 if '--where' in sys.argv else 130)")
        done = self.run_all("--results", "a b")
        self.assertEqual(done.returncode, 130)
        self.assertIn(
            f"go on with:\n  ./run_all.sh --results '{self.root.parent}/a b'", done.stderr
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            self.calls()
            self.does(
                "decode_time", "open('begun', 'w')\nif '--where' not in sys.argv: time.sleep(1)"
            )
            (self.root / "begun").unlink(missing_ok=True)
            running = subprocess.Popen(
                [self.root / "run_all.sh", "--results", "mine"],
                cwd=self.root.parent,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            end = time.monotonic() + 30
            while not (self.root / "begun").exists() and time.monotonic() < end:
                time.sleep(0.02)
            running.send_signal(number)
            said = running.communicate()[1]
            self.assertEqual(running.returncode, 130)
            self.assertIn("Stopped. Finished records stay", said)
            self.assertFalse([line for line in self.calls() if line.startswith("perplexity")])


class ProcessorTest(unittest.TestCase):
    def coretype(self, flags, **environment):
        with (
            tempfile.NamedTemporaryFile("w", suffix="cpuinfo") as file,
            mock.patch.dict(os.environ, environment),
        ):
            os.environ.pop("OPENBLAS_CORETYPE", None)
            os.environ.update(environment)
            file.write(f"vendor_id : GenuineIntel\nflags : fpu {flags}\n")
            file.flush()
            run_plan.know_the_processor(file.name)
            return os.environ.get("OPENBLAS_CORETYPE")

    def test_whoever_made_it_a_skylake_is_named_unless_the_user_names_another(self):
        whole = "avx2 avx512f avx512dq avx512bw avx512vl"
        self.assertEqual(self.coretype(whole), "SKYLAKEX")
        self.assertEqual(self.coretype(whole, OPENBLAS_CORETYPE="ZEN"), "ZEN")
        for lacking in ("avx2", "avx2 avx512f avx512cd avx512er"):
            self.assertIsNone(self.coretype(lacking))


class PlanTest(unittest.TestCase):
    def test_every_step_has_its_config_and_its_program(self):
        with open(ROOT / "experiments" / "plan.toml", "rb") as file:
            plan = tomllib.load(file)
        self.assertEqual(
            set(plan),
            {"default", "full", "quick", "smoke", "headline", "libraries", "sweeps", "peers"},
        )
        peers = plan.pop("peers")
        for step in (step for steps in (*plan.values(), *peers.values()) for step in steps):
            program = next(
                (word for word in step.get("command", "").split() if word.endswith(".py")),
                f"experiments/{step['program']}.cpp",
            )
            self.assertTrue((ROOT / program).exists(), step)
            self.assertEqual(step.get("corpus", False), step["program"] == "perplexity", step)
            if "config" in step:
                self.assertTrue(
                    (ROOT / "experiments" / "configs" / f"{step['config']}.cfg").exists(), step
                )
            self.assertGreater(step["minutes"], 0)


if __name__ == "__main__":
    unittest.main()
