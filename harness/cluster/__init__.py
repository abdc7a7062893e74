"""Outages of a whole installation: Patroni, etcd, HAProxy and PgBouncer below the service."""
