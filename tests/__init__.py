"""The tests: unit, integration on both kinds of database, acceptance, contracts."""
