"""What is said over HTTP: requests and representations, named as on the wire."""
