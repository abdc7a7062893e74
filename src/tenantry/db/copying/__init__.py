"""Copies of databases: the tables, rows and changes that are read, written and compared."""
