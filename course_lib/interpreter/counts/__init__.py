"""The memory ledger: its books, and who fills them while a launch runs."""
