"""Help pages: names of options beside their meaning, readable in a terminal of 80 columns."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

# Characters of a line, at most; and of the names of options, which go on below if they are longer.
WIDTH, NAMES = 110, 30


class Command(TyperCommand):
    """A command with such a page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _print(self, ctx)


class Group(TyperGroup):
    """The program itself: its page also lists the commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(Text(name, style="bold cyan"), _first_sentence(one.help)) for name, one in commands if one is not None]
        _print(self, ctx, ("Commands", rows))


def _print(command: Any, ctx: Any, *more: tuple[str, list[tuple[Text, Text]]]) -> None:
    to = Console(highlight=False)
    to.width = min(to.width, WIDTH)
    to.print(Padding(Text(command.get_usage(ctx)), 1), style="yellow")
    to.print(Padding(Text.from_markup(command.help or ""), (0, 1, 1, 1)))
    panels: dict[str, list[tuple[Text, Text]]] = {"Arguments": [], "Options": []}
    for one in command.get_params(ctx):
        if not getattr(one, "hidden", False):
            kind = "Options" if one.param_type_name == "option" else "Arguments"
            panels.setdefault(getattr(one, "rich_help_panel", None) or kind, []).append(_row(one, ctx))
    for title, rows in (*panels.items(), *more):
        if rows:
            table = Table.grid(padding=(0, 2, 0, 0))
            table.add_column(max_width=NAMES, overflow="fold")
            table.add_column()
            for row in rows:
                table.add_row(*row)
            to.print(Panel(table, title=title, title_align="left", border_style="dim"))


def _row(one: Any, ctx: Any) -> tuple[Text, Text]:
    """Names of an option or argument, and its meaning."""
    if one.param_type_name != "option":
        return Text(one.metavar or str(one.name).upper(), style="bold cyan"), _meaning(one)
    short, long = ([name for name in one.opts if name.startswith("--") == double] for double in (False, True))
    names = [*short, *(name.replace("--", "--[no-]", 1) if f"--no-{name[2:]}" in one.secondary_opts else name
                       for name in long)]  # fmt: skip
    names += [name for name in one.secondary_opts if not name.startswith("--no-")]
    text = Text(", ".join(names), style="bold cyan")
    return text.append(f" {value}", style="not bold yellow") if (value := _value(one, ctx)) else text, _meaning(one)


def _value(one: Any, ctx: Any) -> str:
    """A word for the value that an option takes; empty for a flag, which takes none."""
    if one.is_flag:
        return ""
    if one.metavar:
        return str(one.metavar)
    # of typer 0.2x and older
    text = one.display_type(ctx) if hasattr(one, "display_type") else one.make_metavar()
    return str(text).strip("<>[]").replace(" range", "").upper()


def _meaning(one: Any) -> Text:
    text = Text.from_markup(one.help or "")
    if one.required:
        return text.append(" [required]", style="red")
    if not one.show_default or one.default is None or one.default is False or callable(one.default):
        return text
    return text.append(f" [default: {'on' if one.default is True else one.default}]", style="dim")


def _first_sentence(help: str | None) -> Text:
    return Text.from_markup((help or "").partition("\n\n")[0])
