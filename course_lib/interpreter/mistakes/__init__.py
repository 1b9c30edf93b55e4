"""What a launch may touch, what it may not, and how that is told."""
