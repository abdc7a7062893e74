"""Servers, tenants and traffic, and what is tried on them: bench, prove, torture, cluster."""
