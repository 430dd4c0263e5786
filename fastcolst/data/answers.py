"""The log of what a policy learned, with who answered, for tables and for preference tuning."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from fastcolst._checks import brief, can_be_written, is_a, looked_at, plain_text
from fastcolst._files import optional_import, write_atomically
from fastcolst.data.log import Log

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["AnswerLog", "Texts"]

Texts = Sequence[Sequence[str]] | Mapping[str, Sequence[str]]
"""Prompt, first and second answer of each comparison: in the order of the log, or by the duels' tokens."""

COLUMNS = ("prompt", "chosen", "rejected", "weight", "rater", "token")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AnswerLog(Log):
    """A log of answers to a policy's duels, as :meth:`fastcolst.CoLSTIM.history` gives it.

    Parameters
    ----------
    raters : m of str, int or None
        Who answered; None where that was not told.
    tokens : m of str
        Of the duels; "" for comparisons from logs.

    The others are those of :class:`fastcolst.Log`.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> policy = fc.CoLSTIM(2, rng=1)
    >>> duel = policy.select(np.eye(2))
    >>> policy.update(duel, False, rater="ann")
    >>> texts = {duel.token: ("Name a colour.", "Red.", "Blue, of course.")}
    >>> policy.history().preferences(texts)[0]["chosen"]
    'Blue, of course.'
    """

    raters: tuple[str | int | None, ...] = ()
    tokens: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        contrasts: ArrayLike,
        wins: ArrayLike,
        *,
        features: Sequence[str] | None,
        weights: ArrayLike,
        raters: tuple[str | int | None, ...],
        tokens: tuple[str, ...],
    ) -> Self:
        """The log of comparisons that are in memory."""
        plain = Log.from_arrays(contrasts, wins, features=features)
        counts = {name: getattr(plain, name) for name in ("rows", "draws_in_file", "selected", "draws", "missing")}
        return cls(
            contrasts=plain.contrasts,
            wins=plain.wins,
            features=plain.features,
            **counts,
            unknown=0,
            weights=weights,  # type: ignore[arg-type]
            raters=raters,
            tokens=tokens,
        )

    def preferences(self, texts: Texts) -> list[dict[str, Any]]:
        """The answers as preference tuning reads them: prompt, chosen, rejected, and weight, rater and token.

        Parameters
        ----------
        texts : sequence or mapping
            Prompt, first and second answer of each comparison: a triple of texts for each, in the order of the log, or
            by the tokens of duels, more of which may be there than are needed.

        Returns
        -------
        list of dict
            A win is one row, a tie two of half its weight, one in either order.

        Raises
        ------
        ValueError
            A comparison has no texts, or they are something else.
        """
        rows: list[dict[str, Any]] = []
        weights: list[float] = [1.0] * len(self) if self.weights is None else self.weights.tolist()
        for share, weight, rater, token, triple in zip(
            self.wins.tolist(), weights, self.raters, self.tokens, self._triples(texts), strict=True
        ):
            prompt, first, second = triple
            sides: tuple[tuple[float, str, str], ...] = (share, first, second), (1.0 - share, second, first)
            for part, chosen, rejected in sides:
                if part > 0.0:
                    values = (prompt, chosen, rejected, weight * part, rater, token)
                    rows.append(dict(zip(COLUMNS, values, strict=True)))
        return rows

    def to_jsonl(self, path: str | os.PathLike[str], texts: Texts) -> None:
        """Write a JSON object on each line: prompt, chosen and rejected, as preference tuning reads them.

        The rows are those of :meth:`preferences`. The file is written whole or not at all.

        Parameters
        ----------
        path : path
            Where to.
        texts : sequence or mapping
            As for :meth:`preferences`.
        """
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in self.preferences(texts))
        write_atomically(path, "".join(lines).encode())

    def to_parquet(self, path: str | os.PathLike[str], texts: Texts | None = None) -> None:
        """Write a Parquet file, whole or not at all; needs pyarrow.

        Parameters
        ----------
        path : path
            Where to.
        texts : sequence or mapping, optional
            As for :meth:`preferences`, whose rows are then written: prompt, chosen, rejected. None: a row for each
            comparison, with a column for each feature of the contrast, outcome (the first's share of the win), weight,
            rater and token, which :func:`fastcolst.read_log` reads.

        Raises
        ------
        ValueError
            A feature has the name of another column, or a text cannot be written as UTF-8.
        ImportError
            pyarrow is not installed.
        """
        pa = optional_import("pyarrow", "AnswerLog.to_parquet")
        pq = optional_import("pyarrow.parquet", "AnswerLog.to_parquet")
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(self._columns() if texts is None else _by_column(self.preferences(texts))), sink)
        write_atomically(path, bytes(sink.getvalue().to_pybytes()))

    def _columns(self) -> dict[str, Any]:
        weights = [1.0] * len(self) if self.weights is None else self.weights
        others = {
            "outcome": self.wins.astype(float),
            "weight": weights,
            "rater": _of_one_type(self.raters),
            "token": list(self.tokens),
        }
        taken = [name for name in self.features if name in others]
        if taken:
            raise ValueError(
                f"features has {brief(taken[0])}, which is the name of another column; other names are wanted"
            )
        odd = [name for name in self.features if not can_be_written(name)]
        if odd:
            raise ValueError(f"features has {brief(odd[0])}, which UTF-8 cannot write; whole characters are wanted")
        return {**{name: self.contrasts[:, k] for k, name in enumerate(self.features)}, **others}

    def _triples(self, texts: Texts) -> list[tuple[str, str, str]]:
        if is_a(Mapping, texts):
            missing = [token for token in self.tokens if token not in texts]
            if missing:
                what = f"the duel {missing[0]}" if missing[0] else "comparisons from logs, which have no token"
                raise ValueError(f"texts has nothing for {what}; prompt, first and second answer are wanted for each")
            found = [texts[token] for token in self.tokens]  # type: ignore[call-overload]
        else:
            found = looked_at(list, texts, [])
            if len(found) != len(self):
                raise ValueError(f"texts has {len(found)} entries for {len(self)} comparisons; one for each is wanted")
        return [_triple(entry, i) for i, entry in enumerate(found)]


def _triple(entry: Any, i: int) -> tuple[str, str, str]:
    is_in_order = plain_text(entry) is None and not is_a((Mapping, AbstractSet), entry)
    found: list[Any] = looked_at(list, entry, []) if is_in_order else []
    parts = [plain_text(part) for part in found]
    if len(parts) != 3 or None in parts:
        raise ValueError(f"texts[{i}] is {brief(entry)}; three texts are wanted: (prompt, first, second)")
    for part in parts:
        if part is not None and not can_be_written(part):
            raise ValueError(f"texts[{i}] has {brief(part)}, which UTF-8 cannot write; whole characters are wanted")
    return parts[0], parts[1], parts[2]  # type: ignore[return-value]


def _of_one_type(raters: Sequence[str | int | None]) -> list[Any]:
    """As a column of a table: texts where not all are numbers."""
    if all(rater is None or isinstance(rater, int) for rater in raters):
        return list(raters)
    return [None if rater is None else str(rater) for rater in raters]


def _by_column(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {**columns, "rater": _of_one_type(columns["rater"])}
