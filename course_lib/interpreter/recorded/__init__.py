"""Launches written down where they run, replayed and counted in a clean process."""
