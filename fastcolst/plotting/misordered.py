"""The share of pairs in the wrong order against the answers: how fast an order is learned, and when to stop asking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastcolst._checks import brief
from fastcolst.plotting.figures import REGRET_SIZE, checked_axes, own_axes
from fastcolst.plotting.styles import GREY, decorate, line_style

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

__all__ = ["misordered_figure"]


def misordered_figure(
    answers: ArrayLike, shares: Mapping[str, ArrayLike], target: float | None = None, ax: Any = None
) -> Axes:
    """Draw curves of ``policy.expected_misordered``, or of true shares, against the number of answers.

    Parameters
    ----------
    answers : (k,) array_like
        How many answers there were.
    shares : dict of label to (k,) array_like
        Shares of misordered pairs after so many answers, from 0 to 1/2 when all goes well.
    target : float, optional
        A share at which to stop asking, drawn as a dashed line.
    ax : Axes, optional
        Where to draw; a new pyplot figure if not given.

    Returns
    -------
    Axes
        What was drawn on.

    Raises
    ------
    ValueError
        A curve is not as long as ``answers``, there is none, or ``ax`` is no Axes.
    ImportError
        Matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np, fastcolst as fc
    >>> from fastcolst.plotting import misordered_figure, new_figure
    >>> rng = np.random.default_rng(0)
    >>> items, policy, shares = rng.normal(size=(20, 3)), fc.Informative(3, rng=1), []
    >>> for _ in range(30):
    ...     shares.append(policy.expected_misordered(items))
    ...     duel = policy.select(items)
    ...     policy.update(duel, first_won=2 * duel.contrast[0] + rng.logistic() > 0)
    >>> ax = misordered_figure(range(30), {"Informative": shares}, target=0.1, ax=new_figure().add_subplot())
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('answers', 'share of misordered pairs')
    """
    across = np.asarray(answers, dtype=np.float64)
    curves = {label: np.asarray(curve, dtype=np.float64) for label, curve in shares.items()}
    if across.ndim != 1 or not curves:
        found = f"answers has shape {across.shape} and shares {len(curves)} curves"
        raise ValueError(f"{found}; a row of numbers and at least one curve are wanted")
    for label, curve in curves.items():
        if curve.shape != across.shape:
            raise ValueError(f"shares[{brief(label)}] has shape {curve.shape}; wanted that of answers, {across.shape}")
    (one,) = own_axes(1, REGRET_SIZE) if ax is None else checked_axes("ax", [ax])
    for number, (label, curve) in enumerate(curves.items()):
        one.plot(across, curve, label=label, **line_style(number))
    if target is not None:
        one.axhline(target, color=GREY, linestyle="--", linewidth=1.2, label=f"target {target:g}")
    decorate(one, title="", xlabel="answers", ylabel="share of misordered pairs")
    one.set_ylim(bottom=0)
    one.legend(frameon=False)
    drawn: Axes = one
    return drawn
