"""How Ctrl-C ends the command, light enough to be imported before anything slow is."""

INTERRUPTED = 130
"""The exit code, as shells have it: 128 and the number of the signal."""

TOLD = "fastcolst: interrupted"
"""The line on standard error."""
