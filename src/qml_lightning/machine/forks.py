"""Forked processes: they compute with one thread, because the threads of OpenMP do not survive a fork."""

from __future__ import annotations

import os

import torch


def one_thread() -> None:
    """Let torch, and with it the native library, use one thread in this process."""
    torch.set_num_threads(1)


# A forked child has the parent's team of threads in its memory, but not the threads: the first parallel region would
# wait for them for ever.
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=one_thread)
