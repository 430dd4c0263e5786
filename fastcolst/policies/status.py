"""What a policy warns of, by the word that its estimator has for how the estimate stands."""

from __future__ import annotations

__all__ = ["SEPARABLE_ANSWERS", "SEPARABLE_PER_FEATURE", "STATUS_WARNINGS"]

SEPARABLE_ANSWERS = 500
SEPARABLE_PER_FEATURE = 50
"""Comparisons, whichever is more, up to which answers are separable as a rule, and no warning says so."""

STATUS_WARNINGS = {
    "boundary": "after {n} comparisons the maximum of the likelihood lies outside the ball that theta is kept in; a "
    "larger radius, or ridge > 0, moves it",
    "separated": "after {n} comparisons there are some that theta explains the better the larger it is: the likelihood "
    "has no finite maximum; ridge > 0 gives a finite one",
    "not-converged": "the maximum of the likelihood of {n} comparisons was not reached; theta is the best "
    "point found (features of very different or very large scales?)",
    "drifting": "after {n} comparisons, what is predicted and what is answered differ by more than chance: theta is "
    "off by some standard errors, since one pass never looks again at earlier answers. Did preferences change, or are "
    "features of very different scales? estimator=fc.MLE() finds the maximum; features of one scale help as well",
    "overshooting": "after {n} comparisons, predictions have come within 1e-13 of certain (a margin |z'theta| passed "
    "30): steps of SGD, and of OnlineNewton after its start, are too long for features so large, and run over their "
    "aim. fc.SGD(..., standardize=True) (--standardize) takes them in units of each feature's size; a smaller "
    'learning_rate (--learning-rate), a larger history or ridge of OnlineNewton, or estimator="mle" help as well',
}
