"""examples/web_service.py under fire: twenty kills, and no answer is lost or counted twice."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sqlite3
import sys
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PATH = Path(__file__).resolve().parents[1] / "examples" / "web_service.py"
WORKER_KILLS, SERVICE_KILLS = 18, 2

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc for the workers"),
]


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("web_service", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(port: int, path: str, content: Any = None) -> dict[str, Any] | None:
    """A reply, or None where there was none: the answer may have arrived or not."""
    data = None if content is None else json.dumps(content).encode()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=20.0) as reply:
            return json.load(reply)
    except urllib.error.HTTPError:
        raise
    except (OSError, HTTPException, ValueError):
        return None


def workers_of(service: Any) -> list[int]:
    """Processes that the supervisor has started and that are alive."""
    try:
        return [int(pid) for pid in Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()]
    except OSError:
        return []


class Visitors(threading.Thread):
    """Three of them: see duels, answer late, send answers twice, also the opposite, until they are told to stop."""

    def __init__(self, seed: int, port: int) -> None:
        super().__init__()
        self.rng, self.port = np.random.default_rng(seed), port
        self.done = threading.Event()
        self.sent: dict[str, bool] = {}
        self.acknowledged: set[str] = set()
        self.fault: BaseException | None = None

    def run(self) -> None:
        waiting: list[str] = []
        try:
            while not self.done.is_set():
                if duel := asked(self.port, "/duel"):
                    waiting.append(duel["token"])
                if len(waiting) > 10:
                    token = waiting.pop(self.rng.integers(len(waiting)))
                    won = self.sent[token] = bool(self.rng.random() < 0.5)
                    while not asked(self.port, "/answer", {"token": token, "first_won": won}):
                        time.sleep(0.01)  # no reply: it may have been written down or not
                    self.acknowledged.add(token)
                    if self.rng.random() < 0.3:
                        again = asked(self.port, "/answer", {"token": token, "first_won": not won})
                        assert again in (None, {"counted": False})
        except BaseException as fault:  # noqa: BLE001 - told by the test's thread
            self.fault = fault


def test_twenty_kills_lose_no_answer_and_count_none_twice(example, tmp_path):
    journal, rng = tmp_path / "answers.sqlite", np.random.default_rng(1)
    service, port = example.start(0, journal)
    visitors = [Visitors(seed, port) for seed in range(3)]
    kinds = ["worker"] * WORKER_KILLS + ["service"] * SERVICE_KILLS
    rng.shuffle(kinds)
    try:
        for visitor in visitors:
            visitor.start()
        for kind in kinds:
            before = sum(len(visitor.acknowledged) for visitor in visitors)
            while sum(len(visitor.acknowledged) for visitor in visitors) < before + 5:  # it is in full swing
                assert service.poll() is None and not any(visitor.fault for visitor in visitors)
                time.sleep(0.01)
            time.sleep(0.03 * rng.random())
            if kind == "service":
                example.stop(service)
                service, _ = example.start(port, journal)
            else:
                while not (workers := workers_of(service)):
                    time.sleep(0.01)
                os.kill(int(rng.choice(workers)), signal.SIGKILL)
        for visitor in visitors:
            visitor.done.set()
            visitor.join(60.0)
        assert not any(visitor.is_alive() for visitor in visitors)
        assert [visitor.fault for visitor in visitors] == [None] * 3
        found = example.Client(port).workers()
    finally:
        for visitor in visitors:
            visitor.done.set()
        example.stop(service)
    sent = {token: won for visitor in visitors for token, won in visitor.sent.items()}
    with sqlite3.connect(journal) as connection:
        rows = connection.execute(
            "select token, first_won, duel from answers join duels using (token) order by answers.id"
        ).fetchall()
    connection.close()
    assert len(rows) >= 5 * len(kinds)
    assert {token: bool(won) for token, won, _ in rows} == sent and len(rows) == len(sent)  # each once, the first word
    assert set().union(*(visitor.acknowledged for visitor in visitors)) == set(sent)
    assert [status["learned"] for status in found.values()] == [len(rows)] * example.WORKERS
    contrasts = np.array([json.loads(duel)["contrast"] for _, _, duel in rows])
    signed = np.where(np.array([won for _, won, _ in rows], bool)[:, np.newaxis], contrasts, -contrasts)
    policy = example.new_policy()
    policy.learn(signed, np.zeros_like(signed))
    for status in found.values():
        np.testing.assert_allclose(status["theta"], policy.theta, atol=0.01)


def test_what_is_no_answer_is_refused_with_words(example, tmp_path):
    service, port = example.start(0, tmp_path / "answers.sqlite")
    try:
        token = asked(port, "/duel")["token"]
        for path, content, code in [
            ("/answer", {"token": token}, 400),
            ("/answer", {"token": token, "first_won": "yes"}, 400),
            ("/answer", [1], 400),
            ("/answer", {"token": "0123456789abcdef-1", "first_won": True}, 404),
            ("/elsewhere", None, 404),
        ]:
            with pytest.raises(urllib.error.HTTPError) as caught:
                asked(port, path, content)
            with caught.value as reply:
                assert reply.code == code and ("wanted" in reply.read().decode() or code == 404)
        assert asked(port, "/answer", {"token": token, "first_won": True}) == {"counted": True}
    finally:
        example.stop(service)
