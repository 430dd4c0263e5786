"""What a policy with a linear estimate knows of its own doubt: by the Gram matrix M, or by the information H."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastcolst.comparison import weight
from fastcolst.estimation.memory import snapshot
from fastcolst.estimation.protocol import check_information, information_factor
from fastcolst.policies.columns import contexts_of
from fastcolst.policies.counting import Counting
from fastcolst.policies.duel import Asked
from fastcolst.policies.kernels import agent_is_stale, count_contrast, count_entries
from fastcolst.policies.learned import add_rows
from fastcolst.policies.position import shown_first
from fastcolst.policies.robust import trust_entry

__all__ = ["Informing"]

MOST_AT_ONCE = 2**22
"""Pairs whose distances are held at once."""


class Informing(Counting):
    """Widths, and what follows from them."""

    needs_information: ClassVar[bool] = False

    _lock: Any
    _rule: Any
    _state: Any
    _position: bool
    _parameters: dict[str, Any]

    @property
    def _is_informed(self) -> bool:
        """Whether the policy chooses by H, the estimator's information, in place of M."""
        return self.needs_information or self._parameters.get("widths") == "information"

    def widths(self, contexts: ArrayLike | Mapping[Any, ArrayLike]) -> NDArray[np.float64]:
        """Widths sqrt(x' M^-1 x), (n_arms,) float64, of contexts (n_arms, n_features) or a dict of vectors.

        They are inf until M was inverted. With ``widths="information"`` H^-1 stands for M^-1, and with
        ``count_pending=True`` pairs that wait count in both. With ``ridge=0`` M is inverted for the first time when the
        exploration ends, or with ``exploration_rounds="auto"`` after n_features comparisons.
        """
        given = contexts_of(contexts)
        with self._lock:
            rows = self._named_rows("contexts", given, "(n_arms, n_features)")
            if not self._state.counters["factored"]:
                return np.full(len(rows), np.inf)
            by_information = self._parameters.get("widths") == "information"
            if self._pairs_count():
                factor = self._known_matrices()[2 if by_information else 1]
            else:
                factor = self._information_factor(self._estimate()) if by_information else self._state.factor
            widths: NDArray[np.float64] = np.linalg.norm(rows @ self._of_features(factor).T, axis=1)
            return widths

    def expected_misordered(self, contexts: ArrayLike | Mapping[Any, ArrayLike]) -> float:
        """Share of the pairs of arms that the estimate is expected to put in the wrong order: when to stop asking.

        The mean over the pairs of Phi(-|z'theta| / |z|_{H^-1}), z = x_i - x_j, H = ridge I + sum w I(z'theta) z z' the
        estimator's information: the chance that the true difference has the other sign, by Laplace's posterior.

        Parameters
        ----------
        contexts : (n_arms, n_features) array_like of real numbers, or a dict of vectors
            The arms whose order is wanted, at least two.

        Returns
        -------
        float
            From 0 to 1/2, which is that of nothing learned. Equal arms have no order to get wrong.

        Raises
        ------
        AttributeError
            The estimator knows no information, as :class:`fastcolst.SGD`.
        ValueError
            For wrong shapes or entries, and for one arm alone.

        Notes
        -----
        O(n_arms^2 n_features). It is what the model believes: utilities that are not linear, or answers that are not by
        the comparison model, make it too small.

        Examples
        --------
        >>> import numpy as np, fastcolst as fc
        >>> rng = np.random.default_rng(0)
        >>> items = rng.normal(size=(20, 3))
        >>> policy = fc.TwoSamples(3, rng=1)
        >>> before = policy.expected_misordered(items)
        >>> winners, losers = items[rng.integers(20, size=(2, 300))]
        >>> turned = (winners - losers)[:, 0] + rng.logistic(size=300) < 0
        >>> policy.learn(np.where(turned[:, None], losers, winners), np.where(turned[:, None], winners, losers))
        >>> before, bool(policy.expected_misordered(items) < 0.2)
        (0.5, True)
        """
        try:
            check_information(self._rule.estimator, "expected_misordered")
        except ValueError as error:
            raise AttributeError(str(error)) from None
        given = contexts_of(contexts)
        with self._lock:
            if given.rows.ndim == 2 and len(given.rows) < 2:
                raise ValueError(f"contexts has {len(given.rows)} arm; at least two, which make a pair, are wanted")
            rows = self._named_rows("contexts", given, "(n_arms, n_features)")
            memory = self._estimate()
            theta, factor = self._of_features(memory.theta), self._of_features(self._information_factor(memory))
            return _misordered(rows @ theta, rows @ factor.T) if factor.any() else 0.5

    def _information_factor(self, memory: Any) -> NDArray[np.float64]:
        """S with S'S = H^-1, of a memory whose theta is up to date; see the estimator's method of that name."""
        factor: NDArray[np.float64] = information_factor(self._rule.estimator, memory, self._state.factor)
        return factor

    # --- several choices at once ------------------------------------------------------------------------------

    def _matrices(self) -> list[NDArray[np.float64]]:
        if self._is_informed:
            self._refresh_estimate()  # as the next choice would: what is put back afterwards must go with theta
        return self._matrices_of(self._state)

    def _matrices_of(self, state: Any) -> list[NDArray[np.float64]]:
        told = [self._information_factor(state.memory)] if self._is_informed else []
        return [state.gram, state.factor, *told]

    def _count_on(self, asked: Asked) -> None:
        self._count_in(self._state.gram, self._state.factor, self._state.memory, asked)

    def _count_in(self, gram: Any, factor: Any, memory: Any, asked: Asked) -> None:
        """Count a duel in M and its factor, and in H where the policy chooses by it, as if it was answered."""
        contrast, scratch = shown_first(asked.contrast) if self._position else asked.contrast, self._state.scratch
        count_contrast(gram, factor, np.sqrt(asked.weight) * contrast, scratch)
        if self._is_informed:
            tells = asked.weight * float(weight(self._rule.model, float(memory.theta @ contrast)))
            count_contrast(np.zeros_like(gram), self._information_factor(memory), np.sqrt(tells) * contrast, scratch)

    def _warm_counting(self, row: NDArray[np.float64]) -> None:
        """Compile what counts and weighs pairs: of a row (1, n_features)."""
        square, work = np.eye(row.size), np.zeros((3, row.size))
        if self._counts_pending:
            add_rows(row, np.ones(1), square, square.copy(), work)
            count_entries()
        else:
            count_contrast(square, square.copy(), row[0], work[:2])
        if self._alpha is not None:
            trust_entry()

    # --- pairs that wait --------------------------------------------------------------------------------------

    def _known_matrices(self) -> list[NDArray[np.float64]]:
        """What the next choice goes by, :meth:`_matrices_of`: copies, if need be, since reading must change nothing."""
        self._end_interrupted()  # what was learned waits no longer
        state = self._state
        if not self._pairs_count():
            return self._matrices_of(state)
        if self._counted is not None:
            return self._counted
        if self._is_informed and agent_is_stale(self._agent):
            state = snapshot(state)
            state.refresh_estimate(self._rule)
        return self._with_waiting(state)

    def _factor_for(self, note: int, state: Any) -> NDArray[np.float64] | None:
        factor: NDArray[np.float64] = state.factor
        return factor

    def _count_one(self, state: Any, asked: Asked, times: float) -> bool:
        """Count a duel in M and its factor alone."""
        contrast = shown_first(asked.contrast) if self._position else asked.contrast
        share = times * asked.weight
        add, remove = count_entries()
        if share < 0.0:
            return remove(state.gram, state.factor, (-share) ** 0.5 * contrast, state.scratch)
        add(state.gram, state.factor, contrast if share == 1.0 else share**0.5 * contrast, state.scratch)
        return True

    def _count_beside(self, state: Any, duels: list[Asked], times: float) -> bool:
        if len(duels) == 1 and not self._is_informed:
            return self._count_one(state, duels[0], times)
        self._count_rows(state.gram, state.factor, state.memory, *self._rows_of(duels, times))
        return True

    def _rows_of(self, duels: list[Asked], times: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What duels that count so many times add to M: contrasts (m, d), and weights (m,)."""
        rows = np.array([asked.contrast for asked in duels])
        weights = times * np.array([asked.weight for asked in duels])
        return shown_first(rows) if self._position else rows, weights

    def _count_rows(
        self, gram: Any, factor: Any, memory: Any, rows: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> None:
        """Count contrasts in M and its factor, and in H where the policy chooses by it."""
        work = np.empty((3, len(gram)))
        add_rows(rows, weights, gram, factor, work)
        if self._is_informed:
            tells = [float(weight(self._rule.model, float(margin))) for margin in rows @ memory.theta]
            add_rows(rows, weights * tells, np.zeros_like(gram), self._information_factor(memory), work)

    if TYPE_CHECKING:  # what a policy has besides

        def _named_rows(self, name: str, given: Any, shape: str) -> NDArray[np.float64]: ...

        def _estimate(self) -> Any: ...

        def _of_features(self, theta: NDArray[np.float64]) -> NDArray[np.float64]: ...

        def _refresh_estimate(self) -> bool: ...


def _misordered(utilities: NDArray[np.float64], points: NDArray[np.float64]) -> float:
    """The mean over pairs of Phi(-|u_i - u_j| / |a_i - a_j|), with whitened arms a as rows; 0 for two equal arms."""
    from scipy.spatial.distance import cdist
    from scipy.special import ndtr

    n, total = len(points), 0.0
    for rows in np.array_split(np.arange(n), -(-n * n // MOST_AT_ONCE)):
        distances = cdist(points[rows], points)
        margins = np.abs(utilities[rows, np.newaxis] - utilities)
        with np.errstate(divide="ignore", invalid="ignore"):
            wrong = ndtr(-margins / distances)
        total += float(np.sum(wrong, where=np.isfinite(wrong) & (rows[:, np.newaxis] != np.arange(n))))
    return total / (n * (n - 1))
