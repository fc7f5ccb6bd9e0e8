"""Hyper-parameters chosen from the training data by smaller fits."""
