"""The report of a study: pictures, tables, and one HTML page that needs nothing but itself.

Pictures stand in the page as data, styles inside; there is no script and nothing to fetch. Each panel is a picture of
its own there, so that they stand side by side on a wide screen and below one another on a narrow one; the files in
``figures`` keep the arrangement of the paper.
"""

from __future__ import annotations

import base64
import html
import os
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastcolst._files import write_atomically
from fastcolst.experiments.studies import load_study
from fastcolst.paper.claims import HOLDS, OPEN, REFUTED
from fastcolst.paper.figures import Picture, draw_regret, pictures
from fastcolst.paper.parts import MODELS
from fastcolst.paper.reproduction import MANIFEST, Results, curves_of, load_results
from fastcolst.paper.tables import Table, claims_tables, cost_tables, horizons_table, mean_sd, regret_table, time_table
from fastcolst.paper.verdicts import outcome, verdicts
from fastcolst.paper.widths import width_tables
from fastcolst.plotting import Panel, panels_figure, picture_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastcolst.paper.claims import Verdict

__all__ = ["write_report"]


def write_report(out: str | os.PathLike[str], found: Sequence[Verdict] | None = None) -> Path:
    """Make pictures, tables and ``report.html`` from a folder that holds a reproduction or a study of one's own.

    Parameters
    ----------
    out : path
        What :func:`fastcolst.paper.reproduction.reproduce` or ``Study.run`` wrote to. Older pictures and tables of the
        same names are replaced.
    found : list of Verdict, optional
        What :func:`fastcolst.paper.verdicts.verdicts` says of the reproduction, where that is known already.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    OSError
        The folder is not there, holds no study, or cannot be written.
    """
    folder = Path(out)
    if (folder / MANIFEST).exists():
        results = load_results(folder)
        page = _reproduction_page(results, verdicts(results) if found is None else found)
    else:
        page = _study_page(load_study(folder), folder.resolve().name)
    for picture in page.pictures:
        _write_picture(picture, folder / "figures")
    for table in page.tables:
        _write_text(folder / "tables" / f"{table.name}.md", table.to_markdown())
        _write_text(folder / "tables" / f"{table.name}.csv", table.to_csv())
    path = folder / "report.html"
    _write_text(path, page.to_html())
    return path


@dataclass(frozen=True)
class _Page:
    title: str
    lead: list[str]
    facts: list[tuple[str, str]]
    tables: list[Table]
    pictures: list[Picture]
    order: list[str]  # names of tables and pictures, as they follow one another

    def to_html(self) -> str:
        style = resources.files("fastcolst.paper").joinpath("style.css").read_text("utf-8")
        sections = {table.name: _table_html(table) for table in self.tables}
        sections |= {picture.name: _picture_html(picture) for picture in self.pictures}
        lead = "\n".join(f"<p>{html.escape(text)}</p>" for text in self.lead)
        facts = "\n".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in self.facts)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<link rel="icon" href="data:,">\n'  # or a browser asks for favicon.ico
            f"<title>{html.escape(self.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
            f"<h1>{html.escape(self.title)}</h1>\n{lead}\n"
            + "\n".join(sections[name] for name in self.order)
            + f'\n<section id="settings"><h2>Settings</h2>\n<dl>\n{facts}\n</dl></section>\n</main>\n</body>\n</html>\n'
        )


