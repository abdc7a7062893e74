"""What makes parts of this repository out of others."""
