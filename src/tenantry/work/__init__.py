"""Durable work: one ledger, one lease, one runner. Each kind of work has a module elsewhere."""
