"""What makes sense on one engine alone."""

import pytest

on_postgresql = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
on_sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
