"""``python -m bench report [FOLDER]``: what a round costs, beside yardsticks, as Markdown, JSON and a picture."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # as pytest does: the modules of this folder are no package

from report import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
