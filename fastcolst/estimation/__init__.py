"""How theta follows from comparisons: the estimators of policies, and the fit of finished comparisons.

`protocol` is what kernels and policies ask of an estimator; `sgd`, `mle` and `online_newton` are ours, `estimators` the
names for them. The exact ones rest on `newton`, which finds the maximum. `fit` and `sklearn` do so once for all, from
the contrasts that `designs` reads, dense or `sparse`. What of theta they determine is `identification`; `rating` and
`ranking` tell it.
"""

from fastcolst.estimation.mle import MLE
from fastcolst.estimation.online_newton import OnlineNewton
from fastcolst.estimation.sgd import SGD

__all__ = ["MLE", "SGD", "OnlineNewton"]
