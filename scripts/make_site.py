"""Build the documentation site in site/ from docs/, with the README as its front page.

    pip install -e '.[site]' && python scripts/make_site.py      # or: make site

CONTRIBUTING, CHANGELOG and similar files become pages, too, and so do notebooks, with their
outputs, and the folders of docs/examples. If git knows an address of the repository, the site links
to it, and so does a link to a file that is not a page of the site, such as a script; otherwise such
a link becomes plain text. Any other dead link is an error.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE, SITE = ROOT / "build" / "site", ROOT / "site"
# Files outside of docs/, and their pages in the site.
PAPERS = {"README.md": "index.md", "data/README.md": "data-readme.md"}
PAPERS |= {name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


def main() -> None:
    pages = pages_of_site()
    repository = find_repository()
    shutil.rmtree(SOURCE, ignore_errors=True)
    for name, page in pages.items():
        place = SOURCE / "docs" / page
        place.parent.mkdir(parents=True, exist_ok=True)
        if page.suffix == ".md":
            text = with_links_of_site(read_page(ROOT / name, place), name, pages, repository)
            place.write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(ROOT / name, place)
    config = (ROOT / "docs" / "site.toml").read_text(encoding="utf-8")
    if repository:
        config = config.replace("[project]\n", f'[project]\nrepo_url = "{repository}"\n', 1)
    (SOURCE / "zensical.toml").write_text(config, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    if code := subprocess.call(command, cwd=SOURCE, env=environment):
        raise SystemExit(code)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(SOURCE / "site", SITE)
    print(f"{SITE / 'index.html'}")


def pages_of_site() -> dict[Path, Path]:
    """The path of each file, or folder of an example, in the repository, and in the site."""
    pages = {path.relative_to(ROOT): path.relative_to(ROOT / "docs") for path in documents()}
    pages |= {Path(name): Path(page) for name, page in PAPERS.items()}
    for pattern in ("notebooks/*.ipynb", "examples/*"):
        for path in sorted((ROOT / "docs").glob(pattern)):
            page = path.relative_to(ROOT / "docs")
            pages[path.relative_to(ROOT)] = page.with_name(page.stem + ".md")
    return pages


def find_repository() -> str:
    """The address of the repository, if git knows one for browsers; otherwise empty."""
    command = ["git", "config", "--get", "remote.origin.url"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return found.removesuffix(".git") if found.startswith("https://") else ""


def read_page(source: Path, place: Path) -> str:
    """The Markdown of a page; pictures of a notebook are written beside it."""
    if source.is_dir():
        return example_page(source)
    text = source.read_text(encoding="utf-8")
    return notebook_page(json.loads(text), place) if source.suffix == ".ipynb" else text


def example_page(folder: Path) -> str:
    """All files of an example, one after another."""
    parts = [f"# {folder.name}"]
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".toml", ".yaml", ".py") and (text := path.read_text(encoding="utf-8")):
            title = path.relative_to(folder).as_posix()
            parts.append(f"`{title}`:\n\n```{path.suffix[1:]}\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def notebook_page(notebook: dict[str, Any], place: Path) -> str:
    """The cells of a notebook, with what they printed and drew."""
    parts, pictures = [], 0
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            parts.append(f"```python\n{source}\n```")
        else:  # the site has no script that sets formulas
            parts.append(re.sub(r"\$([^$]+)\$", r"`\1`", source))
        for output in cell.get("outputs", []):
            if picture := output.get("data", {}).get("image/png"):
                pictures += 1
                file = place.with_name(f"{place.stem}-{pictures}.png")
                file.write_bytes(base64.b64decode(picture))
                parts.append(f'<img alt="figure {pictures}" src="{file.name}">')
            elif text := "".join(output.get("text", [])):
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def documents() -> list[Path]:
    """The pages and pictures in docs/, without the examples, which are code."""
    kinds = {".md", ".png", ".svg", ".css"}
    files = [path for path in sorted((ROOT / "docs").rglob("*")) if path.suffix in kinds]
    return [path for path in files if "examples" not in path.relative_to(ROOT / "docs").parts]


def with_links_of_site(text: str, name: Path, pages: dict[Path, Path], repository: str = "") -> str:
    """The text of a page, with links between files of the repository changed into links between
    pages of the site, or to the repository if it has an address.
    """
    here = pages[name].parent

    def rewrite(link: re.Match[str]) -> str:
        picture, label, target, anchor = link.groups(default="")
        if re.match(r"[a-z]+:", target):
            return link[0]
        path = Path(os.path.normpath(name.parent / target))
        page = pages.get(path)
        if page is None:
            address = f"{repository}/blob/main/{path.as_posix()}{anchor}"
            return f"{picture}[{label}]({address})" if repository else label
        return f"{picture}[{label}]({Path(os.path.relpath(page, here)).as_posix()}{anchor})"

    done, parts = 0, []
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(rewrite, text[done : fence.start()]), fence[0]]
        done = fence.end()
    return "".join([*parts, LINK.sub(rewrite, text[done:])])


if __name__ == "__main__":
    main()
