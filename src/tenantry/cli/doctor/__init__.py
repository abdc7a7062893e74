"""`tenantry doctor`: checks of everything that a start needs."""
