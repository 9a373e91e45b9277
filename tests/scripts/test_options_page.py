"""The page of all options, the files of conf/ and the classes that check them agree."""

from pathlib import Path

import pytest
import yaml
from helpers.builders import CONF
from options_page import PAGE, Option, bases, declared, options, page

from seq2seq.base.options import REQUIRED

FILES = sorted(CONF.rglob("*.yaml"))
DECLARED = declared()

every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CONF)))


def full_name(file: Path, option: Option) -> str:
    """The name of an option on the command line."""
    is_whole = file.parent == CONF or file.parent.name == "experiment"
    return option.key if is_whole else f"{file.parent.name}.{option.key}"


def test_the_page_in_docs_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_option_is_explained_somewhere() -> None:
    lines = [(full_name(file, option), option) for file in FILES for option in options(file)]
    explained = {name for name, option in lines if option.meaning} | {"data.train"}
    for name, _ in lines:
        if not name.startswith(("hydra.", "defaults")) and not name.endswith("name"):
            assert name in explained or name.rpartition(".")[0] in explained, name


@every_file
def test_a_comment_is_the_help_text_of_the_class(file: Path) -> None:
    """The rule for comments in conf/: the comment of an option is the help text of its class. Where
    the value is not the default, the comment may say why instead. A file that builds on another,
    or on all groups, needs none.
    """
    for option in options(file):
        field = DECLARED.get(full_name(file, option))
        if field is None or option.key == "name":
            continue
        meaning = field.metadata["option"].help
        is_open = field.default is REQUIRED or option.value.startswith(("${", "???"))
        is_default = not is_open and yaml.safe_load(option.value) == field.default
        if option.meaning == meaning:
            assert is_open or is_default, f"{option}: say why the value is another"
        elif option.meaning:
            assert not is_default, f"{option} should say: {meaning}"
        else:
            assert bases(file) or file.parent.name == "experiment", f"{option} is not explained"


def test_a_file_names_those_that_it_builds_on(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    lines = ("defaults:", "  - a  # why", "  - b@elsewhere", "  - override /c: d", "  - _self_")
    file.write_text("\n".join(lines))
    assert bases(file) == [tmp_path / "a.yaml"]


def test_options_keep_the_names_of_their_nodes(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: 1  # one\nb:\n  c: x|y  # two\n  d:\n    e: [1, 2]\nf: 3\n")
    assert [tuple(o) for o in options(file)] == [
        *(("a", "1", "one"), ("b.c", "x|y", "two"), ("b.d.e", "[1, 2]", ""), ("f", "3", "")),
    ]
