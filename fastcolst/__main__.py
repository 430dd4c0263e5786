"""Run the command line: ``python -m fastcolst``."""

import sys

from fastcolst.cli import main

sys.exit(main())
