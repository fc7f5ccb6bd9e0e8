"""The runner of all benchmarks, and what they share."""
