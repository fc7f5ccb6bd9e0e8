"""The documentation site is built without a network, its links lead somewhere, and it asks nobody for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from browser import browser, chromium
from places import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` does; warnings are errors."""
    folder = tmp_path_factory.mktemp("site")
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "src") and value and tag in ("a", "img", "script", "link"):
                self.links.append(value)


def test_every_link_and_anchor_leads_somewhere(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 15
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"(mailto|data|https?):", target):
                continue
            there = (path.parent / target).resolve() if target else path
            there = there / "index.html" if there.is_dir() else there
            assert there.is_file(), f"{path.name} links to {link}"
            if anchor and there in pages and anchor != "__skip":
                assert anchor in pages[there].anchors, f"{path.name} links to {link}"


def test_no_page_shows_anything_from_elsewhere(site):
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="https?:', text), path.name


def test_the_reference_has_every_public_name(site):
    import qml_lightning

    text = (site / "reference.html").read_text(encoding="utf-8")
    for name in ("fit", "load_dataset", "evaluate", "Potential", "Dataset", "Recipe", "n_features", "memory_limit"):
        assert name in text
    for name in qml_lightning.__all__:
        assert name in text, f"{name} is public and not in the reference"


@pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")
def test_the_landing_page_opens_without_a_network(site, tmp_path):
    with browser(tmp_path) as tab:
        for width in (1280, 390):
            tab.open(site / "index.html", width=width)
            assert "QML-Lightning" in tab.value("document.querySelector('h1').textContent")
            assert tab.value("document.querySelector('article img').naturalWidth") > 300
            assert tab.value("document.documentElement.scrollWidth") <= width
        assert tab.problems == []
        assert not [address for address in tab.requests if not address.startswith("file:")]


@pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")
def test_search_works_without_a_server_and_colours_follow_the_system(site, tmp_path):
    with browser(tmp_path) as tab:
        for dark, scheme in ((True, "slate"), (False, "default")):
            tab.open(site / "train.html", dark=dark)
            tab.wait(f"document.body.getAttribute('data-md-color-scheme') === '{scheme}'")
        found = "[...document.querySelectorAll('.md-search-result__link')].map(a => a.href).join()"
        for _ in range(5):  # on a loaded machine, letters that come before the index is read are lost
            tab.open(site / "train.html")
            time.sleep(1.0)
            tab.value("document.querySelector('.md-search__input').focus()")
            for letter in "ridge":
                tab.call("Input.dispatchKeyEvent", type="char", text=letter)
            time.sleep(3.0)
            if "h=ridge" in tab.value(found):
                break
        told = "document.querySelector('.md-search-result__meta').textContent"
        assert "tune.html?h=ridge" in tab.value(found), (tab.value(told), tab.requests, tab.problems)
        assert "changelog" not in tab.value(found)
        assert tab.problems == []
