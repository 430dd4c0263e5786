"""What a campaign has at hand, and how it counts."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

SHOWN = 5  # failures that are told in words


class Campaign(NamedTuple):
    """How much is tried, from which seed, and a folder to write to, which is removed afterwards."""

    seed: int
    share: float
    folder: Path

    def amount(self, whole: int, least: int = 1) -> int:
        """The share of what a whole campaign tries."""
        return max(least, round(self.share * whole))

    def rng(self, *key: str | int) -> np.random.Generator:
        """A stream of its own for each key, whatever the share."""
        words = [zlib.crc32(word.encode()) if isinstance(word, str) else word for word in key]
        return np.random.default_rng([self.seed, *words])


class Tally:
    """How often something was tried, and how often it failed, with the first failures in words."""

    def __init__(self, figure: str) -> None:
        self.figure = figure
        self.tried = self.failed = 0
        self.failures: list[str] = []

    def count(self, good: bool, failure: object = "") -> None:
        """Count one trial; ``failure`` tells how to repeat it and what was seen."""
        self.tried += 1
        if not good:
            self.failed += 1
            if len(self.failures) < SHOWN:
                self.failures.append(str(failure))

    def __str__(self) -> str:
        return "\n".join([f"{self.figure}: {self.failed} of {self.tried} failed", *self.failures])
