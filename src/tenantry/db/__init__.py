"""Any database, the catalog's or a tenant's: servers, sessions, statements, revisions."""
