"""A web service that asks people which of two items they like better: two workers, restarts, answers days later.

    python examples/web_service.py serve --port 8080 --journal answers.sqlite
    python examples/web_service.py demo

`serve` runs a supervisor and two worker processes behind one port. Who visits gets a pair, GET /duel, and may answer it
at any time, POST /answer with {"token": ..., "first_won": true}; GET /status tells what a worker knows.

The journal, an SQLite file, is all there is to lose. A duel is written to it, with its contrast, before it is shown,
and an answer before it is acknowledged, once for each token: who hears nothing, because a worker died, asks again, and
it counts once. No policy waits for an answer: every worker learns all answers from the journal, in their order, its own
and the other's, after a restart as well. So a worker may be killed at any moment, or replaced by a new version.

`demo` plays visitors of such a service, kills workers and then all of it in the middle, and counts.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: its threads do not survive a fork

import numpy as np

import fastcolst as fc

ITEMS = np.random.default_rng(1).normal(size=(12, 4)) / 2.0  # features of what there is to show
TASTE = np.array([2.0, -1.0, 1.0, 0.0])  # what people like, which only the demo's visitors know
SHOWN_ITEMS = 5  # a visitor's pair is chosen among so many, drawn at random
WORKERS = 2

TABLES = """
pragma journal_mode = wal;
create table if not exists duels (token text primary key, duel text not null, first integer, second integer);
create table if not exists answers (
    id integer primary key autoincrement, token text unique not null references duels, first_won integer not null
);
"""


def new_policy():
    """A policy that knows nothing yet, with a stream of its own."""
    return fc.CoLSTIM.for_service(ITEMS.shape[1])


# --- a worker -----------------------------------------------------------------------------------------------


class Worker(HTTPServer):
    """One process's policy and its connection to the journal, behind a socket that it shares with the others."""

    def __init__(self, listener, journal, supervisor):
        super().__init__(listener.getsockname(), Requests, bind_and_activate=False)
        self.socket.close()
        self.socket, self.supervisor = listener, supervisor
        self.policy, self.rng = new_policy(), np.random.default_rng()
        self.journal = sqlite3.connect(journal, timeout=60.0, isolation_level=None)  # each statement is a transaction
        self.last_answer = self.learned = 0
        self.learn_answers()

    def learn_answers(self):
        """Learn what the journal has got since the last time, whoever was asked, in the order of the answers."""
        rows = self.journal.execute(
            "select answers.id, duel, first_won from answers join duels using (token) where answers.id > ? order by 1",
            (self.last_answer,),
        ).fetchall()
        if rows:
            ids, duels, first_won = zip(*rows, strict=True)
            contrasts = np.array([fc.Duel.from_json(duel).contrast for duel in duels])
            winners = np.where(np.array(first_won, bool)[:, np.newaxis], contrasts, -contrasts)
            self.policy.learn(winners, np.zeros_like(winners))
            self.last_answer, self.learned = ids[-1], self.learned + len(ids)

    def new_duel(self):
        """A pair for somebody, in the journal before anybody sees it."""
        self.learn_answers()
        items = self.rng.choice(len(ITEMS), SHOWN_ITEMS, replace=False)
        duel = self.policy.select(ITEMS[items])
        self.policy.discard(duel)  # its answer comes from the journal, to every worker
        first, second = int(items[duel.first]), int(items[duel.second])
        self.journal.execute("insert into duels values (?, ?, ?, ?)", (duel.token, duel.to_json(), first, second))
        return 200, {"token": duel.token, "first": first, "second": second}

    def take_answer(self, token, first_won):
        """Write an answer down; a second one to the same duel changes nothing, and is told so."""
        if not self.journal.execute("select 1 from duels where token = ?", (token,)).fetchone():
            return 404, {"error": f"no duel has the token {token!r}"}
        done = self.journal.execute(
            "insert or ignore into answers (token, first_won) values (?, ?)", (token, first_won)
        )
        return 200, {"counted": done.rowcount == 1}

    def status(self):
        """What this worker has learned."""
        self.learn_answers()
        return 200, {"worker": os.getpid(), "learned": self.learned, "theta": self.policy.theta.tolist()}

    def service_actions(self):
        """Leave, twice a second, when the supervisor is gone."""
        if os.getppid() != self.supervisor:
            os._exit(0)


