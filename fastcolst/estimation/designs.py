"""The contrasts of a fit, dense or sparse, and the forms in which people have them: arrays, tables, pairs of names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fastcolst._callers import warn_caller
from fastcolst._checks import (
    LARGEST,
    array_or_none,
    as_array,
    brief,
    entries,
    feature_rows,
    looked_at,
    plain_text,
    real_numbers,
    texts,
)
from fastcolst._compile import kernel
from fastcolst._words import is_tie, names_the_winner
from fastcolst.estimation.history import History
from fastcolst.estimation.sparse import SparseHistory, equal_rows

__all__ = ["Contrasts", "Design", "check_labels", "codes_of", "column_names", "contrasts_of", "wins_of"]

Array = NDArray[np.float64]

CHECKED_ROWS = 4096
"""Rows that are looked at at a time: of features the first few tell that they are no items."""


class Design(Protocol):
    """Contrasts z_k (m, d) and what a fit asks of them."""

    def __len__(self) -> int: ...
    def scales(self) -> Array:
        """max |z_k| of each feature, (d,)."""

    def over(self, units: Array) -> Design:
        """The contrasts in other units, those of the features (d,)."""

    def times(self, vectors: Array) -> Array:
        """Z v, for a vector (d,) or the columns of a matrix."""

    def gram(self, weights: Array) -> Array:
        """sum w_k z_k z_k', (d, d)."""

    def information(self, weights: Array) -> Array:
        """The same, summed in the order of the rows."""

    def scatter(self, pulls: Array, groups: NDArray[np.int64]) -> Array:
        """sum_g s_g s_g', (d, d), of the sums s_g of p_k z_k over the rows k of group g; groups (m,) count from 0."""

    def history(self, won: Array, lost: Array) -> Any:
        """The comparisons, for passes."""

    def some(self, rows: NDArray[np.bool_]) -> Design:
        """Some of the rows."""

    def pairs(self, n_columns: int) -> NDArray[np.int64]:
        """Numbers of the rows, equal where the first columns are equal or opposite, (m,)."""

    def merged(self, won: Array, lost: Array) -> tuple[Design, Array, Array]:
        """Perhaps fewer rows that say the same, with their wins and losses."""


class Dense:
    """Contrasts in an array (m, d)."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def scales(self) -> Array:
        largest: Array = np.abs(self.rows).max(axis=0)
        return largest

    def over(self, units: Array) -> Design:
        return Dense(self.rows / units)

    def times(self, vectors: Array) -> Array:
        product: Array = self.rows @ vectors
        return product

    def gram(self, weights: Array) -> Array:
        product: Array = (self.rows.T * weights) @ self.rows
        return product

    def information(self, weights: Array) -> Array:
        total = np.zeros((self.rows.shape[1],) * 2)
        _add_gram(self.rows, weights, total)
        return total

    def scatter(self, pulls: Array, groups: NDArray[np.int64]) -> Array:
        sums = _summing(pulls, groups) @ self.rows
        product: Array = sums.T @ sums
        return product

    def history(self, won: Array, lost: Array) -> History:
        signed = np.concatenate([self.rows[won > 0.0], -self.rows[lost > 0.0]])
        return History.of(signed, np.concatenate([won[won > 0.0], lost[lost > 0.0]]))

    def some(self, rows: NDArray[np.bool_]) -> Design:
        return Dense(self.rows[rows])

    def pairs(self, n_columns: int) -> NDArray[np.int64]:
        from scipy import sparse

        return equal_rows(sparse.csr_matrix(self.rows[:, :n_columns]))[0]

    def merged(self, won: Array, lost: Array) -> tuple[Design, Array, Array]:
        return self, won, lost


class Sparse:
    """Contrasts in a SciPy matrix (m, d) of compressed rows."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def scales(self) -> Array:
        largest: Array = abs(self.matrix).max(axis=0).toarray()[0]
        return largest

    def over(self, units: Array) -> Design:
        scaled = self.matrix.copy()
        scaled.data /= units[scaled.indices]
        return Sparse(scaled)

    def times(self, vectors: Array) -> Array:
        product: Array = self.matrix @ vectors
        return product

    def gram(self, weights: Array) -> Array:
        weighted = self.matrix.copy()
        weighted.data *= np.repeat(weights, np.diff(weighted.indptr))
        product: Array = (weighted.T @ self.matrix).toarray()
        return product

    information = gram

    def scatter(self, pulls: Array, groups: NDArray[np.int64]) -> Array:
        sums = _summing(pulls, groups) @ self.matrix
        product: Array = (sums.T @ sums).toarray()
        return product

    def history(self, won: Array, lost: Array) -> SparseHistory:
        return SparseHistory.of(self.matrix, won, lost)

    def some(self, rows: NDArray[np.bool_]) -> Design:
        return Sparse(self.matrix[rows])

    def pairs(self, n_columns: int) -> NDArray[np.int64]:
        return equal_rows(self.matrix[:, :n_columns].tocsr())[0]

    def merged(self, won: Array, lost: Array) -> tuple[Design, Array, Array]:
        """Equal and opposite rows as one row, with the sums of their wins and losses."""
        numbers, signs = equal_rows(self.matrix)
        won, lost = np.where(signs > 0.0, won, lost), np.where(signs > 0.0, lost, won)
        _, first = np.unique(numbers, return_index=True)
        matrix = self.matrix[first]
        matrix.data *= np.repeat(signs[first], np.diff(matrix.indptr))
        totals: list[Array] = [np.bincount(numbers, counts, len(first)).astype(np.float64) for counts in (won, lost)]
        return Sparse(matrix), totals[0], totals[1]


