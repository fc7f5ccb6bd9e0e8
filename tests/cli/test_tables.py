"""Tables in a terminal of the usual width: no word is broken where it has no hyphen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

SHOWN = """
from qml_lightning.cli.screen import show
from qml_lightning.cli.tables import choice_table

def trial(representation, sigma, rank, weight, apart):
    return {"representation": representation, "sigma": sigma, "rank": rank, "energy_weight": weight,
            "class_spread": apart, "ridge": 1e-9, "size": {"structures": 80, "n_features": 2048}, "score": sigma,
            "errors": {"energies": 0.01, "forces": 0.05, "stress": 0.001}}

trials = [trial("density", 8.0, 128, 30.0, 0.0), trial("energies-and-forces", 22.6, 256, 100.0, 1.5)]
judges = {"structures": 20, "more_energies": 40}
show(*choice_table({"best": trials[0], "trials": trials, "judges": judges, "chosen": ["sigma"]}))
"""


def in_a_terminal(code: str, columns: int) -> str:
    """Output of a program in a terminal of so many columns, without colours."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", code], stdin=its, stdout=its, stderr=its, env=environment)
    os.close(its)
    text = b""
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:  # the other end was closed
            break
        if not read:
            break
        text += read
    os.close(ours)
    assert process.wait() == 0, text.decode()
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text.decode()).replace("\r", "")


def test_the_trials_of_a_choice_fit_in_80_columns_with_whole_words():
    text = in_a_terminal(SHOWN, 80)
    assert max(map(len, text.split("\n"))) <= 80
    assert {"represen-", "tation", "bonds", "apart", "weight", "density", "energies-", "and-forces", "1.0e-09"} <= set(
        text.split()
    ), text
