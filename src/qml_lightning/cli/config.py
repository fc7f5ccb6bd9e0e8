"""Options of a command in a TOML file, read before the command line and written back beside the model."""

from __future__ import annotations

import difflib
import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from ..errors import InputError
from ..machine.files import write_atomically

# Options that a file cannot hold: they say how one run is told, not what it does.
NOT_KEPT = {"config", "as_json", "debug", "overwrite", "resume", "plan"}


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options of the file as defaults; the command line has the last word."""
    if path is None or context.resilient_parsing:
        return path
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise InputError(f"--config: {path} cannot be read as TOML ({problem}).") from problem
    known = {name for one in context.command.params if (name := one.name) is not None} - NOT_KEPT
    defaults: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known or isinstance(value, dict):
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else f" It takes {', '.join(sorted(known))}."
            raise InputError(f"{path}: {key} is no option of `{context.info_name}`.{hint}")
        # one source of data may stand without brackets
        defaults[name] = [value] if name == "data" and isinstance(value, str) else value
    context.default_map = {**(context.default_map or {}), **defaults}
    return path


Config = Annotated[
    Path | None,
    Option(
        "--config",
        callback=_read,
        is_eager=True,
        help="Read options from this TOML file, such as features = 4096; options on the command line win. All that "
        "were given are written beside the model, MODEL.toml.",
        metavar="FILE",
    ),
]


def path_beside(model: Path) -> Path:
    """File of the options of a model, in its folder."""
    return model.with_suffix(".toml")


def write_config(path: Path, context: typer.Context, *, overwrite: bool) -> None:
    """Write all options that were given, in the file or on the command line, so that --config repeats the run."""
    lines = [f"# qml-lightning {context.info_name} --config {path.name}"]
    for one in context.command.params:
        name, value = str(one.name), context.params.get(str(one.name))
        source = context.get_parameter_source(name)
        if name not in NOT_KEPT and value is not None and source is not None and source.name != "DEFAULT":
            lines.append(f"{name} = {_toml(value)}")
    write_atomically(path, ("\n".join(lines) + "\n").encode(), overwrite=overwrite)


def _toml(value: Any) -> str:
    """A value as TOML writes it: JSON does, but for paths."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml(one) for one in value)}]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
