"""What tools/machine.py reads off a made-up /proc and /sys."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import machine  # noqa: E402

CPUINFO = """processor\t: 0
cpu family\t: 25
model\t\t: 17
model name\t: A Processor
stepping\t: 1
flags\t\t: fpu avx2 hypervisor
"""


class MachineTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def file(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def cache(self, processor, index, level, size, shared):
        at = f"{machine.CACHE.format(processor)}/index{index}"
        for name, text in (("level", level), ("size", size), ("shared_cpu_list", shared)):
            self.file(f"{at}/{name}", f"{text}\n")

    def test_a_whole_machine(self):
        self.file("proc/cpuinfo", CPUINFO)
        self.file("proc/meminfo", "MemTotal:       24684084 kB\nMemFree: 1 kB\n")
        self.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        self.file("proc/sys/kernel/osrelease", "6.1\n")
        for processor, shared in ((0, "0-1"), (1, "0-1"), (2, "2-3")):
            self.cache(processor, 0, 1, "32K", str(processor))
            self.cache(processor, 3, 3, "32M", shared)
        self.assertEqual(
            machine.describe(self.root, [0, 1, 2]),
            {
                "cpu": "A Processor",
                "family_model_stepping": "25-17-1",
                "processors": [0, 1, 2],
                "l3_bytes": 64 << 20,
                "l3_shared_by": ["0-1", "2-3"],
                "memory_bytes": 24684084 * 1024,
                "virtual": True,
                "huge_pages": "madvise",
                "kernel": "6.1",
            },
        )

    def test_a_processor_is_named_by_generation_too(self):
        self.assertEqual(machine.cpu(self.root), "unknown")
        self.file("proc/cpuinfo", "model name\t: Other Processor\n")
        self.assertEqual(machine.cpu(self.root), "Other Processor")
        self.file("proc/cpuinfo", CPUINFO + "\n" + CPUINFO)
        self.assertEqual(machine.cpu(self.root), "A Processor (25-17-1)")

    def test_a_system_that_tells_nothing(self):
        found = machine.describe(self.root, [0])
        self.assertEqual(
            (found["l3_bytes"], found["memory_bytes"], found["virtual"]), (0, 0, False)
        )


if __name__ == "__main__":
    unittest.main()
