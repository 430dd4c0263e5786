"""Ratings of models from battles, with intervals that mean what they say.

    python examples/model_ratings.py

Judges see two models' answers side by side and say which is better, or that they are alike. From 4,000 such battles
come ratings in units of Elo with intervals that hold for all models at once, and the ranks that are possible. Two
things are in the way: what is shown on the left is preferred a little, which is estimated beside the ratings and kept
out of them, and a judge who loves long answers does so in every battle, so that answers of one judge are not
independent. Battles are made up here, which is why the last column can tell the truth.
"""

from __future__ import annotations

import numpy as np

import fastcolst as fc

ELO = 400.0 / np.log(10.0)
TRUTH = {"aurora": 1180, "breeze": 1120, "cobalt": 1100, "dune": 1040, "ember": 1000, "fjord": 960, "grove": 900}
LENGTH = {"aurora": 1.0, "breeze": -1.0, "cobalt": 0.5, "dune": 0.0, "ember": 0.0, "fjord": -0.5, "grove": 0.0}
BATTLES, JUDGES, LEFT, TIE = 4_000, 50, 0.2, 0.4


def battles():
    """The table: left and right model, the judge, and the left one's share of the win."""
    rng = np.random.default_rng(1)
    models, judges = list(TRUTH), rng.integers(JUDGES, size=BATTLES)
    pairs = np.array([rng.choice(models, 2, replace=False) for _ in range(BATTLES)])
    love_of_length = rng.normal(scale=0.5, size=JUDGES)
    utility = {name: rating / ELO for name, rating in TRUTH.items()}
    margin = np.array([utility[left] - utility[right] for left, right in pairs]) + LEFT + rng.logistic(size=BATTLES)
    margin += love_of_length[judges] * np.array([LENGTH[left] - LENGTH[right] for left, right in pairs])
    return pairs, judges, np.where(np.abs(margin) < TIE, 0.5, margin > 0.0)


def main():
    """Fit, rank, and compare with the truth."""
    pairs, judges, shares = battles()
    fit = fc.fit(pairs, wins=shares, position=True, clusters=judges)
    ranking = fit.ranking(scale=ELO, anchor={"ember": 1000})
    head, *rows = str(ranking).splitlines()
    print(f"{head}  in truth")
    for name, row in zip(ranking.items, rows, strict=True):
        print(f"{row}  {TRUTH[name]:8}")
    inside = sum(low <= TRUTH[name] <= high for name, (low, high) in zip(ranking.items, ranking.intervals, strict=True))
    print(f"{inside} of {len(TRUTH)} intervals hold the truth")
    position = fit.position.estimate * ELO
    print(f"to stand on the left is worth {position:.0f} points, in truth {LEFT * ELO:.0f}")
    naive = fc.fit(pairs, wins=shares, position=True).difference("aurora", "breeze")
    honest = fit.difference("aurora", "breeze")
    points, error, naive_error = (
        ELO * number for number in (honest.estimate, honest.standard_error, naive.standard_error)
    )
    print(f"aurora and breeze differ by {points:.0f} points, standard error {error:.0f}")
    print(f"were the answers of a judge independent, it would be {naive_error:.0f}")
    print(f"aurora beats breeze in {fit.predict('aurora', 'breeze'):.0%} of battles without a side")


if __name__ == "__main__":
    main()
