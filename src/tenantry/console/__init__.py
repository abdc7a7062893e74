"""The web console: pages that are clients of the HTTP API, and what serves them."""
