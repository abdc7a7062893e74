"""One tenant: admission of callers, and operations in its database."""
