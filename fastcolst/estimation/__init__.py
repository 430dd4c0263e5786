"""How theta follows from comparisons: the estimators of policies, and the fit of finished comparisons.

`protocol` is what kernels and policies ask of an estimator; `sgd`, `mle` and `online_newton` are ours, `estimators` the
names for them. The exact ones rest on `likelihood`, which finds its maximum. `fit` and `sklearn` do so once for all.
"""

from fastcolst.estimation.mle import MLE
from fastcolst.estimation.online_newton import OnlineNewton
from fastcolst.estimation.sgd import SGD

__all__ = ["MLE", "SGD", "OnlineNewton"]
