"""Pictures of results: regret of simulations and of variants, calibration and log loss of a replay, ratings, orders.

Matplotlib is imported when a picture is drawn, and pyplot only when no axes are given, so that drawing into axes of
one's own works anywhere.

Of a result these functions know no more than the arrays that they draw (see the protocols), so that this package stands
below all results, which draw themselves by it.
"""

from fastcolst.plotting.figures import PICTURES, new_figure, picture_bytes, save_figure
from fastcolst.plotting.misordered import misordered_figure
from fastcolst.plotting.panels import Panel, log_curves, panels_figure
from fastcolst.plotting.rankings import ranking_figure
from fastcolst.plotting.regret import regret_curves, regret_figure, study_figure
from fastcolst.plotting.replays import REPLAY_SIZE, replay_figure
from fastcolst.plotting.styles import line_style
from fastcolst.plotting.tunings import tuning_figure

__all__ = [
    "PICTURES",
    "REPLAY_SIZE",
    "Panel",
    "line_style",
    "log_curves",
    "misordered_figure",
    "new_figure",
    "panels_figure",
    "picture_bytes",
    "ranking_figure",
    "regret_curves",
    "regret_figure",
    "replay_figure",
    "save_figure",
    "study_figure",
    "tuning_figure",
]
