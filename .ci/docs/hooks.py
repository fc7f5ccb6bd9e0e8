"""The documentation site: README as its landing page, files beside the pages, and the reference of the public names.

mkdocs calls these functions (`hooks` in mkdocs.yml). Pages link to files of the repository; here the links are turned
to copies inside the site, so that it works without a network.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
from reference import reference  # of this folder

ROOT = Path(__file__).parents[2]
# File of the repository → page of the site.
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
# Head of a page that search leaves out: it has every word, and would come first for all of them.
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"
# Folder of the repository → folder of the site, for files that pages link to or show.
FOLDERS = {"benchmarks/figures": "figures", "benchmarks/results": "results"}
# Style of the site, and a script that lets its search work without a server.
ASSETS = ("site.css", "iframe-worker.js")
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages and files from other folders of the repository."""
    for source, name in PAGES.items():
        head = UNSEARCHED if name == "changelog.md" else ""
        files.append(File.generated(config, name, content=head + (ROOT / source).read_text(encoding="utf-8")))
    for folder, name in FOLDERS.items():
        for path in sorted((ROOT / folder).iterdir()):
            if path.suffix in (".png", ".json"):
                files.append(File.generated(config, f"{name}/{path.name}", abs_src_path=str(path)))
    for name in ASSETS:
        files.append(File.generated(config, f"assets/{name}", abs_src_path=str(Path(__file__).parent / name)))
    files.append(File.generated(config, "LICENSE.txt", abs_src_path=str(ROOT / "LICENSE")))
    files.append(File.generated(config, "reference.md", content=reference()))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository as links inside the site. Code is left as it is."""
    names = {target: source for source, target in PAGES.items()}
    here = ROOT / names.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(lambda m: _turned(m, here), part) for part in parts)


def _turned(match: re.Match[str], page: Path) -> str:
    words, target = match[1], match[2]
    path, mark, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", target):
        return match[0]
    where = (page.parent / path).resolve().relative_to(ROOT).as_posix()
    if where in PAGES:
        found = PAGES[where]
    elif where.startswith("docs/"):
        found = where.removeprefix("docs/")
    elif where == "LICENSE":
        found = "LICENSE.txt"
    else:
        folder = next((one for one in FOLDERS if where.startswith(f"{one}/")), None)
        if folder is None:  # code and folders are not part of the site
            named = words[1:-1].strip("`") in (where, Path(where).name)
            return f"`{where}`" if named else f"{words[1:-1]} (`{where}`)"
        found = f"{FOLDERS[folder]}{where.removeprefix(folder)}"
    return f"{words}({found}{mark}{anchor})"


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """The page for addresses that do not exist, with links that lead somewhere without a server, too."""
    if template_name != "404.html":
        return output_content
    return re.sub(r'((?:href|src)=")/(?!/)', r"\1", output_content).replace('href=""', 'href="index.html"')