def _reproduction_page(results: Results, found: Sequence[Verdict]) -> _Page:
    s = results.settings
    shown = pictures(results)
    tables = claims_tables(found)
    if "figure1" in results.targets and len(s.horizons) > 1:
        tables.append(horizons_table(results))
    tables += cost_tables(results)
    if any(part.problem in MODELS for part in results.parts):
        tables.append(regret_table(results))
    if "width-scale" in results.targets:
        tables += width_tables(results)
    tables.append(time_table(results))
    first = [table.name for table in tables if table.name.startswith("claims")]
    rest = [table.name for table in tables if not table.name.startswith("claims")]
    paper = (
        "Bengs, Saha and Hüllermeier (2022), Stochastic Contextual Dueling Bandits under Linear Stochastic "
        "Transitivity Models: their experiments, computed anew."
    )
    lead = [paper, *outcome(s, found)]
    facts = [
        ("horizon", f"{s.horizon:,}"),
        ("runs", str(s.runs)),
        ("seed", str(s.seed)),
        ("arms, features", f"{s.n_arms}, {s.n_features}"),
        ("constants", "tau = t0 = d n, c1 = C_thresh = eta = sqrt(d log T), p_t = min(1, d log(d T) / sqrt(t - tau))"),
        ("machine", ", ".join(f"{k} {v}" for k, v in results.machine.items())),
    ]
    facts += [(part.name, "; ".join(f"{k} = {v!r}" for k, v in part.policies.items())) for part in results.parts]
    order = [*first, *(picture.name for picture in shown), *rest]
    return _Page("The paper's experiments, reproduced", lead, facts, tables, shown, order)


def _study_page(loaded: Any, name: str) -> _Page:
    """A study of one's own: regret in every scenario, and the numbers at the end."""
    curves = curves_of(loaded.to_pandas())
    panels, rows = [], []
    for scenario in dict.fromkeys(where for where, _ in curves):
        here = {policy: curve for (where, policy), curve in curves.items() if where == scenario}
        title = f"{scenario}: cumulative average regret of {', '.join(here)}"
        panels.append(Panel(title, partial(draw_regret, here, scenario)))
        for policy, (rounds, average, weak) in here.items():
            numbers = (mean_sd(average[:, -1], 2), mean_sd(weak[:, -1], 2))
            rows.append((policy, scenario, f"{int(rounds[-1]):,}", str(len(average)), *numbers))
    head = ("policy", "scenario", "rounds", "runs", "average regret", "weak regret")
    table = Table("summary", "Regret at the end", "Mean (standard deviation) over the runs.", head, rows)
    caption = "Mean of the cumulative average regret over the runs; bands are one standard deviation."
    picture = Picture("regret", "Regret", caption, panels)
    facts = [
        *((key, str(loaded.settings[key])) for key in ("runs", "seed")),
        *((table["label"], _told(table)) for kind in ("policy", "scenario") for table in loaded.settings[kind]),
    ]
    return _Page(f"Study {name}", [], facts, [table], [picture], ["regret", "summary"])


def _told(table: dict[str, Any]) -> str:
    """A policy's or scenario's table in one line."""
    return ", ".join(f"{key} = {value!r}" for key, value in table.items() if key not in ("label", "checkpoints"))


def _picture_html(picture: Picture) -> str:
    panels = "\n".join(_image(panel) for panel in picture.panels)
    return (
        f'<section id="{picture.name}"><h2>{html.escape(picture.title)}</h2>\n<figure>\n'
        f'<div class="panels">\n{panels}\n</div>\n<figcaption>{html.escape(picture.caption)}</figcaption>\n'
        "</figure></section>"
    )


def _image(panel: Panel) -> str:
    data = base64.b64encode(picture_bytes(panels_figure([panel], 1), ".svg")).decode()
    return f'<img alt="{html.escape(panel.name)}" src="data:image/svg+xml;base64,{data}">'


def _table_html(table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.head)
    rows = "\n".join(_row_html(table.head, row) for row in table.rows)
    return (
        f'<section id="{table.name}"><h2>{html.escape(table.title)}</h2>\n<p>{html.escape(table.caption)}</p>\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></section>"
    )


def _row_html(head: Sequence[str], row: Sequence[str]) -> str:
    cells = [f'<th scope="row">{html.escape(row[0])}</th>']
    for name, text in zip(head[1:], row[1:], strict=True):
        mark = next((kind for kind in (REFUTED, OPEN, HOLDS) if text.startswith(kind)), None)
        kind = "" if mark is None else f' class="{mark.replace(" ", "-")}"'
        cells.append(f'<td data-name="{html.escape(name)}"{kind}>{html.escape(text)}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _write_picture(picture: Picture, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure = panels_figure(picture.panels, picture.columns)
    for extension in (".png", ".svg"):
        write_atomically(folder / f"{picture.name}{extension}", picture_bytes(figure, extension))


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
