"""Commands that are killed or stopped at random moments, and what must be true afterwards."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from cases import DATA, FAST, PROPERTIES, Verdict

# Commands in a folder with the victims. Each would replace files that are there.
COMMANDS = {
    "update": ["update", "m.safetensors", "ethanol:train@12:20", "--equations", "m.eq", "--no-label-check"],
    "train over a model": ["train", DATA, "-m", "m.safetensors", "--equations", "m.eq", "--overwrite",
                           "--checkpoint-seconds", "0", *FAST],
    "merge": ["merge", "m.eq", "m.eq", "-o", "both.eq", "--overwrite", "--repeated"],
    "properties": [*PROPERTIES, "-m", "p.safetensors", "--overwrite"],
    "predict": ["predict", "m.safetensors", "d.extxyz", "-o", "in.extxyz", "--overwrite"],
    "tune with 2 processes": ["tune", "ethanol:train@0:20", "-o", "r.json", "--overwrite", "--jobs", "2", "--features",
                              "64", "--rank", "32", "--try", "features.sigma=4,8,16,32", "--no-label-check"],
}  # fmt: skip
# tune starts processes of its own, which takes long: it is stopped now and then.
EVERY = 5


def kill_cases(victims: Path, folder: Path, kills: int, terms: int, seed: int) -> list[Verdict]:
    """Verdicts on commands that get SIGKILL or SIGTERM at moments drawn by the seed."""
    server, verdicts = Server(), []
    quick = [name for name in COMMANDS if not name.startswith("tune")]
    took = {name: _seconds_of(name, server, _copy(victims, folder / f"timed {name}")) for name in quick}
    took["tune with 2 processes"] = 20.0
    for number in range(kills + terms):
        chance = random.Random(f"{seed} kill {number}")
        how = signal.SIGKILL if number < kills else signal.SIGTERM
        name = "tune with 2 processes" if number % EVERY == EVERY - 1 and number >= kills else chance.choice(quick)
        here = _copy(victims, folder / f"kill{number}")
        code, said, _ = server.run(COMMANDS[name], here, chance.uniform(0.0, 1.05 * took[name]), int(how))
        wrong = _wrong(name, how, code, said, here, server)
        outcome = "lost" if wrong else "had ended before" if code == 0 else "unharmed"
        verdicts.append(Verdict(f"{how.name}: {name}", f"kill {number}", outcome, f"{wrong}\nexit code {code}: {said}"))
        shutil.rmtree(here)
    server.end()
    return verdicts


def _seconds_of(name: str, server: Server, folder: Path) -> float:
    """Seconds of a command that nothing stops."""
    code, said, seconds = server.run(COMMANDS[name], folder, None, 9)
    if code != 0:
        raise SystemExit(f"{name} ends with {code} by itself: {said}")
    return seconds


def _copy(victims: Path, folder: Path) -> Path:
    return Path(shutil.copytree(victims, folder))


class Server:
    """A process that has loaded everything and computed nothing: its forks are commands that begin at once."""

    def __init__(self) -> None:
        program = [sys.executable, str(Path(__file__).with_name("kill_server.py"))]
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, command: list[str], folder: Path, seconds: float | None, number: int) -> tuple[int, str, float]:
        """Exit code (−n: killed by signal n), what was said, and seconds; the signal comes after `seconds`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        task = {"command": command, "folder": str(folder), "seconds": seconds, "signal": number}
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["code"], answer["said"], answer["took"]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def _wrong(name: str, how: signal.Signals, code: int, said: str, folder: Path, server: Server) -> str:
    """The first thing that is not as it should be; empty if all is well."""
    # −15: the signal came before the command had begun
    stopped = {signal.SIGKILL: (-9, 0), signal.SIGTERM: (143, -15, 0)}[how]
    if code not in stopped:
        return f"ended with {code}, not one of {stopped}"
    if code == 143 and "Stopped by SIGTERM" not in said:
        return "no word about the signal"
    if how is signal.SIGTERM and (left := [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]):
        return f"temporary files are left: {left}"
    if left := _processes_in(folder):
        return f"processes are left: {left}"
    counts = []
    for file in ("m.eq", "m.safetensors", "both.eq"):
        done, output, _ = server.run(["info", file, "--json"], folder, None, 9)
        if done != 0:
            return f"{file} is lost: {output}"
        header = json.loads(output)
        counts.append(header.get("structures") or header["provenance"]["structures"])
    if name == "update" and counts[0] != counts[1]:
        return f"equations of {counts[0]} structures, model of {counts[1]}"
    if name == "train over a model" and (folder / "m.safetensors.checkpoint").exists():
        again, output, _ = server.run([*COMMANDS[name], "--resume"], folder, None, 9)
        if again != 0:
            return f"the checkpoint cannot be resumed: {output}"
    model = "p.safetensors" if name == "properties" else "m.safetensors"
    again = server.run(["predict", model, "in.extxyz", "-o", "again.extxyz"], folder, None, 9)
    return "" if again[0] == 0 else f"it cannot predict any more: {again[1]}"


def _processes_in(folder: Path) -> list[int]:
    """Living processes whose working folder is `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                found += [] if state == "Z" else [int(entry.name)]
        except OSError:
            continue
    return found
