"""tools/glue_tables.py: rows as they stand in the file, broken ones by file and line."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import glue_tables as tool  # noqa: E402


class ReadingTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = pathlib.Path(temporary.name) / "a.tsv"

    def read(self, data):
        self.path.write_bytes(data)
        return tool.lines_of(self.path)

    def test_a_row_is_a_line(self):
        found = self.read(b'\xef\xbb\xbfa\tb\r\n\r\n"x\t\xe2\x80\xa8 y\r\n\xff\t')
        self.assertEqual([fields for _, fields in found[:2]], [["a", "b"], ['"x', "\u2028 y"]])
        self.assertEqual(found[2][0].encode("utf-8", errors="surrogateescape"), b"\xff\t")

    def test_a_broken_one_is_named(self):
        with self.assertRaisesRegex(ValueError, r"a\.tsv:3: 3 fields, 2 columns; mend the line"):
            self.read(b"a\tb\n\n1\t2\t3\n")
        with self.assertRaisesRegex(ValueError, r"a\.tsv is empty; give one of GLUE's own files"):
            self.read(b"\n\r\n")


if __name__ == "__main__":
    unittest.main()
