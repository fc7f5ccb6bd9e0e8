"""Screening of the training data: outliers are found by a small fit, judged, named, and dropped if that is wanted."""
