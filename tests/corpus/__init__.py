"""A corpus of revisions: Tenantry does what plain Alembic does, or refuses and changes nothing."""
