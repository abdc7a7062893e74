"""The release of Tenantry that runs."""

from importlib.metadata import version

VERSION = version("tenantry")
"""As in the metadata of the installed package: `0.1.0`."""
