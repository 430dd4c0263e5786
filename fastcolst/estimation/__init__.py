"""How theta follows from comparisons: the estimators of policies, and the fit of finished comparisons.

`protocol` is what kernels and policies ask of an estimator; `sgd`, `mle` and `online_newton` are ours, `estimators` the
names for them. Of the exact ones `push` learns an answer, `prediction` says when a pass over the `history` is due
(`pass_is_due`), and `newton` finds the maximum by `passes`; the numbers that they keep are `records`. `fit` and
`sklearn` find it once for all, from the contrasts that `designs` reads, dense or `sparse`. What of theta they determine
is `identification`; `rating` and `ranking` tell it.
"""

from fastcolst.estimation.mle import MLE
from fastcolst.estimation.online_newton import OnlineNewton
from fastcolst.estimation.sgd import SGD

__all__ = ["MLE", "SGD", "OnlineNewton"]
