#!/usr/bin/env python3
"""Rewrites checkpoints of version 1 as safetensors files (models/training/checkpoint.h).

The old file is kept beside the new one as FILE.v1. Arrays, knobs and training state are taken over
as they are, so that a resumed run goes on as it would have. The old checksum (XXH3) is not checked.
"""

import argparse
import json
import math
import os
import struct
import sys
import zlib

FORMAT = "scaling_transformers 2"
ALIGNMENT = 64


class Reader:
    """Numbers of 8 bytes and texts after their length, one after another."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError("it ends within its header")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self):
        return struct.unpack("<Q", self.take(8))[0]

    def text(self):
        return self.take(self.number()).decode("utf-8", "surrogateescape")


def read_version_1(path):
    """(metadata, {name: (shape, bytes)}) of a checkpoint of version 1."""
    with open(path, "rb") as file:
        data = file.read()
    reader = Reader(data)
    if reader.take(8) != b"SCALCKPT":
        raise ValueError("it is no checkpoint of version 1")
    version, header = reader.number(), reader.number()
    if version != 1:
        raise ValueError(f"it has version {version}, not 1")
    metadata = {
        "format": FORMAT,
        "step": str(reader.number()),
        "fingerprint": reader.text(),
        "training": reader.text(),
    }
    knobs = [(reader.text(), reader.text()) for _ in range(reader.number())]
    metadata["model"] = json.dumps(dict(knobs), separators=(",", ":"), ensure_ascii=False)
    shapes = {}
    for _ in range(reader.number()):
        name = reader.text()
        shapes[name] = [reader.number() for _ in range(reader.number())]
    offset = (24 + header + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    arrays = {}
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        arrays[name] = shape, data[offset : offset + size]
        offset += size
    if offset + 8 != len(data):
        raise ValueError("its size is not that of its arrays")
    return metadata, arrays


def safetensors(metadata, arrays):
    """The bytes of a checkpoint of version 2."""
    header, offset = {"__metadata__": dict(metadata, checksum="0" * 8)}, 0
    for name, (shape, values) in arrays.items():
        header[name] = {
            "dtype": "F32",
            "shape": shape,
            "data_offsets": [offset, offset + len(values)],
        }
        offset += len(values)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
    text = text.encode("utf-8", "surrogateescape")
    size = (8 + len(text) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT - 8
    front = struct.pack("<Q", size) + text.ljust(size)
    body = b"".join(values for _, values in arrays.values())
    checksum = b'"checksum":"%08x"' % zlib.crc32(body, zlib.crc32(front))
    return front.replace(b'"checksum":"00000000"', checksum, 1) + body


def convert(path):
    content = safetensors(*read_version_1(path))
    temporary, kept = path + ".converting", path + ".v1"
    if os.path.exists(kept):
        raise ValueError(f"'{kept}' exists already; move it away")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.link(path, kept)
    os.replace(temporary, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="latest.ckpt, best.ckpt")
    failed = False
    for path in parser.parse_args().files:
        try:
            convert(path)
            print(f"{path}: converted; the old file is {path}.v1")
        except (OSError, ValueError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