class Contrasts(NamedTuple):
    """What a fit is given: the design, the names of its features, how many of them come first and are rated.

    n_items: how many of these are items, all where each row is 1 for one, -1 for another and 0 elsewhere, or else none.
    pairs (m, 2): the names of each row's two items; None where the contrasts are numbers. columns: the names of the
    table's columns, where it has some.
    """

    design: Design
    names: tuple[str, ...]
    n_rated: int
    n_items: int
    pairs: NDArray[Any] | None
    columns: tuple[str, ...] | None


@kernel
def _add_gram(rows: Any, weights: Any, out: Any) -> None:
    """Add sum w z z' over rows (m, d) to out (d, d), in their order: sums do not depend on a library. O(m d^2)."""
    d = rows.shape[1]
    for i in range(weights.size):
        for k in range(d):
            for j in range(d):
                out[k, j] += weights[i] * (rows[i, k] * rows[i, j])


def _summing(pulls: Array, groups: NDArray[np.int64]) -> Any:
    """A sparse matrix whose product with the contrasts are the sums of p_k z_k over each group."""
    from scipy import sparse

    m = len(pulls)
    return sparse.csr_matrix((pulls, (groups, np.arange(m))), shape=(int(groups.max()) + 1, m))


# --- the door -----------------------------------------------------------------------------------------------


def contrasts_of(name: str, contrasts: Any, covariates: Any, position: bool, names: Any) -> Contrasts:
    """The contrasts that a person handed in, with covariates and the constant of the first place behind them."""
    first, own, pairs = _features(name, contrasts)
    parts, (m, n_rated) = [first], first.shape
    labels = own or tuple(f"z[{k}]" for k in range(n_rated))
    if covariates is not None:
        columns, extra = _covariates(covariates, m)
        parts.append(columns)
        labels += extra
    if names is not None:
        labels = texts("names", names)
        d = sum(part.shape[1] for part in parts)
        if len(labels) != d:
            raise ValueError(f"names has {len(labels)} names; {d} are wanted, one for each feature")
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"names has {brief(twice[0])} twice; a name of its own for each feature is wanted")
    if position:
        parts.append(np.ones((m, 1)))
    n_items = n_rated if pairs is not None or _compares_items(first) else 0
    return Contrasts(_joined(parts), labels, n_rated, n_items, pairs, column_names(contrasts))


