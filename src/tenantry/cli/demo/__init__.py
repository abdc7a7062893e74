"""``tenantry demo``: sample tenants, a migration of all of them, and a server to explore."""
