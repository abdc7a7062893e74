"""The types of requests and responses, with the names of the JSON members."""
