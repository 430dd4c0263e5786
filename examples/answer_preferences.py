"""Preferences for answers of a language model: which two of several answers to show, and which one to give.

    python examples/answer_preferences.py

A prompt gets six candidate answers, each with an embedding of 384 numbers. People see two of them and say which is
better; the policy learns a linear utility of the embedding and asks about answers that may be the best. Embeddings and
people are made up here: people follow a Bradley-Terry model. In a service `show` is where a page goes out, and the
answer comes back by `policy.update` hours later.

With so many features the estimate is the one by gradient steps, which takes a fraction of a millisecond an answer; the
exact fit to all that was learned runs once, at the end.
"""

from __future__ import annotations

import numpy as np

import fastcolst as fc

FEATURES, CANDIDATES, ANSWERS = 384, 6, 1_500
rng = np.random.default_rng(1)

# What embeddings vary in, and what people like in them.
DIRECTIONS = np.linalg.qr(rng.normal(size=(FEATURES, 24)))[0]
TASTE = DIRECTIONS @ rng.normal(size=24)
TASTE *= 6.0 / np.linalg.norm(TASTE)


def candidates():
    """The embeddings of one prompt's candidates: alike in what the prompt is about, of length 1."""
    topic, own = rng.normal(size=24), rng.normal(size=(CANDIDATES, 24))
    embeddings = (topic + own) @ DIRECTIONS.T + 0.1 * rng.normal(size=(CANDIDATES, FEATURES))
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)


def first_is_better(first, second):
    """What somebody says who is shown two answers."""
    return (first - second) @ TASTE + rng.logistic() > 0.0


def judge(theta, prompts):
    """How often the answer of highest estimated utility is the best, and its loss as a share of a random answer's."""
    true = prompts @ TASTE
    chosen = np.take_along_axis(true, np.argmax(prompts @ theta, axis=1)[:, np.newaxis], axis=1)[:, 0]
    best = true.max(axis=1)
    return np.mean(chosen == best), np.mean(best - chosen) / np.mean(best - true.mean(axis=1))


def main():
    """Ask, learn, and judge on prompts that nobody was asked about."""
    policy = fc.CoLSTIM.for_service(FEATURES, estimator=fc.SGD(0.1), rng=0)
    fresh = np.array([candidates() for _ in range(500)])
    contrasts, wins = [], []
    print("answers   best one given   loss, of a random answer's")
    for n in range(1, ANSWERS + 1):
        options = candidates()
        show = policy.select(options)
        won = first_is_better(options[show.first], options[show.second])
        policy.update(show, won)
        contrasts.append(show.contrast)
        wins.append(won)
        if n in (150, 500, ANSWERS):
            right, loss = judge(policy.theta, fresh)
            print(f"{n:7,}   {right:14.0%}   {loss:26.0%}")
    right, loss = judge(fc.fit(contrasts, wins, ridge=1.0).theta, fresh)
    print(f"exact fit {right:14.0%}   {loss:26.0%}")
    print(f"by chance {1 / CANDIDATES:14.0%}   {1:26.0%}")


if __name__ == "__main__":
    main()
