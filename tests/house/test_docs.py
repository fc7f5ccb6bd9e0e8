"""What README and docs say is true: their code runs, their links lead somewhere, their table is the measured one."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from places import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN, SHOWN = ("python", "sh"), ("text", "formula", "output")  # not "math", which GitHub reads as LaTeX
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
MAKE = re.compile(r"^\s*make\s+([\w-]+)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    code: str
    line: int  # of its first line of code


def _blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in FENCE.finditer(text)]


def _prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


pages = pytest.mark.parametrize("page", PAGES, ids=_name)


@pages
def test_every_block_is_run_or_marked_as_text(page):
    for block in _blocks(page):
        assert block.language in RUN + SHOWN, (
            f"{_name(page)}:{block.line}: mark it python or sh; formula, output or text is only shown"
        )


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if any(b.language in RUN for b in _blocks(page))], ids=_name)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in _blocks(page):
        if block.language == "python":
            # blank lines before: a traceback names the line of the page
            exec(compile("\n" * (block.line - 1) + block.code, _name(page), "exec"), namespace)
        elif block.language == "sh":
            _run_shell(page, block)


def _run_shell(page: Path, block: Block) -> None:
    code = MAKE.sub("true", block.code)  # the set-up is not made inside a test; that the target exists is tested below
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{_name(page)}:{block.line}\n{code}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pages
def test_commands_that_are_only_shown_could_be_given_so(page):
    """Their options exist, and none is missing. Files that they name need not exist."""
    import typer

    from qml_lightning.cli import app

    program = typer.main.get_command(app)
    shown = "\n".join(block.code for block in _blocks(page) if block.language in SHOWN)
    found = re.findall(r"^.*?qml[-_]lightning ((?:\S|[^\S\n])*)$", re.sub(r" *\\\n\s*", " ", shown), re.MULTILINE)
    found += re.findall(r"`qml-lightning ([^`]+)`", _prose(page))
    for line in found:
        line = re.sub(r'"?\$\w+"?', "1", line)  # variables of the shell
        words = shlex.split(re.split(r" {2,}|[|&>#]", line)[0].replace("…", ""))
        if not words or len(words) == 1 or words[0] not in program.commands or "--config" in words:
            continue  # a name or an example in a sentence
        try:
            program.commands[words[0]].make_context(words[0], words[1:])
        except (typer.Exit, SystemExit):
            pass
        except Exception as problem:
            raise AssertionError(f"{_name(page)}: qml-lightning {line}: {problem.format_message()}") from problem


@pages
def test_make_targets_that_a_page_names_exist(page):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {target for block in _blocks(page) if block.language == "sh" for target in MAKE.findall(block.code)}
    named |= set(re.findall(r"`make ([\w-]+)`", _prose(page)))
    assert named <= targets, f"the Makefile has no {', '.join(sorted(named - targets))}"


@pages
def test_links_inside_the_repository_lead_somewhere(page):
    for target in LINK.findall(_prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{_name(page)} links to {target}"
        if anchor:
            assert anchor in _anchors(there), f"{_name(page)} links to {target}, {there.name} has no such heading"


def _anchors(page: Path) -> set[str]:
    """Headings as GitHub turns them into anchors."""
    headings = re.findall(r"^#+\s+(.*)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_module_that_a_page_names_exists():
    package = ROOT / "src" / "qml_lightning"
    rooms = "|".join(sorted(path.name for path in package.iterdir() if (path / "__init__.py").is_file()))
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for name in re.findall(rf"`((?:{rooms})(?:/\w+)*)`", _prose(page)):
            there = package / name
            assert there.is_dir() or there.with_suffix(".py").is_file(), f"{_name(page)}: there is no module {name}"


def test_every_public_name_that_a_page_uses_exists():
    import qml_lightning

    for page in PAGES:
        for name in re.findall(r"\bqml\.(\w+)", page.read_text(encoding="utf-8")):
            assert hasattr(qml_lightning, name), f"{_name(page)}: qml_lightning has no {name}"
