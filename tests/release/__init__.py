"""Tests of what a release is, which need a package index: `make test-image` runs them."""
