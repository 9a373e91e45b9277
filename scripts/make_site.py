"""Build the documentation site in site/ from docs/, with the README as its front page.

    pip install -e '.[site]' && python scripts/make_site.py      # or: make site

CONTRIBUTING, CHANGELOG and similar files become pages, too. A link to a file that is not a page of
the site, such as a script, becomes plain text. Any other dead link is an error.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE, SITE = ROOT / "build" / "site", ROOT / "site"
# Files outside of docs/, and their pages in the site.
PAPERS = {"README.md": "index.md", "data/README.md": "data-readme.md"}
PAPERS |= {name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


def main() -> None:
    pages = {path.relative_to(ROOT): path.relative_to(ROOT / "docs") for path in documents()}
    pages |= {Path(name): Path(page) for name, page in PAPERS.items()}
    shutil.rmtree(SOURCE, ignore_errors=True)
    for name, page in pages.items():
        place = SOURCE / "docs" / page
        place.parent.mkdir(parents=True, exist_ok=True)
        if name.suffix == ".md":
            text = (ROOT / name).read_text(encoding="utf-8")
            place.write_text(with_links_of_site(text, name, pages), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / name, place)
    shutil.copyfile(ROOT / "docs" / "site.toml", SOURCE / "zensical.toml")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    if code := subprocess.call(command, cwd=SOURCE, env=environment):
        raise SystemExit(code)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(SOURCE / "site", SITE)
    print(f"{SITE / 'index.html'}")


def documents() -> list[Path]:
    """The pages and pictures in docs/, without the examples, which are code."""
    kinds = {".md", ".png", ".svg"}
    files = [path for path in sorted((ROOT / "docs").rglob("*")) if path.suffix in kinds]
    return [path for path in files if "examples" not in path.relative_to(ROOT / "docs").parts]


def with_links_of_site(text: str, name: Path, pages: dict[Path, Path]) -> str:
    """The text of a page, with links between files of the repository changed into links between
    pages of the site.
    """
    here = pages[name].parent

    def rewrite(link: re.Match[str]) -> str:
        picture, label, target, anchor = link.groups(default="")
        if re.match(r"[a-z]+:", target):
            return link[0]
        page = pages.get(Path(os.path.normpath(name.parent / target)))
        if page is None:
            return label
        return f"{picture}[{label}]({Path(os.path.relpath(page, here)).as_posix()}{anchor})"

    done, parts = 0, []
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(rewrite, text[done : fence.start()]), fence[0]]
        done = fence.end()
    return "".join([*parts, LINK.sub(rewrite, text[done:])])


if __name__ == "__main__":
    main()
