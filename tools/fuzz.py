"""Feed damaged files to every reader of files, and damaged packets to every parser of motion, a million each unless told otherwise.

Run: python tools/fuzz.py [--count N] [--seed N] [NAME ...]. The tests feed fewer. Stops at the first input that raises anything but
InputError, takes too long or too much memory, with its number; a line for each reader says how many inputs were taken for whole
and by how much the process grew.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from fuzzing import files  # noqa: E402
from motion import test_fuzz, test_wire  # noqa: E402
from motion.packets import PROTOCOLS  # noqa: E402

WIRE = "wire"
ROUND = 10_000  # inputs between two lines of progress
MEMORY_FOLDER = Path("/dev/shm")  # where files cost no writing to a disk


def packets_taken(name: str, count: int, seed: int) -> int:
    """Inputs that became codes, of `count` to the parser `name`; numbered from seed, a round of them at a time."""
    # A round of the wire's fuzz has three inputs: two packets and a payload.
    return test_wire.fuzz(-(-count // 3), seed)[0] if name == WIRE else test_fuzz.fuzz(name, count, seed)


def main() -> None:
    """Fuzz the readers and parsers named, or all."""
    with tempfile.TemporaryDirectory(dir=MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None) as folder:
        readers = files.readers(Path(folder))
        names = (*readers, *PROTOCOLS, WIRE)
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; default: all")
        parser.add_argument("--count", type=int, default=1_000_000, help="inputs for each (default a million)")
        parser.add_argument("--seed", type=int, default=1000, help="number of the first input (default 1000)")
        arguments = parser.parse_args()
        unknown = sorted(set(arguments.names) - set(names))
        if unknown or arguments.count < 1:
            parser.error(
                f"no reader is named {', '.join(unknown)}" if unknown else f"--count {arguments.count} is no number of inputs"
            )
        for name in arguments.names or names:
            began, before, taken = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
            reader = readers[name]() if name in readers else None
            for done in range(0, arguments.count, ROUND):
                size = min(ROUND, arguments.count - done)
                if reader is None:
                    taken += packets_taken(name, size, arguments.seed + done)
                else:
                    taken += files.feed(reader, size, arguments.seed + done)[0]
                grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
                print(
                    f"\r{name}: {done + size} inputs, {taken} taken for whole, none failed; {grown_mib:.1f} MiB more at most,"
                    f" {time.process_time() - began:.0f} s of processor",
                    end="", flush=True,
                )  # fmt: skip
            print()


if __name__ == "__main__":
    main()
