"""Draw one-round.svg, the picture that explains k-FED: `python docs/images/one_round.py`."""

from __future__ import annotations

from pathlib import Path

COLORS = {"blue": "#2f6690", "orange": "#d1603d", "green": "#3a7d44", "violet": "#7b5ea7"}
SITES = {
    "north": (("blue", 14), ("orange", 9)),
    "south": (("orange", 8), ("green", 12)),
    "east": (("green", 9), ("violet", 11)),
}
"""The groups of each site, and how many rows of each are drawn."""

SPOTS = [
    (0, 0),
    (9, -6),
    (-8, -7),
    (5, 8),
    (-6, 7),
    (13, 4),
    (-13, 1),
    (1, -13),
    (-2, 14),
    (10, -15),
    (-11, -13),
    (15, 12),
]
SPOTS += [(-15, 9), (17, -7)]
STYLE = "text{font:14px sans-serif;fill:#333}.note{fill:#666;font-size:12px}.box{fill:#fff;stroke:#bbb;rx:10}"


def dots(x: float, y: float, color: str, n: int) -> str:
    """A cloud of rows."""
    return "".join(f'<circle cx="{x + a}" cy="{y + b}" r="2.6" fill="{COLORS[color]}"/>' for a, b in SPOTS[:n])


def diamond(x: float, y: float, color: str) -> str:
    """A center."""
    return f'<path d="M{x} {y - 9}L{x + 9} {y}L{x} {y + 9}L{x - 9} {y}Z" fill="{COLORS[color]}" stroke="#fff"/>'


def arrow(x1: float, y1: float, x2: float, y2: float, dashed: bool = False) -> str:
    """A line with a head."""
    how = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<path d="M{x1} {y1}L{x2} {y2}" stroke="#777" fill="none" marker-end="url(#head)"{how}/>'


def picture() -> str:
    """The whole drawing."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 372" role="img" aria-label="One round of k-FED">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto">',
        '<path d="M0 0L9 4L0 8Z" fill="#777"/></marker></defs>',
        '<rect width="820" height="372" rx="14" fill="#fafafa"/>',
        '<rect class="box" x="330" y="70" width="170" height="232" rx="10"/><text x="415" y="96" text-anchor="middle">server</text>',
    ]
    for i, (site, groups) in enumerate(SITES.items()):
        y = 28 + 108 * i
        parts.append(
            f'<rect class="box" x="24" y="{y}" width="176" height="94" rx="10"/><text x="36" y="{y + 20}">{site}</text>'
        )
        parts.append(
            f'<rect class="box" x="630" y="{y}" width="166" height="94" rx="10"/><text x="642" y="{y + 20}">{site}</text>'
        )
        parts.append(
            arrow(204, y + 47, 326, 186 + 30 * (i - 1)) + arrow(504, 186 + 30 * (i - 1), 626, y + 47, dashed=True)
        )
        for g, (color, n) in enumerate(groups):
            parts.append(dots(72 + 78 * g, y + 60, color, n) + diamond(236 + 24 * g, y + 30 + 24 * (1 - i) + 12, color))
            parts.append(dots(680 + 70 * g, y + 60, color, n))
    for i, color in enumerate(COLORS):
        x, y = 372 + 86 * (i % 2), 150 + 76 * (i // 2)
        parts.append(f'<circle cx="{x}" cy="{y}" r="27" fill="none" stroke="{COLORS[color]}" stroke-dasharray="3 3"/>')
        holders = sum(color == own for groups in SITES.values() for own, _ in groups)
        parts += (
            [diamond(x - 8, y - 3, color), diamond(x + 9, y + 4, color)] if holders == 2 else [diamond(x, y, color)]
        )
    for x, line in (
        (112, "rows stay here"),
        (265, "a few centers, once"),
        (415, "groups the centers"),
        (565, "which group each is"),
        (713, "every row labelled"),
    ):
        parts.append(f'<text class="note" x="{x}" y="358" text-anchor="middle">{line}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_name("one-round.svg").write_text(picture(), encoding="utf-8")
