"""Writes requirements.lock: the versions of constraints.txt with the SHA-256 of every file that PyPI has of them.

`make lock` runs it. torch is left out: pip takes it from where the machine keeps its CPU build (constraints.txt), whose
file differs from machine to machine, and `make setup` installs it by its version alone.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
WITHOUT_HASH = {"torch"}
OPENING = """# Made by `make lock` from constraints.txt: do not edit. `make setup` installs nothing else.
# torch is not listed: the CPU build comes from a file of the machine, which has another hash elsewhere (.ci/lock.py).
"""


def normal(name: str) -> str:
    """Name of a package as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(text: str) -> dict[str, str]:
    """Name → version."""
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def hashes(name: str, version: str) -> list[str]:
    """SHA-256 of all files of one version."""
    ask = urllib.request.Request(f"{INDEX}/{name}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(ask, timeout=60) as answer:
        files = re.findall(r'href="[^"]*?([^/"]+)#sha256=([0-9a-f]{64})"', answer.read().decode())
    opening = rf"{re.escape(name).replace(re.escape('-'), '[-_.]+')}-{re.escape(version)}(-|\.tar|\.zip)"
    found = [digits for file, digits in files if re.match(opening, file, re.IGNORECASE)]
    if not found:
        raise SystemExit(f"{INDEX} has no file of {name} {version}.")
    return sorted(set(found))


def main() -> None:
    versions = pinned((ROOT / "constraints.txt").read_text())
    blocks = []
    for name, version in sorted(versions.items()):
        if name not in WITHOUT_HASH:
            print(name, version, file=sys.stderr)
            lines = [f"{name}=={version}", *(f"    --hash=sha256:{digits}" for digits in hashes(name, version))]
            blocks.append(" \\\n".join(lines))
    (ROOT / "requirements.lock").write_text(OPENING + "\n".join(blocks) + "\n")


if __name__ == "__main__":
    main()
