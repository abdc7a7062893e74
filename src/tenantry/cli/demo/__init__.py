"""``tenantry demo``: sample tenants to look at, migrated before one's eyes."""
