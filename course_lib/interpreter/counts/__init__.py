"""Bytes, sectors and FLOPs that a launch requests. books.py says what is counted and holds it; accounting.py fills it."""
