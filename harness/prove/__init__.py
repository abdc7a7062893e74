"""What Tenantry promises, shown on running processes: one scenario for each promise."""
