"""A sample of the campaign: see `campaign`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from campaign import PARTS
from campaign.calls import points, public
from campaign.tally import Campaign

import fastcolst

SHARE = 0.01


@pytest.mark.jit
@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_wrong_without_a_word(part: str, tmp_path: Path) -> None:
    for tally in importlib.import_module(f"campaign.{part}").run(Campaign(1, SHARE, tmp_path)):
        assert tally.tried > 0, tally.figure
        assert tally.failed == 0, str(tally)


def test_a_public_name_without_calls_fails_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    assert public() <= {point.name for point in points()}
    monkeypatch.setattr(fastcolst, "new", lambda argument: argument, raising=False)
    monkeypatch.setattr(fastcolst, "__all__", [*fastcolst.__all__, "new"])
    monkeypatch.setattr(fastcolst.UniformPairs, "method", lambda self, argument: argument, raising=False)
    missing = public() - {point.name for point in points()}
    assert missing == {"new", "UniformPairs.method"}
