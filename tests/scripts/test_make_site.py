"""The site has the pages of the repository, with links that work there."""

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


def test_every_page_in_the_navigation_exists() -> None:
    pages = {str(path.relative_to(make_site.ROOT / "docs")) for path in make_site.documents()}
    pages |= set(make_site.PAPERS.values())
    config = (make_site.ROOT / "docs" / "site.toml").read_text(encoding="utf-8")
    named = {word for word in config.split('"') if word.endswith(".md")}
    assert named and named <= pages
    assert not any("examples" in Path(page).parts for page in pages)
