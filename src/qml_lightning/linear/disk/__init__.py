"""Ridge regression with matrices that are larger than memory."""
