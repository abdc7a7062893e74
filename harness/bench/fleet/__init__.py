"""The speed of migrate-all over a fleet, against the raw driver and against other tools."""
