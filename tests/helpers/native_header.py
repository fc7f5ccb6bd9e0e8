"""The C header read as data: its functions with the types of their parameters, and its structs with their fields."""

from __future__ import annotations

import re

from places import ROOT

HEADER = ROOT / "native" / "include" / "qml_lightning.h"
# Types of the macros' parameters `real` and `wide`, by suffix.
TYPES = {"QML_KERNELS": ("f32", "f64"), "QML_PRODUCTS": ("f32", "f64", "mixed")}


def _text() -> str:
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL).replace("\\\n", "\n")


def _types(parameters: str) -> list[str]:
    """`const real *x, int64_t n` as ["real*", "int64"]; pointers to structs are "struct*"."""
    found = []
    for parameter in parameters.split(","):
        kind, stars = re.fullmatch(r"\s*(?:const )?(\w+)\s*(\**)\s*\w*\s*", parameter).groups()
        kind = "struct" if kind.startswith("qml_") else kind.removesuffix("_t")
        found.append(kind + ("*" if stars else ""))
    return found


def declared_functions() -> dict[str, list[str]]:
    """Types of the parameters of every function, by its whole name."""
    text, found = _text(), {}
    for macro, suffixes in TYPES.items():
        body = text[text.index(f"#define {macro}(") :].split("\n\n")[0]
        for name, parameters in re.findall(r"F\((\w+), suffix,\s*\(([^)]*)\)", body):
            found |= {f"qml_{name}_{suffix}": _types(parameters) for suffix in suffixes}
    for name, parameters in re.findall(r"^\w[\w ]*?[ *](qml_\w+)\(([^)]*)\);", text, flags=re.MULTILINE):
        found[name] = [] if parameters == "void" else _types(parameters)
    return found


def declared_structs() -> dict[str, list[tuple[str, str]]]:
    """(name, type) of every field, by the name of the struct; pointers are "void*"."""
    found = {}
    for fields, name in re.findall(r"typedef struct \{(.*?)\} (qml_\w+);", _text(), flags=re.DOTALL):
        found[name] = []
        for kind, stars, names in re.findall(r"\s*(?:const )?(\w+) ((?:\*|const )*)([\w, ]+);", fields):
            found[name] += [(one.strip(), "void*" if stars else kind.removesuffix("_t")) for one in names.split(",")]
    return found
