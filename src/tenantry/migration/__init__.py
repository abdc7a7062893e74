"""The migration of one database: its streams of revisions, how each is recorded and executed."""
