"""Figures to draw on, and the files that they become."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fastcolst._checks import brief, looked_at
from fastcolst._files import optional_import

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["PICTURES", "REGRET_SIZE", "checked_axes", "new_figure", "own_axes", "picture_bytes", "save_figure"]

PICTURES = (".png", ".svg", ".pdf")
"""Extensions that :func:`save_figure` writes."""

REGRET_SIZE = (6.4, 4.0)


def new_figure(width: float = REGRET_SIZE[0], height: float = REGRET_SIZE[1]) -> Figure:
    """Return an empty figure that no window and no global list knows of.

    Parameters
    ----------
    width, height : float
        In inches.

    Raises
    ------
    ImportError
        Matplotlib is not installed.
    """
    figure: Figure = optional_import("matplotlib.figure", "a picture").Figure(
        figsize=(width, height), layout="constrained"
    )
    return figure


def own_axes(n: int, size: tuple[float, float]) -> NDArray[Any]:
    """Axes side by side in a new pyplot figure, (n,) object."""
    pyplot = optional_import("matplotlib.pyplot", "a picture")
    _, axes = pyplot.subplots(1, n, figsize=size, layout="constrained", squeeze=False)
    return np.asarray(axes, dtype=object).ravel()


def checked_axes(name: str, given: Any) -> NDArray[Any]:
    """Axes in a sequence or an array, (n,) object."""
    axes = optional_import("matplotlib.axes", "a figure").Axes
    found = looked_at(list, given.ravel() if isinstance(given, np.ndarray) else given, [None])
    if not all(isinstance(ax, axes) for ax in found):
        raise ValueError(f"{name} is {brief(given)}; matplotlib Axes are wanted")
    array = np.empty(len(found), dtype=object)
    array[:] = found
    return array


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a picture: .png, .svg or .pdf; the same picture gives the same bytes.

    Raises
    ------
    ValueError
        The extension is none of these.
    OSError
        The file cannot be written.
    """
    extension = Path(path).suffix.lower()
    if extension not in PICTURES:
        raise ValueError(f"path {os.fspath(path)!r} must end in one of {', '.join(PICTURES)}")
    Path(path).write_bytes(picture_bytes(figure, extension))


def picture_bytes(figure: Figure, extension: str) -> bytes:
    """A picture as :func:`save_figure` writes it, in memory.

    Raises
    ------
    ValueError
        The extension is none of ``PICTURES``.
    """
    if extension not in PICTURES:
        raise ValueError(f"extension {extension!r} must be one of {', '.join(PICTURES)}")
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[extension]
    buffer = io.BytesIO()
    with optional_import("matplotlib", "a picture").rc_context({"svg.hashsalt": "fastcolst"}):
        figure.savefig(buffer, format=extension[1:], dpi=200, metadata=undated)
    return buffer.getvalue()
