"""A search for whatever is wrong without a word: hostile calls, damaged files, kills, Ctrl-C, threads, hard streams.

``cd tests && python -m campaign`` runs all of it, in less than half an hour, and prints a table: figure, tried, failed.
``python -m campaign calls files --seed 7 --share 0.1`` runs a tenth of two parts. `test_campaign.py` runs a sample.

Each part is a module with a function ``run(campaign)`` that yields tallies; see `campaign.tally`.
"""

PARTS: tuple[str, ...] = ("threads", "cells", "kills", "policies", "files", "cache", "interrupts", "calls", "streams")
