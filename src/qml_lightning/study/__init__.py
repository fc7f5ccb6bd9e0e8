"""Studies of many fits: learning curves, searches, and a check of labels."""
