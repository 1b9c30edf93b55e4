"""One file for each measured claim; `labs bench NAME` runs it and writes benchmarks/results/DEVICE/NAME.json."""
