"""One tenant: the way in, and what can be done in its database."""
