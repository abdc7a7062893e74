"""What else migrates a fleet, each driven as its own users drive it."""
