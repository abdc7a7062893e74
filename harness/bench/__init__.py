"""The speed and the memory of Tenantry, as ratios to what the machine can do."""
