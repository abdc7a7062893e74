"""What tests, benchmarks, torture and prove share: servers, programs, raw SQL, requests."""
