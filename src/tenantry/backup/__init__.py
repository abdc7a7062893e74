"""Copies of tenants: archives, restores and clones."""
