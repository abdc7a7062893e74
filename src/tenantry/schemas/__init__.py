"""The types of requests and responses, with the names of their JSON members."""
