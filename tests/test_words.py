"""The words of the package: names that say what they name, docstrings that begin with it.

Four counts of what a reader stumbles over. None may rise, and one that has fallen is written down
here, so that it stays where it is.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "seq2seq"
TREES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}

HELD = {
    "names with two homes": 0,
    "functions named by participles": 0,
    "docstrings that open with a question": 0,
    "unpacked literals": 0,
}

# One verb for each command, protocol or format is a convention: the module says which one it is.
CONVENTIONS = {
    *("main", "run", "add_arguments", "export", "translate", "languages", "start", "serve"),
}
# They end like participles and are verbs, nouns or terms of the field.
NO_PARTICIPLES = {
    *("read", "seed", "feed", "embed", "need", "speed", "bleed", "listen", "open", "segment"),
    *("part", "spread", "token", "beam", "head", "heads", "thread", "children", "given_names"),
    *("gated", "padded_length", "embedded", "hidden", "len", "gen", "when", "then", "often"),
}
PARTICIPLE = re.compile(
    r"_*(?:[a-z]+ed|[a-z]+(?:tt|k|s|z|v|r)en|found|kept|made|held|told|shown|known|drawn|grown|"
    r"given|taken|written|chosen|hidden|spoken|heard|built|sent|spent|left|lost|meant|paid|"
    r"put_off|said|sold|bought|brought|caught|thought|bound|wound|alone)(?:_[a-z0-9_]+)?"
)
# An adjective of the field before a noun: `masked_fill` says more than `fill`.
TERM = re.compile(
    r"_*(?:read|open|seed|feed|embed|segment|spread|listen|token|head|masked|paged|gated|packed|"
    r"fused|shared|weighted|smoothed)_"
)
# A docstring names the thing, or commands; unless it asks what a caller asks: "Is it there?"
QUESTION = re.compile(
    r"(?:What|Whether|Where|How|Which|Who|Why|When|Those|That which|All that)\b(?![^.]*\?)"
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def names_with_two_homes(trees: dict[str, ast.Module]) -> list[str]:
    """Functions and classes that several modules define on their level."""
    homes = defaultdict(list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name not in CONVENTIONS:
                homes[node.name].append(path)
    return [f"{name}: {', '.join(paths)}" for name, paths in homes.items() if len(paths) > 1]


def functions_named_by_participles(trees: dict[str, ast.Module]) -> list[str]:
    """Functions whose names read like values: a function does something. Properties are values."""
    return [
        f"{path}: {node.name}"
        for path, node in nodes(trees)
        if isinstance(node, FUNCTIONS)
        and PARTICIPLE.fullmatch(node.name)
        and not TERM.match(node.name)
        and node.name.strip("_") not in NO_PARTICIPLES
        and not decorators(node) & {"property", "cached_property", "setter"}
    ]


def docstrings_that_ask(trees: dict[str, ast.Module]) -> list[str]:
    """Docstrings that say "What is cached by" for "The cache key"."""
    found = []
    for path, node in nodes(trees):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Module)):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if QUESTION.match(first):
                found.append(f"{path}: {getattr(node, 'name', 'the module')}: {first}")
    return found


def unpacked_literals(trees: dict[str, ast.Module]) -> list[str]:
    """Literals that are unpacked where they stand, `*("a", "b")`: a way to pack lines."""
    found = []
    for path, node in nodes(trees):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Tuple | ast.List):
            parts = [e.value for e in node.elts if isinstance(e, ast.Starred)]
        elif isinstance(node, ast.Call):
            parts = [e.value for e in node.args if isinstance(e, ast.Starred)]
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            parts = [value for key, value in pairs if key is None]
        literals = (ast.Tuple, ast.List, ast.Dict)
        found += [f"{path}:{each.lineno}" for each in parts if isinstance(each, literals)]
    return found


COUNTS = {
    "names with two homes": names_with_two_homes,
    "functions named by participles": functions_named_by_participles,
    "docstrings that open with a question": docstrings_that_ask,
    "unpacked literals": unpacked_literals,
}


def nodes(trees: dict[str, ast.Module]) -> Iterator[tuple[str, ast.AST]]:
    return ((path, node) for path, tree in trees.items() for node in ast.walk(tree))


def decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {getattr(each, "id", getattr(each, "attr", "")) for each in node.decorator_list}


@pytest.mark.parametrize("name", COUNTS)
def test_no_count_rises_and_none_that_fell_is_forgotten(name: str) -> None:
    found = COUNTS[name](TREES)
    listed = "\n".join(found)
    assert len(found) <= HELD[name], f"more {name} than {HELD[name]}:\n{listed}"
    assert len(found) == HELD[name], f"fewer {name}: write {len(found)} into HELD"


def test_each_count_finds_what_it_is_for() -> None:
    module = '"""Where things are."""\ndef settled(): """What is asked."""\nlist([*(1, 2)], *[3])\n'
    trees = {name: ast.parse(module) for name in ("a.py", "b.py")}
    assert {name: len(count(trees)) for name, count in COUNTS.items()} == {
        "names with two homes": 1,
        "functions named by participles": 2,
        "docstrings that open with a question": 4,
        "unpacked literals": 4,
    }


def test_none_finds_what_is_good() -> None:
    module = (
        '"""The engine."""\ndef read_cache(): """Is it there? Which file?"""\n'
        "class A:\n    @property\n    def kept(self): return [*self.all]\ndef masked_fill(): {}\n"
    )
    trees = {"a.py": ast.parse(module), "b.py": ast.parse("def run(): ...")}
    assert not any(count(trees) for count in COUNTS.values())
