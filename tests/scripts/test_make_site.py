"""The site has the pages of the repository, with links that work there."""

import base64
from pathlib import Path

import make_site


def test_links_lead_to_pages_of_the_site() -> None:
    pages = {
        Path("README.md"): Path("index.md"),
        Path("docs/a.md"): Path("a.md"),
        Path("docs/results/b.md"): Path("results/b.md"),
        Path("docs/images/c.png"): Path("images/c.png"),
    }
    text = (
        "[`a`](docs/a.md#there) ![map](docs/images/c.png) [code](scripts/x.py) [out](https://x.org)"
        "\n```\n[as it is](docs/a.md)\n```\n[here](#zoo) [b](docs/results/b.md)"
    )
    assert make_site.with_links_of_site(text, Path("README.md"), pages) == (
        "[`a`](a.md#there) ![map](images/c.png) code [out](https://x.org)"
        "\n```\n[as it is](docs/a.md)\n```\n[here](#zoo) [b](results/b.md)"
    )
    text = "[up](../../README.md) [beside](../a.md)"
    found = make_site.with_links_of_site(text, Path("docs/results/b.md"), pages)
    assert found == "[up](../index.md) [beside](../a.md)"
    link = make_site.with_links_of_site("[x](train.py#L1)", Path("README.md"), pages)
    assert link == "x"
    address = "https://example.org/a/b"
    link = make_site.with_links_of_site("[x](train.py#L1)", Path("README.md"), pages, address)
    assert link == "[x](https://example.org/a/b/blob/main/train.py#L1)"


def test_notebooks_and_examples_are_pages() -> None:
    pages = make_site.pages_of_site()
    text = "[n](notebooks/from-bahdanau-to-flash.ipynb) [e](examples/attention-plugin)"
    assert make_site.with_links_of_site(text, Path("docs/attention.md"), pages) == (
        "[n](notebooks/from-bahdanau-to-flash.md) [e](examples/attention-plugin.md)"
    )
    page = make_site.example_page(make_site.ROOT / "docs/examples/attention-plugin")
    assert "`pyproject.toml`:" in page and "class Sparsemax" in page


def test_a_notebook_becomes_a_page_with_its_outputs(tmp_path: Path) -> None:
    picture = base64.b64encode(b"PNG").decode()
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text $e^x$"]},
        {
            "cell_type": "code",
            "source": ["print(1)"],
            "outputs": [{"text": ["1\n"]}, {"data": {"image/png": picture}}],
        },
    ]
    text = make_site.notebook_page({"cells": cells}, tmp_path / "n.md")
    assert text == (
        "# Title\ntext `e^x`\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n"
        '<img alt="figure 1" src="n-1.png">\n'
    )
    assert (tmp_path / "n-1.png").read_bytes() == b"PNG"


def test_every_page_in_the_navigation_exists() -> None:
    pages = {page.as_posix() for page in make_site.pages_of_site().values()}
    config = (make_site.ROOT / "docs" / "site.toml").read_text(encoding="utf-8")
    named = {word for word in config.split('"') if word.endswith(".md")}
    assert named and named <= pages
    documents = {path.relative_to(make_site.ROOT / "docs") for path in make_site.documents()}
    assert not any("examples" in path.parts for path in documents)
