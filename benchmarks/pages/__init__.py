"""Pages that are made from result files: docs/results.md, and tables in the README and other pages."""
