"""Check a built site: every link within it leads somewhere, and no page asks another host for anything."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, what it loads, and the places within it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See what a tag says."""
        said = {name: value or "" for name, value in attrs}
        self.places.update(said[name] for name in ("id", "name") if name in said)
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        elif tag == "link" and said.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(said["href"])
        elif tag in ("script", "img", "iframe", "source", "video", "audio") and said.get("src"):
            self.loads.append(said["src"])


def problems(site: Path) -> Iterator[str]:
    """Everything that is wrong with the site."""
    pages = {
        path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if "_static" not in path.parts
    }
    for path, page in pages.items():
        here = path.relative_to(site)
        yield from (f"{here} loads {url} from another host" for url in page.loads if urlsplit(url).netloc)
        for url in page.links + page.loads:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or url.startswith("data:"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            if not target.exists():
                yield f"{here} links to {url}, which is not there"
            elif target in pages and unquote(parts.fragment) not in pages[target].places:
                yield f"{here} links to {url}, and that page has no such place"


if __name__ == "__main__":
    found = sorted(set(problems(Path(sys.argv[1]).resolve())))
    sys.exit("\n".join(found) if found else 0)
