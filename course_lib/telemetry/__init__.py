"""What the driver says about a GPU: clocks, power, energy, memory, and what "utilisation" really is. Knows nothing else of the course."""
