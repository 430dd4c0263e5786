"""Comparisons that were really made: reading a log of them, and learning from it in order.

A log has one row per comparison: the features of the two things compared (or their contrast
z = x_first - x_second) and the outcome. :func:`read_log` reads it and accounts for every row; :func:`replay`
predicts each comparison before it is learned, so that the scores are honest without a test set:

    log loss = mean of -log(probability given to what happened)
"""

# The functions hide the modules whose names they have; `from fastcolst.data.replay import ...` reaches into these.
from fastcolst.data.codings import CODINGS
from fastcolst.data.contrasts import IndexedContrasts
from fastcolst.data.log import Log
from fastcolst.data.read_log import DRAWS, read_log
from fastcolst.data.replay import ReplayResult, replay

__all__ = ["CODINGS", "DRAWS", "IndexedContrasts", "Log", "ReplayResult", "read_log", "replay"]
