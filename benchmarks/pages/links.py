"""Links between pages of the repository."""

from __future__ import annotations

import os
from pathlib import Path


def link(page: Path, target: Path, text: str) -> str:
    """A Markdown link from a page to a file."""
    return f"[{text}]({Path(os.path.relpath(target, page.parent)).as_posix()})"
