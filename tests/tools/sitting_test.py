"""run_all.sh --publish in a made-up checkout: what a sitting is, when it goes on and what it refuses."""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run_plan_test  # noqa: E402


class SittingTest(run_plan_test.MadeUpCheckout):
    def setUp(self):
        super().setUp()
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("first")

    def git(self, *words):
        return subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    def commit(self, message):
        (self.root / ".gitignore").write_text("calls\ndoes/\n__pycache__\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")

    def publish(self, *arguments):
        done = self.run_all("--publish", "headline", *arguments)
        return done, sorted((self.root / "results/published/here").glob("sittings/*/sitting.json"))

    def test_a_whole_sitting_says_what_it_is(self):
        done, found = self.publish()
        self.assertEqual(done.returncode, 0, done.stderr)
        about = json.loads(found[0].read_text())
        self.assertTrue(about["complete"])
        self.assertEqual((about["kind"], about["machine"]), ("headline", "here"))
        self.assertEqual(about["commit"], self.git("rev-parse", "--short=12", "HEAD"))
        self.assertEqual([s["name"] for s in about["steps"]], ["ceilings", "table1"])
        calls = self.calls()
        into = f"--results {found[0].parent.relative_to(self.root)}"
        self.assertIn(f"ceilings {into}", calls)
        self.assertIn("summarise.py --results results/published/here", calls)

    def test_what_was_cut_off_goes_on(self):
        self.does("decode_time", "sys.exit(0 if '--where' in sys.argv else 3)")
        done, found = self.publish()
        self.assertEqual(done.returncode, 1)
        about = json.loads(found[0].read_text())
        self.assertFalse(about["complete"])
        about["steps"][-1]["seconds"] = 600.0
        found[0].write_text(json.dumps(about))
        (self.root / "does/decode_time").unlink()
        done, again = self.publish()
        self.assertIn("Sitting goes on", done.stdout)
        self.assertEqual(again, found)
        about = json.loads(found[0].read_text())
        self.assertTrue(about["complete"])
        self.assertGreaterEqual(about["minutes"], 10.0)  # what it took before counts

    def test_a_step_that_is_stopped_counts_but_is_not_done(self):
        self.does("decode_time", "sys.exit(0 if '--where' in sys.argv else 130)")
        _, found = self.publish()
        about = json.loads(found[0].read_text())
        self.assertEqual([s["status"] for s in about["steps"]], [0, None])
        self.assertFalse(about["complete"])

    def test_what_is_complete_or_of_another_commit_is_not_gone_on_with(self):
        _, found = self.publish()
        found[0].parent.rename(found[0].parent.with_name("2026-01-01T0000Z"))
        done, again = self.publish()
        self.assertIn("Sitting begins", done.stdout)
        self.assertEqual(len(again), 2)
        about = json.loads(again[1].read_text()) | {"complete": False}
        again[1].write_text(json.dumps(about))
        again[1].parent.rename(again[1].parent.with_name("2026-01-02T0000Z"))
        self.commit("second")
        done, again = self.publish()
        self.assertIn("Sitting begins", done.stdout)
        self.assertEqual(len(again), 3)

    def test_a_restarted_machine_begins_anew(self):
        self.does("decode_time", "sys.exit(0 if '--where' in sys.argv else 3)")
        _, found = self.publish()
        about = json.loads(found[0].read_text()) | {"boot": "another"}
        found[0].write_text(json.dumps(about))
        found[0].parent.rename(found[0].parent.with_name("2026-01-01T0000Z"))
        _, again = self.publish()
        self.assertEqual(len(again), 2)

    def test_mixtures_and_edited_trees_are_refused(self):
        for arguments, word in (
            (("--quick",), "--quick"),
            (("--corpus", "generated"), "--corpus"),
            (("--results", "/tmp/x"), "--results"),
            (("--peers",), "--peers"),
        ):
            done, found = self.publish(*arguments)
            self.assertEqual((done.returncode, found), (2, []), arguments)
            self.assertIn(f"drop {word}", done.stderr)
        done = self.run_all("--publish", "half")
        self.assertIn(
            "'half' is no kind of sitting; take headline or libraries or sweeps", done.stderr
        )
        (self.root / "build.sh").write_text("edited")
        done, found = self.publish()
        self.assertEqual((done.returncode, found), (1, []))
        self.assertIn("needs a clean tree", done.stderr)


if __name__ == "__main__":
    unittest.main()
