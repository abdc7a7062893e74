"""What `tenantry serve` runs: the server, its processes, signals, and the port for metrics."""
