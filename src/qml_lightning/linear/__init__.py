"""Ridge regression from rows and targets, in memory, on disk or by iteration. Knows no atoms."""
