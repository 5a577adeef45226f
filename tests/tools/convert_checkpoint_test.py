"""tools/convert_checkpoint.py on a checkpoint that version 1 of the format wrote."""

import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION_1 = ROOT / "tests/fixtures/checkpoint_v1/latest.ckpt"


def convert(path):
    command = [sys.executable, str(ROOT / "tools/convert_checkpoint.py"), str(path)]
    return subprocess.run(command, capture_output=True, text=True)


def read(path):
    """(header, data) of a safetensors file, by the format's definition."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + size]), content[8 + size :]


class ConvertCheckpoint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "latest.ckpt"
        shutil.copy(VERSION_1, self.path)

    def test_arrays_and_metadata_are_taken_over(self):
        self.assertEqual(convert(self.path).returncode, 0)
        header, data = read(self.path)
        metadata = header.pop("__metadata__")
        self.assertEqual(metadata["step"], "5")
        self.assertEqual(metadata["fingerprint"], "36340a0b1da35f57")
        self.assertEqual(json.loads(metadata["model"])["d_ff"], "16")
        self.assertEqual(json.loads(metadata["training"])["task"], "copy")
        end = 0
        for name, tensor in header.items():
            self.assertEqual(tensor["dtype"], "F32")
            begin, last = tensor["data_offsets"]
            self.assertEqual(begin, end, name)
            self.assertEqual(last - begin, 4 * math.prod(tensor["shape"]), name)
            end = last
        self.assertEqual(end, len(data))
        # In version 1 the arrays lie one after another too, before a hash of eight bytes.
        self.assertEqual(data, VERSION_1.read_bytes()[-8 - len(data) : -8])
        self.assertEqual(header["embedding"]["shape"], [13, 8])
        self.assertIn("optimizer.embedding.mean", header)

    def test_checksum_is_the_files_with_zeros_in_its_place(self):
        convert(self.path)
        content = self.path.read_bytes()
        digits = read(self.path)[0]["__metadata__"]["checksum"]
        blank = content.replace(f'"checksum":"{digits}"'.encode(), b'"checksum":"00000000"', 1)
        self.assertEqual(f"{zlib.crc32(blank):08x}", digits)

    def test_the_old_file_is_kept_and_others_are_refused(self):
        convert(self.path)
        kept = Path(str(self.path) + ".v1")
        self.assertEqual(kept.read_bytes(), VERSION_1.read_bytes())
        again = convert(self.path)
        self.assertEqual(again.returncode, 1)
        self.assertIn("no checkpoint of version 1", again.stderr)
        os.truncate(kept, 15000)
        self.assertIn("its size is not that of its arrays", convert(kept).stderr)


if __name__ == "__main__":
    unittest.main()
