"""Generators and checks of this repository."""
