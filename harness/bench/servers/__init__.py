"""Programs that are measured beside Tenantry, each in a process of its own."""
