"""``make simulate``: interleave processes that share a catalog, by a seed, in virtual time.

The code is the product's own: workers, claims, outcomes, the ledger and the SQL of the catalog.
Simulated are the clock, the event loops, the disk and the tenants' databases.
"""
