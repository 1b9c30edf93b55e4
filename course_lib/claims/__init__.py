"""The roadmap's claims as data: what it says, whether that holds, and the check that shows it."""
