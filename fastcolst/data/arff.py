"""ARFF files: a header that names the columns, then rows of values, quoted by ' or by " or not at all.

Read is what tables of numbers and names are made of: ``@relation``, ``@attribute NAME numeric | real | integer | string
| date | {...}``, ``@data`` and rows with a value for each attribute. Sparse rows, in braces, are refused.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from fastcolst._checks import LARGEST, brief
from fastcolst._files import FileFormatError, decoding, read_whole

__all__ = ["Arff", "read_arff", "read_text"]

_TEXT = r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\""""
_CELL = re.compile(rf"[ \t]*(?:{_TEXT}|([^,'\"{{}}][^,]*|))[ \t]*(,|$)")
_ATTRIBUTE = re.compile(rf"@attribute\s+(?:{_TEXT}|(\S+))\s+(.+)", re.IGNORECASE)
_KINDS = ("numeric", "real", "integer", "string", "date")
MISSING = ("?", "", "nan")


class Arff(NamedTuple):
    """A table as the file has it: texts, "?" where a value is missing.

    path, to be named in messages; names of the columns; rows, as many texts each; lines, that of each row in the file.
    """

    path: str
    names: list[str]
    rows: list[list[str]]
    lines: list[int]

    def column(self, name: str) -> list[str]:
        """The texts of a column.

        Raises
        ------
        FileFormatError
            There is none of this name.
        """
        if name not in self.names:
            raise FileFormatError(
                f"{self.path!r} has no attribute {name!r}, which is wanted; it has {', '.join(self.names)}"
            )
        k = self.names.index(name)
        return [row[k] for row in self.rows]

    def numbers(self, name: str, missing: float | None = None) -> NDArray[np.float64]:
        """The numbers of a column, (m,); nan where there is none, or the number that stands for that.

        Raises
        ------
        FileFormatError
            A value is no finite number, or one beyond all that is computed with, with its line.
        """
        found = np.empty(len(self.rows))
        for i, text in enumerate(self.column(name)):
            try:
                value = math.nan if text.lower() in MISSING else float(text)
            except ValueError:
                value = math.inf
            if abs(value) > LARGEST:
                wanted = f"a finite number below {LARGEST:g} in size is wanted, or ? where it is missing"
                self.refuse(i, f"{name} is {brief(text)}; {wanted}")
            found[i] = math.nan if value == missing else value
        return found

    def refuse(self, row: int, message: str) -> NoReturn:
        """Raise the error that names the file and the line of a row."""
        raise FileFormatError(f"{self.path!r}, line {self.lines[row]}: {message}")


def read_text(path: str | os.PathLike[str]) -> str:
    """A text file as a text; FileFormatError when it is none."""
    with decoding(os.fspath(path)):
        return read_whole(path).decode("utf-8-sig")


def read_arff(path: str | os.PathLike[str]) -> Arff:
    """Read an ARFF file.

    Raises
    ------
    FileFormatError
        With the file, the line, what stands there and what is wanted.
    OSError
        The file cannot be read.
    """
    table = Arff(os.fspath(Path(path)), [], [], [])
    nominal: dict[int, list[str]] = {}
    in_data = False
    for number, line in enumerate(map(str.strip, read_text(path).splitlines()), 1):
        if not line or line.startswith("%"):
            continue
        if in_data:
            table.lines.append(number)
            table.rows.append(_row(table, line, nominal))
        elif re.match(r"@data\b", line, re.IGNORECASE):
            in_data = True
        elif not re.match(r"@relation\b", line, re.IGNORECASE):
            _add_attribute(table, number, line, nominal)
    if not table.rows:
        lack = "no row after @data" if in_data else "no @data"
        raise FileFormatError(f"{table.path!r} has {lack}; attributes, @data and rows are wanted")
    return table


def _add_attribute(table: Arff, number: int, line: str, nominal: dict[int, list[str]]) -> None:
    """A line of the header, which must be that of an attribute, with the values of a nominal one."""
    found = _ATTRIBUTE.fullmatch(line)
    kind = found[4].strip() if found else ""
    is_nominal = kind.startswith("{") and kind.endswith("}")
    if found is None or not (is_nominal or kind.partition(" ")[0].lower() in _KINDS):
        raise FileFormatError(
            f"{table.path!r}, line {number}: {brief(line)}; @attribute, a name and {', '.join(_KINDS)} or {{...}} are "
            "wanted, or @data"
        )
    name = _unquoted(found)
    if name in table.names:
        raise FileFormatError(f"{table.path!r}, line {number}: a second attribute {name!r}; other names are wanted")
    if is_nominal:
        nominal[len(table.names)] = _cells(kind[1:-1].strip()) or []
    table.names.append(name)


def _row(table: Arff, line: str, nominal: dict[int, list[str]]) -> list[str]:
    """A line of the data as texts, as many as there are attributes."""
    plain = "'" not in line and '"' not in line and "{" not in line
    row = [cell.strip() for cell in line.split(",")] if plain else _cells(line)
    wanted = f"{len(table.names)} values with commas between them are wanted, one for each attribute"
    if row is None:
        table.refuse(len(table.rows), f"{brief(line)} has a quote that is not closed, or braces; {wanted}")
    if len(row) != len(table.names):
        table.refuse(len(table.rows), f"{len(row)} values; {wanted}")
    for k, known in nominal.items():
        if row[k] not in known and row[k] not in MISSING:
            table.refuse(len(table.rows), f"{table.names[k]} is {brief(row[k])}; {', '.join(known)} or ? is wanted")
    return row


def _cells(line: str) -> list[str] | None:
    """The texts between the commas of a line, without their quotes; None where it cannot be split."""
    cells, place, more = [], 0, True
    while more:
        found = _CELL.match(line, place)
        if found is None:
            return None
        cells.append(_unquoted(found))
        place, more = found.end(), found[4] == ","
    return cells


def _unquoted(found: re.Match[str]) -> str:
    """What stands in single, in double or in no quotes: the first three groups of a match."""
    quoted = found[1] if found[1] is not None else found[2]
    return found[3].strip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
