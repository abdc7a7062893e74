"""Many equal tenants of one catalog, with two pending revisions, which can be undone."""
