"""Writes the pages that the site is made of into build/site: those of docs/, and a page for every public name and operator.

`make docs` runs this, then MkDocs (mkdocs.yml). Examples on the pages are those that the tests run (docs/inside/documentation.md).
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from reference import names, pages

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "site"


def write(path: Path, text: str) -> None:
    """Where the text is another: MkDocs' own server watches the files."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def written_pages() -> dict[str, str]:
    """docs/, and the pages at the root of the repository, by their place on the site."""
    docs = ROOT / "docs"
    found = {p.relative_to(docs).as_posix(): p.read_text() for p in docs.rglob("*.md")}
    found["index.md"] = (
        (ROOT / "README.md").read_text().replace("](docs/", "](").replace("(CHANGELOG.md)", "(changelog.md)")
    )
    found["changelog.md"] = (ROOT / "CHANGELOG.md").read_text().replace("](docs/", "](")
    contributing = (ROOT / "CONTRIBUTING.md").read_text().replace("](docs/", "](")
    found["contributing.md"] = contributing.replace("(CHANGELOG.md)", "(changelog.md)")
    return found


def linked_names(text: str, known: dict[str, names.Entry]) -> str:
    """The table of names, with links to the pages: `- `torch.nn`: `Linear`, ...` and the rows of modules."""

    def linked(line: re.Match) -> str:
        home = line[1].replace("torch", "tocha", 1)
        listed = re.sub(
            r"`(\w+)`",
            lambda n: f"[`{n[1]}`](../reference/{home}.{n[1]}.md)" if f"{home}.{n[1]}" in known else n[0],
            line[2],
        )
        return f"- `{line[1]}`: {listed}"

    def row(line: re.Match) -> str:
        home = line[1].replace("torch", "tocha", 1)
        return f"| [`{line[1]}`](../reference/{home}.md) |" if home in names.MODULES else line[0]

    text = re.sub(r"^\| `(torch[\w.]*)` \|", row, text, flags=re.M)
    return re.sub(r"^- `(torch[\w.]*)`: (.*)$", linked, text, flags=re.M)


def reference() -> dict[str, str]:
    """The generated pages, by their place on the site."""
    known = {e.name: e for e in names.entries()}
    found = {f"reference/{name}.md": pages.page(e, known) for name, e in known.items() if name not in names.MODULES}
    for home in names.MODULES:
        found[f"reference/{home}.md"] = pages.index(home, [e for e in known.values() if e.module == home], known)
    found["reference/operators.md"] = pages.operators_index(known)
    found["reference/index.md"] = pages.contents(known)
    return found


def main() -> int:
    generated, written = reference(), written_pages()
    known = {e.name: e for e in names.entries()}
    written["guide/names.md"] = linked_names(written["guide/names.md"], known)
    everything = {**generated, **written}
    for path in OUT.rglob("*.md"):
        if path.relative_to(OUT).as_posix() not in everything:
            path.unlink()
    for place, text in everything.items():
        write(OUT / place, text)
    for path in (ROOT / "docs").rglob("*"):
        if path.is_file() and path.suffix != ".md":
            target = OUT / path.relative_to(ROOT / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    print(f"{len(generated)} pages of reference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
