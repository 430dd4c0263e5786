"""Regret of a policy's variants against the constant that varies."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fastcolst.plotting.figures import checked_axes, own_axes
from fastcolst.plotting.styles import GREY, decorate, line_style

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["tuning_figure"]

SIZE = (6.4, 4.2)


def tuning_figure(
    variants: Mapping[str, Mapping[str, Any]],
    regrets: Mapping[str, NDArray[np.float64]],
    as_given: str,
    regret: str,
    ax: Any = None,
) -> Axes:
    """Draw the mean final regret of variants, with 1.96 standard errors up and down.

    Across stands the first parameter that varies; a line is drawn for each combination of the others, and a dashed one
    for the policy as given.

    Parameters
    ----------
    variants : dict of label to dict of parameters
    regrets : dict of label to (runs,) float64
    as_given : str
        Label of the variant that is the policy as given.
    regret : str
        What it is.
    ax : Axes, optional
        Where to draw; a new pyplot figure if not given.

    Returns
    -------
    Axes
        What was drawn on.

    Raises
    ------
    ValueError
        ``ax`` is no Axes.
    ImportError
        Matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from fastcolst.plotting import new_figure, tuning_figure
    >>> variants = {"as given": {}, "c=1": {"c": 1.0}, "c=2": {"c": 2.0}}
    >>> regrets = {label: np.array([1.0, 2.0]) for label in variants}
    >>> tuning_figure(variants, regrets, "as given", "regret", new_figure().add_subplot()).get_xlabel()
    'c'
    """
    (one,) = own_axes(1, SIZE) if ax is None else checked_axes("ax", [ax])
    name = next(iter(next(given for given in variants.values() if given)))
    lines: dict[str, dict[Any, NDArray[np.float64]]] = {}
    for label, given in variants.items():
        others = ", ".join(f"{other}={value!r}" for other, value in given.items() if other != name)
        if given:
            lines.setdefault(others, {})[given[name]] = regrets[label]
    values = list(dict.fromkeys(value for points in lines.values() for value in points))
    numeric = all(isinstance(value, (int, float)) and value > 0 for value in values)
    places = {value: float(value) if numeric else i for i, value in enumerate(values)}
    for i, (others, points) in enumerate(lines.items()):
        order = sorted(points, key=places.__getitem__)
        means = [points[value].mean() for value in order]
        errors = [1.96 * points[value].std(ddof=1) / math.sqrt(points[value].size) for value in order]
        one.errorbar([places[v] for v in order], means, errors, capsize=3, label=others or None, **line_style(i))
    mean = regrets[as_given].mean()
    one.axhline(mean, color=GREY, linestyle="--", linewidth=1.2, label=as_given)
    if numeric:
        one.set_xscale("log")
    one.set_xticks(list(places.values()), [f"{v:g}" if numeric else repr(v) for v in values])
    one.set_xticks([], minor=True)
    decorate(one, title="", xlabel=name, ylabel=regret)
    one.set_ylim(bottom=0)
    one.legend(frameon=False)
    drawn: Axes = one
    return drawn
