"""Tenantry: a content-management API with a database for every tenant."""
