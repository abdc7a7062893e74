"""Random interleavings of those who write and read the same posts."""
