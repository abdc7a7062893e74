"""What every door takes and tells: requests and representations, named as on the wire."""