def wins_of(wins: Any, trials: Any, given: Contrasts) -> Any:
    """Wins as they were given, or shares where they are words.

    The name of the one of the row's items that won, or of the column of items in which it stands, is 1 or 0, and a word
    for a tie 0.5. What is the name of an item is nothing else.
    """
    if plain_text(wins) is not None:
        raise ValueError(f"wins is {brief(wins)}; a number or a name for each row is wanted, such as table[{wins!r}]")
    array = array_or_none(wins)
    if trials is None and names_the_winner(getattr(wins, "name", None)) and _may_be_places(array):
        raise ValueError(
            f"wins is column {wins.name!r}, whose 0 and 1 may be the place of the winner or the first's share of the "
            f"win; {wins.name} == 0 is wanted where 0 says that the first won, {wins.name} == 1 where 1 does"
        )
    if array is None or array.dtype.kind not in "UTO" or array.ndim != 1:
        return wins
    winners = array.tolist()
    k = next((i for i, winner in enumerate(winners) if isinstance(winner, str)), None)
    if k is None:
        return wins
    if given.pairs is None:
        raise ValueError(
            f"wins[{k}] is {brief(winners[k])}; a number of wins is wanted: names of winners go with contrasts that "
            "are names of items"
        )
    if len(winners) != len(given.pairs):
        return wins  # the number of rows is checked, whatever stands in them
    if trials is not None:
        raise ValueError(
            f"wins has names of winners, such as {brief(winners[k])}, and trials is {brief(trials)}; names are wanted "
            "with a row for each comparison and without trials"
        )
    won = given.pairs == array[:, None]
    shares, left = won[:, 0].astype(np.float64), np.flatnonzero(~won.any(axis=1)).tolist()
    items = set(given.pairs.ravel().tolist()) if left else set()
    meant = dict(zip(given.columns or (), (1.0, 0.0), strict=False)) if len(set(given.columns or ())) == 2 else {}
    for i in left:
        word = plain_text(winners[i])
        share = None if word is None or word in items else 0.5 if is_tie(word) else meant.get(word)
        if share is None:
            first, second = map(brief, given.pairs[i].tolist())
            others = "".join(f" {brief(name)}," for name in meant)
            raise ValueError(
                f"wins[{i}] is {brief(winners[i])}; {first} or {second} is wanted, who won,{others} or a word for a "
                "tie that names no item, such as 'tie'"
            )
        shares[i] = share
    return shares


def _may_be_places(array: Any) -> bool:
    """Whether these are numbers, 0 and 1 and no others; truths are none."""
    return array is not None and array.dtype.kind in "iuf" and bool(np.isin(array, (0, 1)).all() and (array == 1).any())


def _features(name: str, contrasts: Any) -> tuple[Any, tuple[str, ...] | None, NDArray[Any] | None]:
    """What is rated: an array or compressed rows, (m, d), the names that came with it, and pairs of names, (m, 2)."""
    if _is_sparse(contrasts):
        return _checked_sparse(name, contrasts), None, None
    pairs = _pairs(name, contrasts)
    if pairs is not None:
        items, codes = _codes(name, pairs)
        return _pair_matrix(codes, len(items)), items, pairs
    rows = feature_rows(name, contrasts, None)
    _refuse_ids(name, contrasts, rows)
    return rows, column_names(contrasts), None


