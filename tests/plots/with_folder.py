"""A folder of made-up records for each test."""

import json
import pathlib
import tempfile
import unittest

import records as rec


class WithFolder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def load(self, items, extra="", published=False):
        """The records of a folder that holds these alone; `extra` ends every file."""
        files = {}
        if published:
            self.folder = self.folder / "published"
            self.folder.mkdir()
        for older in self.folder.glob("*.jsonl"):
            older.unlink()
        for item in items:
            files.setdefault(item["experiment"], []).append(json.dumps(item))
        for name, lines in files.items():
            (self.folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n" + extra)
        return rec.Records(self.folder)
