"""Criteria, verdicts and processes. Knows no exercise: `exercises` says what is asked, this says how it is judged."""
