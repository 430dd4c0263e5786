"""Policies whose features go through a map before all else; see :mod:`fastcolst.features`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief
from fastcolst.features import map_of
from fastcolst.policies.policy import Policy
from fastcolst.policies.protocol import Chunk

__all__ = ["Mapped"]

LARGEST_CHUNK = 2**22
"""Bytes of mapped contexts that are in memory at a time in a simulation."""


class Mapped(Policy):
    """A policy that may have a feature map. What it knows, theta and M and contrasts, is of the mapped features.

    People hand in, and names are of, the features that go into the map; everything behind the door is as if they had
    handed in what comes out of it.
    """

    def __init__(self, parameters: dict[str, Any]) -> None:
        super().__init__(parameters)
        features = self._parameters.get("features")
        if features is not None and self._n_features is not None:
            self._map = map_of(features, self._n_features)
            self._n_features = self._map.n_outputs

    def _refuse_contrasts(self, name: str) -> None:
        """Refuse what takes differences of features, of which no map can make those of mapped ones."""
        if self._map is not None:
            raise ValueError(
                f"{name} are differences of features, and features={brief(self._parameters['features'])} maps features "
                "themselves; learn(winners, losers) is wanted"
            )

    def _mapped(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Features (n_inputs,) or (m, n_inputs) as they come out of the map."""
        if self._map is None:
            return rows
        return self._map.transform(rows) if rows.ndim == 2 else self._map.transform(rows[np.newaxis])[0]

    def play(self, chunk: Chunk, trace: NDArray[np.float64]) -> int:
        """As without a map, in pieces whose mapped contexts fit memory.

        Rows are mapped many at a time, whose products round otherwise than those of one round: object and fused loop
        agree to rounding.
        """
        if self._map is None:
            return super().play(chunk, trace)
        m, d, n = chunk.contexts.shape
        if d != self._n_inputs:
            raise ValueError(f"chunk has contexts of {d} features; {self._n_inputs} are wanted")
        size, played = max(1, LARGEST_CHUNK // (8 * n * self._map.n_outputs)), 0
        while played < m:
            part = Chunk(*(array[played : played + size] for array in chunk))
            k = len(part.best)
            rows = np.ascontiguousarray(part.contexts.transpose(0, 2, 1)).reshape(k * n, d)
            mapped = self._map.transform(rows).reshape(k, n, -1).transpose(0, 2, 1)
            done = super().play(part._replace(contexts=np.ascontiguousarray(mapped)), trace[played : played + k + 1])
            played += done
            if done < k:
                break
        return played