def column_names(table: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns, where all are texts."""
    names: list[Any] = looked_at(_labels, table, [])
    plain = [plain_text(name) for name in names]
    return tuple(plain) if plain and None not in plain else None  # type: ignore[arg-type]


def _labels(table: Any) -> list[Any]:
    names: Any = getattr(table, "column_names", None) or getattr(table, "columns", ())  # Arrow's; pandas' and polars'
    return list(names)


def codes_of(name: str, labels: Any, size: int) -> NDArray[np.int64]:
    """Labels of whatever kind, one for each row, as numbers from 0 on."""
    wanted = f"({size},) is wanted, a label for each row"
    array = as_array(name, labels, "no array of labels", wanted)
    if array.shape != (size,):
        raise ValueError(f"{name} has shape {array.shape}; {wanted}")
    known: dict[Any, int] = {}
    try:
        return np.array([known.setdefault(label, len(known)) for label in array.tolist()], np.int64)
    except TypeError:
        raise ValueError(f"{name} holds {brief(array.tolist()[len(known)])}; texts or numbers are wanted") from None


def check_labels(groups: NDArray[np.int64], n_features: int) -> None:
    """Refuse clusters of one label, and warn of fewer labels than features, by which no matrix of full rank is found.

    Raises
    ------
    ValueError
        There is one label.
    """
    n = int(groups.max()) + 1
    if n == 1:
        raise ValueError("clusters has one label; two or more are wanted, to tell how much they differ")
    if n < n_features:
        warn_caller(
            f"clusters has {n} labels and there are {n_features} features: standard errors come out far too small, "
            "some of them near 0; many more labels than features are wanted"
        )


def _is_sparse(value: Any) -> bool:
    """Whether a value can become compressed rows: a sparse matrix, or contrasts that are kept by their places."""
    return looked_at(lambda rows: callable(rows.tocsr) and not isinstance(rows, type), value, False)


def _joined(parts: list[Any]) -> Design:
    """Columns side by side, sparse where the first are."""
    if isinstance(parts[0], np.ndarray):
        return Dense(parts[0] if len(parts) == 1 else np.column_stack(parts))
    from scipy import sparse

    return Sparse(parts[0] if len(parts) == 1 else sparse.csr_matrix(sparse.hstack(parts)))


def _checked_sparse(name: str, value: Any) -> Any:
    """A sparse matrix as compressed rows of float64 of its own, without duplicates."""
    from scipy import sparse

    matrix = looked_at(lambda rows: sparse.csr_matrix(rows.tocsr(), copy=True), value)
    if matrix is None or matrix.ndim != 2:
        raise ValueError(f"{name} is {brief(value)}; (m, n_features) is wanted")
    if 0 in matrix.shape:
        raise ValueError(f"{name} has shape {matrix.shape}; it must not be empty")
    matrix.data = real_numbers(name, matrix.data)
    if not np.all(np.abs(matrix.data) < LARGEST):
        raise ValueError(f"{name} has entries that are not finite, or above {LARGEST:g}; finite numbers are wanted")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _pairs(name: str, value: Any) -> NDArray[Any] | None:
    """The names of two items in each row, (m, 2); None where there are numbers.

    Numbers are contrasts always: items with numbers for names are wanted as texts.
    """
    if type(value) is np.ndarray and value.dtype.kind not in "UTO":
        return None
    array = as_array(name, value, "not an array of real numbers", "(m, n_features) is wanted")
    if array.ndim not in (1, 2) or array.size == 0 or array.dtype.kind not in "UTO":
        return None
    if isinstance(value, (list, tuple)):  # of which NumPy makes texts even where some are none, as nan
        array = np.array(value, object).reshape(array.shape)
    is_text = [isinstance(item, str) for item in array.ravel().tolist()]
    if array.ndim == 1 or array.shape[1] != 2:
        if all(is_text):
            raise ValueError(
                f"{name} has shape {array.shape} and holds texts, such as {brief(array.ravel().tolist()[0])}; a table "
                'of exactly two columns is wanted, the names of the two items of each row: table[["first", "second"]], '
                "say"
            )
        return None
    if not any(is_text):
        return None
    if not all(is_text):
        row, column = divmod(is_text.index(False), 2)
        raise ValueError(
            f"{name}[{row}, {column}] is {brief(array[row, column])}; the name of an item, a text, is wanted"
        )
    return array


def _codes(name: str, pairs: NDArray[Any]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The names of items, in their order, and which two of them each row names, (m, 2)."""
    items = pairs.ravel().tolist()
    labels = sorted(set(items))
    places = {label: k for k, label in enumerate(labels)}
    codes = np.array([places[item] for item in items], np.int64).reshape(-1, 2)
    same = codes[:, 0] == codes[:, 1]
    if same.any():
        k = int(np.argmax(same))
        raise ValueError(f"{name}[{k}] is {brief(items[2 * k])} against itself; the names of two items are wanted")
    return tuple(map(str, labels)), codes


def _refuse_ids(name: str, table: Any, rows: Array) -> None:
    """Refuse two columns of integers that look like two items' numbers, of which a fit would make two features.

    Of a data frame, none is negative and they are of integer types. In lists and arrays moreover no two of a row are
    equal, as no item meets itself, and they go up to 2 at least: the contrasts of two features are rarely that.
    """
    kinds: list[str] = looked_at(lambda frame: list(map(str, _dtypes(frame))), table, [])
    if not kinds:
        kind: str = looked_at(lambda array: str(np.asarray(array).dtype), table, "")
        is_like_ids = rows.size > 0 and rows.max() >= 2.0 and bool(np.all(rows[:, 0] != rows[:, -1]))
        kinds = [kind] * rows.shape[1] if is_like_ids else []
    if len(kinds) == 2 and all(re.match(r"u?int\d", kind, re.IGNORECASE) for kind in kinds) and rows.min() >= 0.0:
        listed = " and ".join(map(repr, column_names(table) or (0, 1)))
        raise ValueError(
            f"{name} has two columns of whole numbers, {listed}, the first row being "
            f"{rows[0, 0]:.0f} and {rows[0, 1]:.0f}: these look like ids of items, and would be read as two features. "
            "Wanted are texts where they name items, .astype(str), or floats where they are features, .astype(float)"
        )


def _dtypes(frame: Any) -> Any:
    """The types of a data frame's columns: of pandas and polars, or of Arrow."""
    return frame.dtypes if hasattr(frame, "dtypes") else frame.schema.types


def _compares_items(rows: Any) -> bool:
    """Whether each of some rows, an array or compressed, is 1 for one column, -1 for another and 0 elsewhere."""
    return all(_are_items(rows[start : start + CHECKED_ROWS]) for start in range(0, rows.shape[0], CHECKED_ROWS))


def _are_items(rows: Any) -> bool:
    entries = rows[rows != 0.0] if isinstance(rows, np.ndarray) else rows.data
    if not np.all(np.abs(entries) == 1.0):
        return False
    return bool(np.all(rows.sum(axis=1) == 0.0) and np.all(abs(rows).sum(axis=1) == 2.0))


def _pair_matrix(codes: NDArray[np.int64], n_items: int) -> Any:
    """1 for the first and -1 for the second of two items, (m, n_items)."""
    from scipy import sparse

    m = len(codes)
    values, rows = np.tile([1.0, -1.0], m), np.repeat(np.arange(m), 2)
    matrix = sparse.csr_matrix((values, (rows, codes.ravel())), shape=(m, n_items))
    matrix.sum_duplicates()  # there are none: it sorts
    return matrix


def _covariates(value: Any, m: int) -> tuple[Array, tuple[str, ...]]:
    """Columns beside the items, (m, c), and their names."""
    names: tuple[str, ...] | None
    if isinstance(value, Mapping):
        table = entries("covariates", value)
        names = texts("covariates", list(table))
        columns = [real_numbers(f"covariates[{brief(key)}]", column, f"({m},)") for key, column in table.items()]
        wrong = next((k for k, column in enumerate(columns) if column.shape != (m,)), None)
        if wrong is not None:
            raise ValueError(
                f"covariates[{names[wrong]!r}] has shape {columns[wrong].shape}; ({m},) is wanted, one for each row"
            )
        rows = np.column_stack(columns) if columns else np.empty((m, 0))
    else:
        rows, names = real_numbers("covariates", value, f"({m}, n_covariates)"), column_names(value)
    rows = feature_rows("covariates", rows, None, shape=f"({m}, n_covariates)", entry="covariate")
    if len(rows) != m:
        raise ValueError(f"covariates has {len(rows)} rows; {m} are wanted, one for each row of contrasts")
    return rows, names or tuple(f"c[{k}]" for k in range(rows.shape[1]))
