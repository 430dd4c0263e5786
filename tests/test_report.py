"""The report: what it says comes from the data, it holds every picture, and a browser fetches nothing for it."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fastcolst as fc
from fastcolst.cli import main
from fastcolst.paper.figures import pictures
from fastcolst.paper.page import _reproduction_page, write_report
from fastcolst.paper.parts import TARGETS, Settings, parts, timed_cells
from fastcolst.paper.reproduction import Results
from fastcolst.paper.tables import Table, claims_tables
from fastcolst.paper.verdicts import PROJECTED, verdicts
from fastcolst.paper.verdicts import outcome as sentences
from fastcolst.paper.widths import width_tables, width_verdicts
from fastcolst.plotting import new_figure

pytestmark = pytest.mark.either_lane

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
SETTINGS = Settings(horizon=4_000, runs=12, timed_runs=3)
FACTORS = {"CoLSTIM": 0.5, "MaxInP": 0.9}


def made_results(targets=TARGETS, factors=None, settings=SETTINGS) -> Results:
    """A reproduction whose numbers are made up: straight curves, CoLSTIM best, MaxInP slightly better than Random."""
    rng = np.random.default_rng(3)
    factors = {**FACTORS, **(factors or {})}
    there = {part.name: part for target in targets for part in parts(target, settings)}
    frames, seconds = {}, {}
    for name, part in there.items():
        rows = []
        for scenario in part.scenarios:
            T = part.horizon_of(scenario)
            for policy in part.policies:
                slope = 0.1 * factors.get(policy, factors.get(policy.partition(",")[0].partition("-")[0], 1.0))
                for run in range(part.runs):
                    for t in (T // 2, T):
                        regret = t * slope * (1.0 + 0.02 * rng.standard_normal())
                        rows.append((scenario, policy, run, t, regret, 0.5 * regret, 0))
        columns = ["scenario", "policy", "run", "round", "average_regret", "weak_regret", "self_duels"]
        frames[name] = pd.DataFrame(rows, columns=columns)
        seconds[name] = (
            frames[name].groupby(["scenario", "policy", "run"], sort=False).size().reset_index(name="seconds")
        )
    timings = {
        name: [
            {"policy": label, "run": run, "choosing": 1.0 + 0.1 * run, "learning": 0.5, "fused": 0.2 + 0.01 * run}
            for label in policies
            for run in range(settings.timed_runs)
        ]
        for target in targets
        for name, (_, _, policies) in timed_cells(target, settings).items()
    }
    return Results(
        settings=settings,
        targets=list(targets),
        parts=list(there.values()),
        frames=frames,
        seconds=seconds,
        timings=timings,
        machine={"python": "3"},
        walls=dict.fromkeys(there, 1.0),
    )


class Page(HTMLParser):
    """What a page refers to, its images, its tags."""

    def __init__(self, text):
        super().__init__()
        self.references, self.images, self.tags = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.references += [
            given[name] for name in ("src", "href", "srcset", "poster", "data", "action") if name in given
        ]
        if tag == "img":
            self.images.append(given)


@pytest.fixture(scope="module")
def html():
    results = made_results()
    return _reproduction_page(results, verdicts(results)).to_html()


def test_the_page_holds_every_panel_and_refers_to_nothing_outside(html):
    page = Page(html)
    assert len(page.images) == sum(len(picture.panels) for picture in pictures(made_results())) == 46
    assert all(image["src"].startswith("data:image/svg+xml;base64,") and image["alt"] for image in page.images)
    assert all(reference.startswith("data:") for reference in page.references)
    assert not {"script", "iframe", "object", "embed"} & set(page.tags)
    assert "url(" not in html and "@import" not in html


def test_the_style_of_the_page_comes_with_the_package_even_in_an_archive(html, tmp_path):
    package = Path(fc.__file__).parent
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", package.parent, package.name)
    program = "from fastcolst.paper.page import _Page; print(_Page('', [], [], [], [], []).to_html())"
    environment = {**os.environ, "PYTHONPATH": archive, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    (style,) = re.findall("<style>.*</style>", done.stdout, re.DOTALL)
    assert style in html and "@media (max-width: 760px)" in style


def test_the_page_says_what_the_paper_leaves_open(html):
    assert "The paper states no horizon" in html
    for text in ("T = 1,000", "T = 3,000", "T = 4,000", "With and without projection", "SGD(0.5)", "variance 5"):
        assert text in html


def told(results):
    return sentences(results.settings, verdicts(results))


def outcome(results, text):
    return [verdict.outcome for verdict in verdicts(results) if verdict.claim.text.startswith(text)]


def test_verdicts_turn_with_the_data():
    assert set(outcome(made_results(["figure1"]), "CoLSTIM is best")) == {"holds"}
    reversed_ = made_results(["figure1"], {"CoLSTIM": 1.2, "MaxInP": 0.4})
    assert set(outcome(reversed_, "CoLSTIM is best")) == {"does not hold"}
    assert set(outcome(reversed_, "MaxInP is only slightly")) == {"does not hold"}
    (table,) = claims_tables(verdicts(reversed_))
    assert "| does not hold |" in table.to_markdown()


def test_the_outcome_keeps_what_is_printed_apart_and_tells_when_nothing_was_learned():
    results = made_results(["figure1"], {"CoLSTIM": 1.2, "CoLSTIM, projected": 0.2})
    printed, projected = told(results)
    total = sum(v.claim.variant != PROJECTED for v in verdicts(results))
    assert printed.startswith(f"Of {total} claims about regret, ") and "projected onto the unit ball" in projected
    assert int(printed.split()[5]) == sum(
        v.outcome == "holds" and v.claim.variant != PROJECTED for v in verdicts(results)
    )
    short = told(made_results(["figure1"], settings=replace(SETTINGS, horizon=500)))
    assert short[-1].startswith("T is no longer than the exploration, n d = 500 rounds")
    assert told(made_results(["lower-bound"])) == []


def test_seconds_decide_about_seconds_alone(html):
    """Regret repeats with the seed, seconds never: no clock may change a verdict, or a p-value, on regret."""
    with_seconds, without = made_results(["figure1", "table1"]), made_results(["figure1"])
    found = verdicts(with_seconds)
    on_regret = [(v.outcome, v.p_value) for v in found if not v.claim.is_on_seconds]
    assert on_regret == [(v.outcome, v.p_value) for v in verdicts(without)]
    assert len(found) - len(on_regret) == 4
    assert [table.name for table in claims_tables(found)] == ["claims", "claims-on-seconds"]
    counted = told(with_seconds)[-1]
    assert counted.startswith("Of 4 claims about seconds, ") and counted.endswith(
        "another machine may decide otherwise."
    )
    assert counted.partition(",")[0] in html and "claims-on-seconds" in html


def test_targets_that_were_not_asked_for_are_not_shown():
    results = made_results(["sgd-vs-mle"])
    assert [picture.name for picture in pictures(results)] == ["sgd-vs-mle"]
    assert {v.claim.of for v in verdicts(results)} == {"regret", "spread"}


def test_tables_as_markdown_and_csv():
    table = Table("t", "", "", ("what", "value"), [("|x| <= 1", "1,000")])
    assert table.to_markdown() == "| what | value |\n| --- | --: |\n| \\|x\\| <= 1 | 1,000 |\n"
    assert list(csv.reader(table.to_csv().splitlines())) == [["what", "value"], ["|x| <= 1", "1,000"]]


@pytest.mark.long
def test_the_commands_write_figures_tables_and_the_page(tmp_path, capsys):
    out = tmp_path / "out"
    small = ["--runs", "2", "--horizon", "600", "--out", str(out), "--no-progress", "--threads", "1"]
    assert main(["reproduce", "misspecification", *small]) == 0
    printed = capsys.readouterr().out
    assert (
        "this command, report" in printed
        and "claims about regret, " in printed
        and printed.endswith(f"wrote {out / 'report.html'}\n")
    )
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {"figures/misspecification.png", "figures/misspecification.svg", "report.html"} <= names
    assert {"tables/claims.md", "tables/claims.csv", "tables/regret.csv", "tables/time.md"} <= names
    before = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").read_bytes() == before
    assert main(["reproduce", "misspecification", *small[2:], "--runs", "3"]) == 2
    assert "other settings: runs is 2 there, 3 here" in capsys.readouterr().err


def test_a_study_of_ones_own_has_a_report(tmp_path):
    study = fc.Study(
        policies={"A & <b>": fc.UniformPairs(), "CoLSTIM": {"name": "CoLSTIM", "estimator": "sgd"}},
        scenarios={
            "mine": fc.Scenario.easy(n_arms=4, n_features=2),
            "hard": {"name": "hard", "n_arms": 4, "n_features": 2},
            "real": fc.ScoredArms(np.random.default_rng(0).normal(size=(3, 4, 2)), np.eye(4)[:3]),  # fits no table
        },
        horizon=40,
        runs=2,
        checkpoints=4,
    )
    study.run(tmp_path, progress=False, threads=1)
    path = write_report(tmp_path)
    text = path.read_text()
    assert "A &amp; &lt;b&gt;" in text and "<b>" not in text
    assert len(Page(text).images) == 3 and "claims" not in text
    assert (tmp_path / "figures" / "regret.png").stat().st_size > 0
    study.run(tmp_path, progress=False)  # the report does not stand in the way of resuming


@pytest.mark.parametrize("content", ["{}", "[]", "null", "{", "[" * 10_000, '{"a":' * 10_000])
def test_a_damaged_manifest_is_one_error(tmp_path, capsys, content):
    (tmp_path / "reproduction.json").write_text(content)
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "is damaged" in error and error.count("\n") == 1


def test_a_folder_without_a_study_is_one_error(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# --- in a browser -------------------------------------------------------------------------------------------

PROBE = """<script>
addEventListener("load", () => {
  const images = [...document.images];
  const all = [...document.querySelectorAll("body *")];
  const wide = all.filter(e => e.getBoundingClientRect().right > innerWidth + 1);
  const texts = [...document.querySelectorAll("p, td, th, dd")];
  const report = document.createElement("pre");
  report.id = "probe";
  report.textContent = JSON.stringify({
    width: innerWidth, scroll: document.documentElement.scrollWidth, wide: wide.map(e => e.outerHTML.slice(0, 80)),
    images: images.length, drawn: images.filter(i => i.complete && i.naturalWidth > 0 && i.clientWidth > 200).length,
    fetched: performance.getEntriesByType("resource").map(e => e.name).filter(name => !name.startsWith("data:")),
    small: texts.filter(e => parseFloat(getComputedStyle(e).fontSize) < 12).length,
  });
  document.body.append(report);
});
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_draws_everything_and_fetches_nothing(html, tmp_path, width):
    """Headless Chromium's window is at least 500 pixels wide, so the page stands in a frame of the wanted width.

    Nothing waits for a clock: the page measures itself when it is loaded, the frame is loaded after it, and Chromium
    prints what is there then, however busy the machine is.
    """
    (tmp_path / "page.html").write_text(html.replace("</body>", PROBE), encoding="utf-8")
    frame = (
        f'<iframe src="page.html" style="width:{width}px;height:900px;border:0"></iframe><script>'
        'addEventListener("load", () => document.body.append('
        'document.querySelector("iframe").contentDocument.getElementById("probe")));</script>'
    )
    (tmp_path / "frame.html").write_text(frame, encoding="utf-8")
    log = tmp_path / "net.json"
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            f"--user-data-dir={tmp_path / 'profile'}", "--allow-file-access-from-files", "--window-size=1400,1000",
            f"--log-net-log={log}", "--dump-dom", (tmp_path / "frame.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-500:]
    probe = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert probe["width"] == width
    assert probe["images"] == probe["drawn"] == 46
    assert probe["scroll"] <= width and probe["wide"] == []
    assert probe["fetched"] == [] and probe["small"] == 0
    # Whatever the page asked for would stand in the browser's own log of requests with its address.
    asked = re.findall(r'"url":"(https?://[^"]+)"', log.read_text(encoding="utf-8", errors="replace"))
    own = ("google.com", "googleapis.com", "gstatic.com", "gvt1.com")  # what the browser asks for itself
    assert [url for url in asked if not any(name in url for name in own)] == []


# --- the scale of the widths --------------------------------------------------------------------------------


def test_a_rule_beats_another_by_runs_that_did_not_choose_its_constant():
    """A rival whose first twenty runs look best with a c that the other twenty show to be bad; and a better rule."""
    results = made_results(["width-scale"], settings=Settings(horizon=4_000, runs=40))
    ((name, frame),) = results.frames.items()
    regret, last = frame["average_regret"].copy(), frame["round"] == 4_000

    def cell(rule, share):
        return last & (frame["scenario"] == "easy") & (frame["policy"] == f"{rule}, {share:g} c, MLE")

    rng = np.random.default_rng(5)
    for rule, share in itertools.product(("CoLSTIM", "MaxInP", "MaxPairUCB"), (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2)):
        regret[cell(rule, share)] = 100.0 + rng.standard_normal(40)
    regret[cell("MaxInP", 1 / 4) & (frame["run"] < 20)] -= 30.0  # luck of the runs that choose
    regret[cell("MaxInP", 1 / 4) & (frame["run"] >= 20)] += 30.0
    regret[cell("MaxPairUCB", 1 / 8)] -= 10.0
    results = replace(results, frames={name: frame.assign(average_regret=regret)})
    found = {
        (v.bound.one.policy.partition(",")[0], v.claim.variant): v
        for v in width_verdicts(results)
        if v.bound.one.scenario == "easy"
    }
    outcomes = {key: v.outcome for key, v in found.items()}
    assert outcomes == {
        ("MaxInP", "the paper's c"): "not decided",
        ("MaxInP", "its own c"): "does not hold",
        ("MaxPairUCB", "the paper's c"): "not decided",
        ("MaxPairUCB", "its own c"): "holds",
    }
    assert {v.runs for v in found.values()} == {20}
    regrets, verdicts = width_tables(results)
    said = [row[1] for row in verdicts.rows if row[0] == "easy, its own c"]
    assert said == ["CoLSTIM beats MaxInP", "MaxPairUCB beats CoLSTIM"]
    own = {row[0]: row[2] for row in regrets.rows}
    c = math.sqrt(10 * math.log(4_000))
    assert own["MaxPairUCB, easy"] == f"{c / 8:.3g}" and own["MaxInP, easy"] == f"{c / 4:.3g}"


def test_the_panels_tell_the_scales_apart():
    (picture,) = pictures(made_results(["width-scale"]))
    ax = new_figure().add_subplot()
    picture.panels[0].draw(ax)
    c = math.sqrt(10 * math.log(4_000))
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == [f"{share * c:.3g}" for share in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2)]
