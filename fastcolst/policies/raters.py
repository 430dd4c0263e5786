"""Who gave an answer, as files and tables can hold it."""

from __future__ import annotations

from typing import Any

from fastcolst._checks import brief, can_be_written, plain_text, whole_number

__all__ = ["checked_rater"]


def checked_rater(rater: Any) -> str | int:
    """Who answered: a text or a whole number, as tables can hold them."""
    text = plain_text(rater)
    name = whole_number(rater) if text is None else text
    if name is None:
        raise ValueError(f"rater is {brief(rater)}; a text, a whole number or None is wanted")
    if text is not None and not can_be_written(text):
        raise ValueError(f"rater is {brief(rater)}, which UTF-8 cannot write; whole characters are wanted")
    if not isinstance(name, str) and not -(2**63) <= name < 2**63:
        raise ValueError(f"rater is {brief(rater)}; a whole number from -2^63 to 2^63 - 1, or a text, is wanted")
    return name
