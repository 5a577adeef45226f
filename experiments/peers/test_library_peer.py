"""Libraries as peers, with one that is compiled here and multiplies in plain loops; none of the real ones is needed."""

import contextlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import block  # noqa: E402
import build_libraries  # noqa: E402
import library_peer  # noqa: E402
import time_one  # noqa: E402

PLAIN = """
#include <stdexcept>
#include "experiments/peers/libraries/dense_block.h"
namespace peers {
namespace {
struct Plain : Product {
  explicit Plain(const Array& w)
      : rows(w.rows), cols(w.cols), held(w.values, w.values + w.rows * w.cols) {}
  void run(const float* x, const After& after, float* y) override {
    for (std::int64_t r = 0; r < rows; ++r) {
      float sum = after.add ? y[r] : 0;
      for (std::int64_t c = 0; c < cols; ++c) sum += held[r * cols + c] * x[c];
      y[r] = sum;
    }
    finish(after, rows, y);
  }
  std::int64_t rows, cols;
  std::vector<float> held;
};
}  // namespace
std::string version() { return "plain 1"; }
std::string ways(const std::string& type) { return type == "f32" ? "loops,none" : ""; }
std::unique_ptr<Peer> make(const Sizes& sizes, const std::string&, const std::string& way, int) {
  if (way == "none") throw std::runtime_error("no such instruction");
  return dense_peer(sizes, [](const Array& w) { return std::make_unique<Plain>(w); });
}
}  // namespace peers
"""


@unittest.skipUnless(shutil.which("c++"), "no C++ compiler")
class LibraryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.home = Path(folder.name)
        (cls.home / "plain.cpp").write_text(PLAIN)
        sources = [build_libraries.SOURCES / name for name in ("dense_block.cpp", "peer.cpp")]
        command = [*build_libraries.COMPILE, "-O1", f"-I{build_libraries.ROOT}"]
        command += [cls.home / "plain.cpp", *sources, "-o", cls.home / "plain.so"]
        subprocess.run([str(word) for word in command], check=True)

    def library(self):
        return library_peer.Library("plain", "f32", self.home)

    def test_the_block_is_numpys(self):
        library = self.library()
        self.assertEqual((library.NAME, library.WAYS), ("plain 1", ["loops", "none"]))
        self.assertLess(time_one.check(library, "loops", "dense", "f32"), 1e-5)
        # Against other weights than its own the comparison fails.
        self.assertGreater(time_one.check(library, "loops", "dense", "q4_0"), 1e-2)

    def test_weights_are_taken_and_what_step_returns_stays(self):
        peer = self.library().Peer(block.SHAPES["tiny"], "dense", "loops", "f32")
        rng = np.random.default_rng(1)
        weights = block.make_weights(block.SHAPES["tiny"], "dense", rng)
        peer.add_block(weights, block.make_state(block.SHAPES["tiny"], "dense", rng))
        self.assertEqual((weights, len(peer.weights)), ({}, 1))
        first = peer.step(np.ones(64, np.float32), 0)
        kept = first.copy()
        peer.step(np.zeros(64, np.float32), 1)
        np.testing.assert_array_equal(first, kept)

    def test_refusals_are_said(self):
        library = self.library()
        with self.assertRaisesRegex(library_peer.Refused, "no such instruction"):
            library.Peer(block.SHAPES["tiny"], "dense", "none", "f32")
        peer = library.Peer(block.SHAPES["tiny"], "dense", "loops", "f32")
        peer._set("norm1_scale", np.ones(64, np.float32))  # and nothing else
        with self.assertRaises(library_peer.Refused):
            peer.step(np.ones(64, np.float32), 0)

    def test_what_cannot_be_timed_is_missing(self):
        (self.home / "broken.so").write_text("no library")
        for name, dtype, words in (
            ("mkl", "f32", "build_libraries.py makes it"),
            ("broken", "f32", "cannot be loaded"),
            ("plain", "bf16", "no products of bf16"),
        ):
            with self.assertRaisesRegex(library_peer.Missing, words):
                library_peer.Library(name, dtype, self.home)


class BuildTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name) / "libraries"
        self.commands = []

    def build(self, failing=""):
        """(what is missing, what was said)."""

        def run(*command, **_):
            words = " ".join(map(str, command))
            self.commands.append(words)
            if failing and failing in words:
                raise build_libraries.Unmade("no such header")

        said = io.StringIO()
        with (
            mock.patch.object(build_libraries, "run", run),
            mock.patch.dict(
                build_libraries.PROGRAMS, ggml=(("ggml_block.cpp",), lambda _home: ([], ["-lggml"]))
            ),
            contextlib.redirect_stderr(said),
        ):
            return build_libraries.main(self.home), said.getvalue()

    def test_all_are_made_once(self):
        self.assertEqual(self.build(), ([], ""))
        self.assertEqual(len(self.commands), len(build_libraries.PROGRAMS))
        self.assertIn("-march=native", self.commands[0])
        self.assertEqual(self.build(), ([], ""))
        self.assertEqual(len(self.commands), len(build_libraries.PROGRAMS))
        with mock.patch.object(build_libraries, "contents", lambda: "edited"):
            self.build()
        self.assertEqual(len(self.commands), 2 * len(build_libraries.PROGRAMS))

    def test_one_that_fails_is_named_left_out_and_tried_again(self):
        self.home.mkdir()
        (self.home / "mkl.so").write_text("of an earlier version")
        missing, said = self.build(failing="mkl_block")
        self.assertEqual(missing, ["mkl"])
        self.assertIn("mkl is left out: no such header", said)
        self.assertFalse((self.home / "mkl.so").exists())
        self.assertEqual(self.build(), ([], ""))

    def test_a_failing_command_is_named_with_its_last_words(self):
        script = "import sys; sys.exit('first' + chr(10) + 'no compiler')"
        with self.assertRaisesRegex(build_libraries.Unmade, "no compiler"):
            build_libraries.run(sys.executable, "-c", script)
        with self.assertRaisesRegex(build_libraries.Unmade, "nobody"):
            build_libraries.run("/nobody")

    def test_of_the_source_distribution_only_ggml_is_taken(self):
        self.home.mkdir()
        names = ("x-1/vendor/llama.cpp/ggml/src/a.c", "x-1/vendor/llama.cpp/src/b.c", "x-1/c.py")
        with tarfile.open(self.home / "x.tar.gz", "w:gz") as tar:
            for name in names:
                tar.addfile(tarfile.TarInfo(name), io.BytesIO())
        folder = build_libraries.unpacked(self.home / "x.tar.gz", self.home / "source")
        files = {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}
        self.assertEqual(files, {"src/a.c", "ggml.pc.in"})

    def test_every_library_of_time_one_has_a_program(self):
        self.assertEqual(set(build_libraries.PROGRAMS), set(time_one.LIBRARIES))


if __name__ == "__main__":
    unittest.main()
