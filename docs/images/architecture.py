"""Draw architecture.svg from the import contract in pyproject.toml: ``python docs/images/architecture.py``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
PICTURE = HERE / "architecture.svg"
PROJECT = HERE.parents[1] / "pyproject.toml"

WORDS = {
    "cli": "parse, call one function, render",
    "experiments": "the paper's tables and figures",
    "adapters": "Dask, Spark, Ray, Flower",
    "coordinator": "the server as a service",
    "baselines": "what k-FED is compared with",
    "federated": "one model per cluster, on PyTorch",
    "estimator": "scikit-learn's surface",
    "insight": "diagnosis and reports",
    "separation": "the theorem on data",
    "datasets": "data for simulations",
    "metrics": "cost and accuracy",
    "results": "tidy tables",
    "simulate": "a whole round on one machine",
    "site": "tables, and the file that a site keeps",
    "device": "Algorithm 1: points become a few centers",
    "server": "Algorithm 2: centers become clusters",
    "theory": "conditions, bounds and the certificate",
    "wire": "what is sent: the message, the answer, the feature schema",
    "_base": "checks, geometry, threads, random numbers, files",
    "errors": "every error that a caller can cause",
    "_version": "the version",
}
LEGEND = {
    "points": "works on data points",
    "both": "uses both sides, or neither",
    "sealed": "never sees a data point, and cannot import code that does",
}
WIDTH, MARGIN, GAP, BOX, STEP, TOP = 920, 20, 10, 46, 58, 52

STYLE = """
  text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .name { font-size: 15px; font-weight: 600 }
  .words { font-size: 12px }
  .title { font-size: 15px }
  rect { stroke-width: 1.5 }
  .paper { fill: #ffffff }
  .points { fill: #fff1e5; stroke: #bc4c00 }
  .sealed { fill: #ddf4ff; stroke: #0969da }
  .both { fill: #f6f8fa; stroke: #6e7781 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .paper { fill: #0d1117 }
    .points { fill: #3d1d0b; stroke: #f0883e }
    .sealed { fill: #0c2d4d; stroke: #58a6ff }
    .both { fill: #21262d; stroke: #8b949e }
  }
"""


def draw(project: Path = PROJECT) -> str:
    """Return the picture: one row for each layer, one box for each room, coloured by the privacy boundary."""
    contracts = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one.get("containers") == ["kfed"])
    boundary = next(one for one in contracts if "kfed.site" in one.get("forbidden_modules", ()))
    kinds = dict.fromkeys(boundary["source_modules"], "sealed") | dict.fromkeys(boundary["forbidden_modules"], "points")
    height = TOP + STEP * len(layers) + 34
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'role="img" aria-labelledby="title">',
            '<title id="title">The rooms of kfed in layers; a room uses rooms below it</title>',
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
            f'<text class="title" x="{MARGIN}" y="32">A room uses rooms below it, and none beside or above it.</text>',
            *(box for row, layer in enumerate(layers) for box in _row(TOP + STEP * row, layer, kinds)),
            *_legend(height - 22),
            "</svg>",
            "",
        ]
    )


def _row(y: int, layer: str, kinds: dict[str, str]) -> Iterator[str]:
    """Draw the rooms of a layer: those that work on points on the left, those that never see one on the right."""
    rooms = [(room, kinds.get(f"kfed.{room}", "both")) for room in layer.split(" | ")]
    rooms.sort(key=lambda room: list(LEGEND).index(room[1]))
    step = (WIDTH - 2 * MARGIN + GAP) / len(rooms)
    for position, (room, kind) in enumerate(rooms):
        x, width = round(MARGIN + position * step), round(step - GAP)
        yield f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{BOX}" rx="6"/>'
        yield f'<text class="name" x="{x + 12}" y="{y + 20}">{room}</text>'
        yield f'<text class="words" x="{x + 12}" y="{y + 37}">{escape(WORDS[room], quote=False)}</text>'


def _legend(y: int) -> Iterator[str]:
    x = MARGIN
    for kind, words in LEGEND.items():
        yield f'<rect class="{kind}" x="{x}" y="{y - 12}" width="20" height="14" rx="3"/>'
        yield f'<text class="words" x="{x + 28}" y="{y}">{words}</text>'
        x += 60 + 7 * len(words)


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
