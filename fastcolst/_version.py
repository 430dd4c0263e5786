"""The version, below everything: results and manifests name it, and the package itself shows it."""

__version__ = "0.1.0"
