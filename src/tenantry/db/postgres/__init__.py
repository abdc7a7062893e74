"""PostgreSQL: connections, its programs, and what its servers and roles can do."""
