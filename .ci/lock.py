"""Writes requirements.lock: the versions of constraints.txt with the SHA-256 of every file that PyPI has of them.

`make lock` runs it. Packages of which PyPI has no wheel go to requirements-source.lock: they are built after all
others, by build tools that are among those. torch is left out: pip takes it from where the machine keeps its CPU build
(constraints.txt), whose file differs from machine to machine, and `make setup` installs it by its version alone.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
WITHOUT_HASH = {"torch"}
LOCKS = {True: "requirements.lock", False: "requirements-source.lock"}  # with wheels, without
OPENING = """# Made by `make lock` from constraints.txt: do not edit. `make setup` installs no other files.
# torch is not listed: the CPU build comes from a file of the machine, which has another hash elsewhere (.ci/lock.py).
"""


def normal(name: str) -> str:
    """Name of a package as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(text: str) -> dict[str, str]:
    """Name → version."""
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def hashes(name: str, version: str) -> dict[str, str]:
    """SHA-256 → file, of all files of one version."""
    ask = urllib.request.Request(f"{INDEX}/{name}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(ask, timeout=60) as answer:
        files = re.findall(r'href="[^"]*?([^/"]+)#sha256=([0-9a-f]{64})"', answer.read().decode())
    opening = rf"{re.escape(name).replace(re.escape('-'), '[-_.]+')}-{re.escape(version)}(-|\.tar|\.zip)"
    found = {digits: file for file, digits in files if re.match(opening, file, re.IGNORECASE)}
    if not found:
        raise SystemExit(f"{INDEX} has no file of {name} {version}.")
    return found


def main() -> None:
    versions = pinned((ROOT / "constraints.txt").read_text())
    blocks: dict[bool, list[str]] = {wheels: [] for wheels in LOCKS}
    for name, version in sorted(versions.items()):
        if name not in WITHOUT_HASH:
            print(name, version, file=sys.stderr)
            found = hashes(name, version)
            lines = [f"{name}=={version}", *(f"    --hash=sha256:{digits}" for digits in sorted(found))]
            blocks[any(file.endswith(".whl") for file in found.values())].append(" \\\n".join(lines))
    for wheels, file in LOCKS.items():
        (ROOT / file).write_text(OPENING + "\n".join(blocks[wheels]) + "\n")


if __name__ == "__main__":
    main()
