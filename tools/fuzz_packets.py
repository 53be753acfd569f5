"""Feed mutated packets to every parser of motion and to the wire format's two ends, a million each unless told otherwise.

Run: python tools/fuzz_packets.py [--count N] [NAME ...]. The tests feed fewer. Stops at the first exception with its traceback; a
line for each parser says how many inputs became codes and by how much the process grew. A million take one to five minutes.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from motion import test_fuzz, test_wire  # noqa: E402
from motion.packets import PROTOCOLS  # noqa: E402

WIRE = "wire"
ROUND = 50_000  # inputs with one seed, so that what fails is found again quickly


def run(name: str, count: int) -> int:
    """Inputs that became codes, of `count` to the parser `name`."""
    codes = 0
    for seed, first in enumerate(range(0, count, ROUND), start=1000):
        size = min(ROUND, count - first)
        # A round of the wire's fuzz has three inputs: two packets and a payload.
        codes += test_wire.fuzz(-(-size // 3), seed)[0] if name == WIRE else test_fuzz.fuzz(name, size, seed)
    return codes


def main() -> None:
    """Fuzz the parsers named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join((*PROTOCOLS, WIRE))}; default: all")
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs for each (default a million)")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - {*PROTOCOLS, WIRE})
    if unknown or arguments.count < 1:
        parser.error(f"no parser is named {', '.join(unknown)}" if unknown else f"--count {arguments.count} is no number of inputs")
    for name in arguments.names or (*PROTOCOLS, WIRE):
        began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        codes = run(name, arguments.count)
        grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(
            f"{name}: {arguments.count} inputs, {codes} became codes, none raised; {grown_mib:.1f} MiB more at most,"
            f" {time.process_time() - began:.0f} s of processor",
            flush=True,
        )


if __name__ == "__main__":
    main()
