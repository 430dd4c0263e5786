"""What a study has computed: the finished cells of its folder, put together."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import brief, plain_text
from fastcolst._files import FileFormatError, decoding, is_sealed, optional_import, read_whole
from fastcolst.experiments.cells import Cell
from fastcolst.experiments.results import SINGLE_ARMS, TABLES, Result
from fastcolst.experiments.store import CELLS, TIMINGS, Manifest, timing

__all__ = ["FinishedCells"]


class FinishedCells:
    """The finished cells of a study, as tables and as results: all of a :class:`fastcolst.StudyResult` but the study.

    Attributes
    ----------
    folder : Path
        Where it lies.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self._manifest = manifest
        self._place = manifest.place()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({os.fspath(self.folder)!r}, scenarios={self.scenarios}, policies={self.policies})"
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, as :meth:`Study.to_dict` gives it: a copy."""
        return copy.deepcopy(self._manifest.study)

    @property
    def scenarios(self) -> list[str]:
        """The scenarios' labels."""
        return [scenario["label"] for scenario in self._manifest.scenarios]

    @property
    def policies(self) -> list[str]:
        """The policies' labels."""
        return list(self._manifest.policies)

    @property
    def missing(self) -> int:
        """How many cells are not there yet."""
        return len(self._manifest.cells) - len(self._cells())

    @property
    def _tables(self) -> tuple[str, ...]:
        """What is recorded at the checkpoints."""
        return (*TABLES, *SINGLE_ARMS) if self._manifest.study.get("single_arms") else TABLES

    def _cells(self) -> list[Cell]:
        """The finished cells, by scenario, policy and run."""
        with os.scandir(self.folder / CELLS) as entries:
            found = {entry.name for entry in entries}
        return sorted(cell for cell in self._manifest.cells if cell.name in found)

    def _table(self) -> Any:
        """Everything as one Arrow table."""
        pa = optional_import("pyarrow", "a study")
        cells = self._cells()
        if not cells:
            raise ValueError(f"{os.fspath(self.folder)!r} holds no finished cell yet")
        parts = [self._read(cell) for cell in cells]
        sizes = [len(part) for part in parts]
        numbers = pa.concat_tables(parts)
        labels, varied = {}, {}
        for name, known in (("scenario", self.scenarios), ("policy", self.policies)):
            places = pa.array(np.repeat([getattr(cell, name) for cell in cells], sizes))
            labels[name] = pa.array(known).take(places)
            for key, values in _varied(self._manifest.study[name]).items():
                varied[f"{name}_{key}"] = _column(values).take(places)
        return pa.table({**labels, **dict(zip(numbers.column_names, numbers.columns, strict=True)), **varied})

    def _read(self, cell: Cell) -> Any:
        """A cell's numbers as an Arrow table, from the very bytes that this study wrote for it."""
        pa, pq = optional_import("pyarrow", "a study"), optional_import("pyarrow.parquet", "a study")
        path = self.folder / CELLS / cell.name
        data = read_whole(path)
        if not is_sealed(data, self._place + cell.name):
            raise FileFormatError(
                f"{os.fspath(path)!r} is damaged, or a cell of another study; resume the study to compute it anew"
            )
        with decoding(os.fspath(path)):
            table = pq.ParquetFile(pa.BufferReader(data)).read(["run", "round", *self._tables], use_threads=False)
            if len(table) != cell.n_runs * len(self._manifest.scenarios[cell.scenario]["rounds"]):
                raise FileFormatError(f"{os.fspath(path)!r} has {len(table):,} rows, which are not those of its cell")
            return table

    def to_pandas(self) -> Any:
        """Return a tidy pandas DataFrame, a row for each scenario, policy, run (from 0) and checkpoint that is there.

        Its columns are scenario, policy, run, round, average_regret, weak_regret, self_duels, and with ``single_arms``
        first_regret and greedy_regret; then, for each argument that varies, ``scenario_...`` or ``policy_...`` with its
        value.
        """
        optional_import("pandas", "StudyResult.to_pandas")
        return self._table().to_pandas()

    def to_polars(self) -> Any:
        """Return the same table as a polars DataFrame."""
        return optional_import("polars", "StudyResult.to_polars").from_arrow(self._table())

    def to_xarray(self) -> Any:
        """Return an xarray Dataset with dims scenario, policy, run, round; nan where there is nothing."""
        xarray = optional_import("xarray", "StudyResult.to_xarray")
        rounds = np.unique(np.concatenate([scenario["rounds"] for scenario in self._manifest.scenarios]))
        runs = self._manifest.study["runs"]
        shape = (len(self.scenarios), len(self.policies), runs, len(rounds))
        arrays = {name: np.full(shape, np.nan) for name in self._tables}
        for cell in self._cells():
            table = self._read(cell)
            places = np.searchsorted(rounds, self._manifest.scenarios[cell.scenario]["rounds"])
            block = np.arange(cell.first_run, cell.first_run + cell.n_runs)
            for name, array in arrays.items():
                values = table.column(name).to_numpy().reshape(cell.n_runs, -1)
                array[cell.scenario, cell.policy][np.ix_(block, places)] = values
        dims = ("scenario", "policy", "run", "round")
        return xarray.Dataset(
            {name: (dims, array) for name, array in arrays.items()},
            coords={"scenario": self.scenarios, "policy": self.policies, "run": np.arange(runs), "round": rounds},
        )

    def seconds(self) -> Any:
        """Return a pandas DataFrame of the processor seconds that a policy spent on each run.

        Its columns are scenario, policy, run, seconds; nan where no whole line of timings tells.
        """
        by_name = self._seconds_by_cell()
        rows = [
            (self.scenarios[cell.scenario], self.policies[cell.policy], cell.first_run + i, seconds)
            for cell in self._cells()
            for i, seconds in enumerate(by_name.get(cell.name, [math.nan] * cell.n_runs))
        ]
        pandas = optional_import("pandas", "StudyResult.seconds")
        return pandas.DataFrame(rows, columns=["scenario", "policy", "run", "seconds"])

    def _seconds_by_cell(self) -> dict[str, list[float]]:
        """Seconds of the runs by a cell's name."""
        with contextlib.suppress(FileNotFoundError):
            lines = read_whole(self.folder / TIMINGS).splitlines(keepends=True)
            return dict(found for line in lines if (found := timing(line, self._place)))
        return {}

    def results(self) -> dict[str, Result | None]:
        """Return each scenario's :meth:`result`, None where no run is there yet that every policy has played."""
        cells: dict[int, list[Cell]] = {}
        for cell in self._cells():
            cells.setdefault(cell.scenario, []).append(cell)
        seconds = self._seconds_by_cell()
        return {label: self._result(s, cells.get(s, []), seconds) for s, label in enumerate(self.scenarios)}

    def result(self, scenario: str) -> Result:
        """Return one scenario's result, as :func:`fastcolst.simulate` would, of the runs that every policy has played.

        Without the true parameters: ``thetas`` is (runs, 0).

        Raises
        ------
        ValueError
            There is no such scenario, or no run that every policy has played.
        """
        if plain_text(scenario) not in self.scenarios:
            raise ValueError(f"scenario is {brief(scenario)}; there are {', '.join(map(repr, self.scenarios))}")
        s = self.scenarios.index(scenario)
        result = self._result(s, [cell for cell in self._cells() if cell.scenario == s], self._seconds_by_cell())
        if result is None:
            raise ValueError(f"scenario {scenario!r} has no run yet that every policy has played")
        return result

    def _result(self, s: int, cells: list[Cell], seconds_by_cell: dict[str, list[float]]) -> Result | None:
        scenario, study = self._manifest.scenarios[s], self._manifest.study
        shape = (len(self.policies), study["runs"], len(scenario["rounds"]))
        tables = {name: np.zeros(shape, np.int64 if name == "self_duels" else np.float64) for name in self._tables}
        seconds, played = np.zeros(shape[:2]), np.zeros(shape[:2], bool)
        for cell in cells:
            where = cell.policy, slice(cell.first_run, cell.first_run + cell.n_runs)
            table = self._read(cell)
            for name, array in tables.items():
                array[where] = table.column(name).to_numpy().reshape(cell.n_runs, -1)
            seconds[where], played[where] = seconds_by_cell.get(cell.name, math.nan), True
        common = played.all(axis=0)
        if not common.any():
            return None

        def by_label(array: NDArray[Any]) -> dict[str, NDArray[Any]]:
            return {label: array[p, common] for p, label in enumerate(self.policies)}

        versions = f"fastcolst {self._manifest.fastcolst}, streams {self._manifest.streams}"
        return Result(
            rounds=scenario["rounds"],
            **{name: by_label(array) for name, array in tables.items()},
            seconds=by_label(seconds),
            thetas=np.empty((int(common.sum()), 0)),
            seed=study["seed"],
            horizon=scenario["horizon"],
            runs=int(common.sum()),
            settings={"scenario": scenario["label"], "versions": versions},
        )

    def summary(self) -> str:
        """Return a table for each scenario, see :meth:`Result.summary`, and how many cells are missing, if any."""
        parts = [
            f"{label}: {'no run yet that every policy has played' if result is None else result.summary()}"
            for label, result in self.results().items()
        ]
        if self.missing:
            parts.append(f"{self.missing:,} of {len(self._manifest.cells):,} cells are missing")
        return "\n\n".join(parts)


def _varied(tables: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The arguments whose values are not the same in all tables of one name that have them, with their values."""
    values: dict[str, list[Any]] = {}
    for key in dict.fromkeys(key for table in tables for key in table):
        by_name: dict[Any, list[Any]] = {}
        for table in tables:
            if key in table:
                by_name.setdefault(table.get("name"), []).append(table[key])
        if key not in ("label", "name") and any(v != group[0] for group in by_name.values() for v in group):
            values[key] = [table.get(key) for table in tables]
    return values


def _column(values: list[Any]) -> Any:
    """Numbers or texts as an Arrow array; what is neither, or a mixture, as texts."""
    pa = optional_import("pyarrow", "a study")
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values] if float in kinds else values)
    return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values])
