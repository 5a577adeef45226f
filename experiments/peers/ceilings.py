"""The machine's limits beside a peer's time, measured by our own driver `ceilings`."""

import json
import subprocess
import tempfile
from pathlib import Path

ROWS = {"read_gbps": "read_1GiB", "fma_gflops": "fma"}
NEEDED_BYTES = 3 << 29  # the driver reads one GiB and leaves half of one free
MAX_CHANGE = 0.05


class Unmeasured(Exception):
    """Why the driver has no numbers."""


def measure(program, threads, metrics=tuple(ROWS)):
    """{metric: value} at this moment, as the records of decodes have them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(program),
            "--quick",
            "--rows",
            ",".join(ROWS[metric] for metric in metrics),
            "--threads",
            str(threads),
            "--results",
            folder,
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                words = done.stderr.strip().splitlines()[-1:]
                raise Unmeasured(
                    " ".join([f"{program} ended with status {done.returncode}", *words])
                )
            lines = (Path(folder) / "ceilings.jsonl").read_text(encoding="utf-8").splitlines()
            found = {record["metric"]: record["value"] for record in map(json.loads, lines)}
            return {metric: float(found[metric]) for metric in metrics}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unmeasured(f"{program} has no ceilings: {error!r}") from error


def agree(before, after):
    """Whether memory, read in GB/s, was as fast after as before."""
    return abs(before - after) <= MAX_CHANGE * min(before, after)
