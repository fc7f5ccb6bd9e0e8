"""The computer: files, memory, processes and ranks, and what a fit may use of them."""
