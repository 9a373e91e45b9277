"""The page of all options agrees with the files of conf/."""

from helpers.builders import CONF
from options_page import PAGE, meaning_of, options, page, read_meanings


def test_the_page_in_docs_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_option_has_a_meaning() -> None:
    known = read_meanings()
    for file in CONF.rglob("*.yaml"):
        group = "" if file.parent == CONF else file.parent.name
        for option in options(file):
            if option.key != "name" and not option.key.startswith(("hydra", "defaults")):
                assert meaning_of(option, group, known), (file, option)


def test_options_keep_the_names_of_their_nodes(tmp_path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: 1  # one\nb:\n  c: x|y  # two\n  d:\n    e: [1, 2]\nf: 3\n")
    assert [tuple(o) for o in options(file)] == [
        *(("a", "1", "one"), ("b.c", "x|y", "two"), ("b.d.e", "[1, 2]", ""), ("f", "3", "")),
    ]
