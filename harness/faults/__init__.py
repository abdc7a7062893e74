"""Failures of the operating system: the n-th write, sync, rename or open of a command fails."""
