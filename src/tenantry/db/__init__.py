"""Any database, the catalog's or a tenant's: connections, servers, sessions, statements."""
