"""What the tests and the harness share: servers, programs, raw SQL, requests."""
