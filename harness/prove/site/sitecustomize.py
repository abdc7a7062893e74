"""Imported by Python before anything else when this folder is on its path: plants the faults."""

from harness.prove.plants import apply_from_environment

apply_from_environment()
