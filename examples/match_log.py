"""A log of matches: what decides them, learned match by match, each predicted before it is learned.

    python examples/match_log.py

A league of ten teams plays eight seasons, home and away; the table, a CSV file, has a row for each match with two
features of either side: its rating and its days of rest. That the home side plays at home is a feature as well, 1 for
it and 0 for the guests. Results are 1, 0.5 and 0 for a win of the home side, a draw and a defeat, or nothing; the first
line that is printed says what became of each. Matches are made up here: a rating point is worth 0.02, a day of rest
0.1, the home ground 0.4 in log odds.
"""

from __future__ import annotations

import csv
import tempfile
from itertools import permutations
from pathlib import Path

import numpy as np

import fastcolst as fc

TEAMS, SEASONS = 10, range(2017, 2025)
TRUTH = {"rating": 0.02, "rest": 0.1, "ground": 0.4}


def write_matches(path):
    """Play, and write the table."""
    rng = np.random.default_rng(1)
    header = ["season", "home_rating", "away_rating", "home_rest", "away_rest", "home_ground", "away_ground", "result"]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(header)
        for season in SEASONS:
            ratings = rng.normal(1500, 60, size=TEAMS).round().astype(int)
            for home, away in rng.permutation(list(permutations(range(TEAMS), 2))):
                rest = rng.integers(2, 8, size=2)
                margin = (
                    TRUTH["rating"] * (ratings[home] - ratings[away])
                    + TRUTH["rest"] * (rest[0] - rest[1])
                    + TRUTH["ground"]
                    + rng.logistic()
                )
                result = 0.5 if abs(margin) < 0.3 else int(margin > 0)
                abandoned = rng.random() < 0.01
                table.writerow([season, ratings[home], ratings[away], *rest, 1, 0, "" if abandoned else result])


def main():
    """Read the later seasons, replay them, and predict a match."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "matches.csv")
        write_matches(path)
        log = fc.read_log(path, first="home_*", second="away_*", outcome="result", where="season >= 2018")
    print(log.counts)
    policy = fc.CoLSTIM(len(log.features), estimator="mle")
    replayed = fc.replay(policy, log)
    print(f"log loss {replayed.log_loss:.3f}, accuracy {replayed.accuracy:.0%}, each predicted before it was learned")
    home = np.mean(log.wins)
    blind = -(home * np.log(home) + (1.0 - home) * np.log(1.0 - home))
    print(f"the home side wins {home:.0%}; to say just that each time has log loss {blind:.3f}")
    for name, estimate in zip(log.features, policy.theta, strict=True):
        print(f"{name:8} {estimate:6.3f} a unit, in truth {TRUTH[name]}")
    strong_guests = policy.probability([1500, 3, 1], [1560, 6, 0])
    print(f"1500 points after 3 days at home against 1560 after 6: {strong_guests:.0%}")


if __name__ == "__main__":
    main()
