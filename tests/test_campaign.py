"""A sample of the campaign: see `campaign`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from campaign import PARTS
from campaign.tally import Campaign

SHARE = 0.01


@pytest.mark.jit
@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_wrong_without_a_word(part: str, tmp_path: Path) -> None:
    for tally in importlib.import_module(f"campaign.{part}").run(Campaign(1, SHARE, tmp_path)):
        assert tally.tried > 0, tally.figure
        assert tally.failed == 0, str(tally)
