"""Run the campaign and print its table; the exit code is 1 when anything failed."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

from campaign import PARTS
from campaign.tally import Campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m campaign", description="Look for what is wrong without a word.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} [all]")
    parser.add_argument("--seed", type=int, default=1, help="from which everything follows [%(default)s]")
    parser.add_argument("--share", type=float, default=1.0, help="how much of it is tried [%(default)s]")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    start, n_failed = time.monotonic(), 0
    print(f"{'figure':<72}{'tried':>10}{'failed':>8}", flush=True)
    for part in arguments.parts or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            for tally in importlib.import_module(f"campaign.{part}").run(
                Campaign(arguments.seed, arguments.share, Path(folder))
            ):
                print(f"{f'{part}: {tally.figure}':<72}{tally.tried:>10,}{tally.failed:>8,}", flush=True)
                for failure in tally.failures:
                    print(f"    {failure}", flush=True)
                n_failed += tally.failed
    print(f"seed {arguments.seed}, share {arguments.share:g}, {time.monotonic() - start:.0f} s", flush=True)
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
