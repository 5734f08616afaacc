"""Runs what is in an example's README, as it is written there, on Flower's own engines."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from deployment import ROOT, environment

SECONDS = 300


def commands_of(example: str) -> list[list[str]]:
    """The lines of the walk-through on this machine."""
    text = (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```console\n(.*?)```", text, re.DOTALL).group(1)
    return [shlex.split(line.removeprefix("$ ")) for line in block.strip().splitlines()]


def script_of(example: str, section: str) -> str:
    """All lines of a section that are to be typed, as a script."""
    text = (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(
        r"```console\n(.*?)```", text.partition(f"\n## {section}\n")[2].partition("\n## ")[0], re.DOTALL
    )
    return "".join(re.sub(r"^\$ ", "", block, flags=re.MULTILINE) for block in blocks)


def simulate(example: str, folder: Path, home: Path, n_nodes: int | None = None, **config: object) -> str:
    """Run the walk-through after its set-up in a copy of the examples, or with so many nodes; gives what was said."""
    if not (folder / "examples").exists():
        shutil.copytree(ROOT / "examples", folder / "examples")
    here, said = folder, ""
    for command in commands_of(example):
        if command[0] == "cd":
            here = here / command[1]
        elif command[0] == "flwr":
            nodes = f"num-supernodes={n_nodes}" if n_nodes else r"\g<0>"
            written = [re.sub(r"num-supernodes=\d+", nodes, one) for one in command]
            said += run([*written, *_options(config)], here, home)
    return said


def run(command: list[str], here: Path, home: Path) -> str:
    done = subprocess.run(
        command, cwd=here, env=environment(home), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    said = re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)
    assert done.returncode == 0, said
    return said


def _options(config: dict[str, object]) -> list[str]:
    written = [f"{key.replace('_', '-')}={json.dumps(value)}" for key, value in config.items()]
    return ["--run-config", " ".join(written)] if written else []