class Requests(BaseHTTPRequestHandler):
    """HTTP to calls of the worker, and back."""

    timeout = 10.0  # who sends half a request must not keep the others waiting

    def do_GET(self):
        calls = {"/duel": self.server.new_duel, "/status": self.server.status}
        self.reply(
            *calls[self.path]() if self.path in calls else (404, {"error": "/duel, /status or /answer is wanted"})
        )

    def do_POST(self):
        try:
            body = json.loads(self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 10_000)))
            token, first_won = body["token"], body["first_won"]
        except (ValueError, KeyError, TypeError):
            token = first_won = None
        if self.path != "/answer" or not isinstance(token, str) or not isinstance(first_won, bool):
            self.reply(400, {"error": 'POST /answer with {"token": ..., "first_won": true or false} is wanted'})
        else:
            self.reply(*self.server.take_answer(token, first_won))

    def reply(self, code, content):
        data = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Nothing: the journal says it all."""


# --- the supervisor -----------------------------------------------------------------------------------------


def listen(port):
    """A socket that listens on a port, which workers of a service that was killed may hold for another moment."""
    for _ in range(200):
        try:
            return socket.create_server(("127.0.0.1", port), backlog=100)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            time.sleep(0.05)
    raise SystemExit(f"port {port} is in use")


def serve(port, journal):
    """Keep two workers at work on a port, for ever."""
    listener = listen(port)
    listener.setblocking(False)  # both workers wake for a visitor, and one of them is too late
    with sqlite3.connect(journal) as connection:
        connection.executescript(TABLES)
    connection.close()
    new_policy().warmup()  # compiled once, before there are workers
    supervisor, workers = os.getpid(), set()
    print(f"serving on port {listener.getsockname()[1]}", flush=True)
    while True:
        while len(workers) < WORKERS:
            worker = os.fork()
            if worker == 0:
                try:
                    Worker(listener, journal, supervisor).serve_forever()
                finally:
                    os._exit(1)  # it serves for ever: here it failed
            workers.add(worker)
        gone, status = os.waitpid(-1, 0)
        workers.discard(gone)
        if os.waitstatus_to_exitcode(status) > 0:  # it failed, and the next one would as well
            for worker in workers:
                os.kill(worker, signal.SIGTERM)
            raise SystemExit("a worker failed")


# --- the demo -----------------------------------------------------------------------------------------------


class Client:
    """Visitors of a service, patient ones: who gets no reply asks again."""

    def __init__(self, port):
        self.port = port

    def __call__(self, path, content=None):
        data = None if content is None else json.dumps(content).encode()
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", data, timeout=5.0) as reply:
                    return json.load(reply)
            except urllib.error.HTTPError:
                raise
            except (OSError, HTTPException, ValueError):  # the worker died before or while it replied
                time.sleep(0.05)
        raise SystemExit("the service does not come back")

    def workers(self):
        """The status of each of the two workers."""
        found = {}
        for n in range(200):
            with contextlib.ExitStack() as busy:
                if n % 2:  # the worker that comes first otherwise waits for this one to say something
                    busy.enter_context(socket.create_connection(("127.0.0.1", self.port)))
                    time.sleep(0.05)
                status = self("/status")
            found[status["worker"]] = status
            if len(found) > WORKERS:  # one of them has been replaced
                found = {status["worker"]: status}
            if len(found) == WORKERS and len({one["learned"] for one in found.values()}) == 1:
                return found
        raise SystemExit("one worker answers everything")


def start(port, journal):
    """A service in processes of its own, which one signal to their group reaches; its port, once it serves."""
    command = [sys.executable, __file__, "serve", "--port", str(port), "--journal", str(journal)]
    service = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
    return service, int(service.stdout.readline().split()[-1])


def stop(service):
    """Kill all of a service at once, as a power cut would."""
    os.killpg(service.pid, signal.SIGKILL)
    service.wait()
    service.stdout.close()


def demo(folder):
    """Visit, answer late, kill, and count."""
    rng = np.random.default_rng(1)
    journal = Path(folder, "answers.sqlite")
    service, port = start(0, journal)
    visit = Client(port)
    waiting, answered, twice, kills = [], 0, 0, 0
    try:
        for n in range(400):
            waiting.append(visit("/duel"))
            while len(waiting) > 40 or (n == 399 and len(waiting) > 20):  # these come hours later, 20 never
                duel = waiting.pop(rng.integers(len(waiting)))
                gap = (ITEMS[duel["first"]] - ITEMS[duel["second"]]) @ TASTE
                answer = {"token": duel["token"], "first_won": bool(gap + rng.logistic() > 0.0)}
                visit("/answer", answer)
                answered += 1
                if rng.random() < 0.1:  # somebody clicks twice
                    twice += not visit("/answer", answer)["counted"]
            if n in (100, 200):
                os.kill(visit("/status")["worker"], signal.SIGKILL)
                kills += 1
            if n == 300:  # another version is deployed
                stop(service)
                service, _ = start(port, journal)
        workers = list(visit.workers().values())
    finally:
        stop(service)
    with sqlite3.connect(journal) as connection:
        (n_shown,) = connection.execute("select count(*) from duels").fetchone()
        (n_answers,) = connection.execute("select count(*) from answers").fetchone()
    connection.close()
    print(f"{n_shown} duels shown, {answered} answered late, {n_shown - answered} never; {twice} answers came twice")
    print(f"{kills} workers killed, the whole service once; {n_answers} answers in the journal")
    print(f"the two workers learned {workers[0]['learned']} and {workers[1]['learned']} answers")
    best = int(np.argmax(ITEMS @ np.array(workers[0]["theta"])))
    rank = int(np.sum(ITEMS @ TASTE > ITEMS[best] @ TASTE)) + 1
    print(f"both estimate item {best} to be the best; in truth it is number {rank} of {len(ITEMS)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve", help="serve until it is killed")
    serving.add_argument("--port", type=int, default=8080, help="of this machine; 0 for a free one [%(default)s]")
    serving.add_argument("--journal", default="answers.sqlite", help="SQLite file [%(default)s]")
    commands.add_parser("demo", help="play visitors of a service that is killed now and then")
    arguments = parser.parse_args()
    if arguments.command == "serve":
        serve(arguments.port, arguments.journal)
    else:
        with tempfile.TemporaryDirectory() as folder:
            demo(folder)
