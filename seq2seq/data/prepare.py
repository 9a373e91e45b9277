"""From the options of a run to its data: checked files, tokenizers, encoded corpora."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers as library

from seq2seq.data.cache import FileMemo, cached_folder, digest
from seq2seq.data.corpus import Corpus, encode_corpus
from seq2seq.data.groups import Groups, check_groups
from seq2seq.data.guided_links import NO_LINKS, LinkFiles, find_links, links_ledger, piece_links
from seq2seq.data.ledger import make_ledger, summary
from seq2seq.data.mixture import Component, check_spec, find_components
from seq2seq.data.text import MissingFileError
from seq2seq.errors import ConfigError
from seq2seq.progress import show_progress
from seq2seq.tokenization.recipes import build_recipe, learnable
from seq2seq.tokenization.tokenizer import Recipe, Tokenizer, Tokenizers

WHERE_TO_GET = {
    "demo": "data/demo is in the repository, not in the package: clone it and run from its root.",
    "iwslt14_de_en": "docs/data.md says where to get it and how to name the files.",
    "wmt14_en_de": "docs/data.md says where to get it and how to name the files.",
}
MULTI30K = {"multi30k": "", "multi30k_tok": " --tok"}  # how scripts/prepare_multi30k.py is called
LEARNT_FROM = 5_000_000  # pairs: more would take minutes, and change few pieces
MULTI30K_LANGUAGES = ("en", "de", "fr")  # that it has; by default the first two


@dataclass(frozen=True)
class DataOptions:
    """Where a run's text is, and how much of it a step holds: the keys of `conf/data/*.yaml`.

    Attributes:
        name: of the corpus.
        source: suffix of the source language's files, or its column in a .tsv or .jsonl file: a
            name, or a number from 1.
        target: of the target language, likewise.
        train: prefix of the training files, PREFIX.SUFFIX or PREFIX.SUFFIX.gz; or one .tsv or
            .jsonl file, plain or .gz; or a list of two paths, source then target; relative to the
            current folder. Or several of these by name: {NAME: {path, weight, tag}}.
        valid: the validation files, likewise, without weights.
        test: the test files, likewise, if there are any.
        max_length: maximum pieces of a sentence, EOS included; longer pairs are left out.
        max_tokens: padded tokens of a global batch on either side.
        cache: folder for tokenizers and encoded corpora.
        groups: groups of source tokens, for mechanisms that read them: the tokens of a word, or of
            a word and of a sentence.
        sentence_separator: a sentence ends after a piece that contains it.

    Raises: ConfigError for a value out of range.
    """

    name: str
    source: str | int
    target: str | int
    train: str | list[str] | dict[str, Any]
    valid: str | list[str] | dict[str, Any]
    test: str | list[str] | dict[str, Any] | None = None
    max_length: int = 256
    max_tokens: int = 4096
    cache: str = "runs/cache"
    groups: Groups = "none"
    sentence_separator: str | None = None

    def __post_init__(self) -> None:
        for option in ("source", "target"):
            suffix = str(getattr(self, option))
            # The number of a column is typed as an integer, and used as a string.
            object.__setattr__(self, option, suffix)
            if not suffix or suffix.startswith("."):
                raise ConfigError(
                    f"data.{option}={suffix!r} should be the suffix of one language's files, "
                    f"without the dot, or a column: data.{option}=de"
                )
        for part in ("train", "valid", "test"):
            check_spec(getattr(self, part), f"data.{part}")
        if self.max_length < 2:
            raise ConfigError(
                f"data.max_length={self.max_length} leaves no room for a piece and the end symbol: "
                "data.max_length=256"
            )
        if self.max_tokens < self.max_length:
            raise ConfigError(
                f"data.max_tokens={self.max_tokens} is less than data.max_length="
                f"{self.max_length}, so the longest sentences would fit no batch; type "
                f"data.max_tokens={self.max_length} or more"
            )
        check_groups(self.groups, self.sentence_separator)


class Prepared(NamedTuple):
    """The data of a run; `report` describes it in a few sentences, `ledger` in full."""

    train: Corpus
    valid: Corpus
    tokenizers: Tokenizers
    report: tuple[str, ...]
    ledger: dict[str, Any]


def prepare(
    data: DataOptions,
    tokenizer: Mapping[str, Any],
    given: Tokenizers | None = None,
    link_files: LinkFiles = NO_LINKS,
) -> Prepared:
    """Check the files, learn the tokenizers on the training text, encode both corpora.

    Options are checked before any file is read, and every file, the test part included, before
    anything is computed. Results of earlier runs from the same contents are reused.

    Args:
        data: where the text is.
        tokenizer: `name`, an entry of TOKENIZERS, and its options.
        given: tokenizers to use instead of learning them.
        link_files: links between the words of the pairs, for guided alignment.

    Raises: ConfigError for an option; DataError for a file, naming it and the line.
    """
    recipe = None if given else build_recipe(tokenizer)
    cache = Path(data.cache).expanduser()
    memo = FileMemo(cache)
    components = checked_components(data, memo)
    tags = sorted({component.tag for component in components["train"] if component.tag is not None})
    check_tags(components, tags)
    linked = find_links(link_files, components, memo)
    if recipe is None:
        assert given is not None
        tokenizers = given
    else:
        tokenizers = learn_tokenizers(recipe, components["train"], tags, data.max_length, cache)
    for tag in tags:
        tokenizers.source.tag_id(tag)  # `given` may lack it
    corpora = {
        part: encode_corpus(each, tokenizers, max_length=data.max_length, cache_dir=cache)
        for part, each in components.items()
    }
    learnt = dict(tokenizer)
    about = f"tokenizer: {describe_sizes(tokenizers)}"
    if recipe is not None and (step := sample_step(components["train"], memo)) > 1:
        learnt["learnt_from_every"] = step
        about += f", learnt from one of every {step} pairs"
    ledger = make_ledger(components, corpora, tokenizers, learnt, memo)
    report = [*summary(ledger, corpora), about]
    for part, of_part in linked.items():
        links = piece_links(
            corpora[part],
            of_part,
            tokenizers,
            memo,
            max_length=data.max_length,
            to_end=link_files.to_end,
            cache_dir=cache,
        )
        corpora[part].links = links
        pairs = int(np.count_nonzero(links.asked))
        report.append(f"{part}: links for {pairs:,} of {len(corpora[part]):,} pairs")
        ledger.setdefault("links", {})[part] = links_ledger(of_part, memo)
    return Prepared(corpora["train"], corpora["valid"], tokenizers, tuple(report), ledger)


def describe_sizes(tokenizers: Tokenizers) -> str:
    if tokenizers.source is tokenizers.target:
        return f"{tokenizers.source.size:,} pieces for both languages"
    return f"{tokenizers.source.size:,} source and {tokenizers.target.size:,} target pieces"


def checked_components(data: DataOptions, memo: FileMemo) -> dict[str, list[Component]]:
    """The corpora of each part; all files are located before any is read in full."""
    specs = {"train": data.train, "valid": data.valid, "test": data.test}
    try:
        components = {
            part: find_components(spec, str(data.source), str(data.target), f"data.{part}")
            for part, spec in specs.items()
            if spec is not None
        }
    except MissingFileError as error:
        raise MissingFileError(f"{error} {where_to_get(data)}".strip()) from error
    every = list(chain.from_iterable(components.values()))
    with show_progress("checking the text", "corpora", len(every)) as tally:
        for component in tally.count(every):
            component.text.check(memo)
    return components


def where_to_get(data: DataOptions) -> str:
    """How to get a corpus whose files are missing."""
    if data.name not in MULTI30K:
        return WHERE_TO_GET.get(data.name, "")
    wanted = [str(data.source), str(data.target)]
    script = f"python scripts/prepare_multi30k.py{MULTI30K[data.name]}"
    if others := [side for side in wanted if side not in MULTI30K_LANGUAGES]:
        return (
            f"{script} fetches {', '.join(MULTI30K_LANGUAGES)} only, and no {', '.join(others)}: "
            "put its files there yourself, or name files of your own with data=files"
        )
    usual = set(wanted) <= set(MULTI30K_LANGUAGES[:2])
    chosen = "" if usual else f" --languages {' '.join(wanted)}"
    return f"To download it: {script}{chosen}"


def check_tags(components: Mapping[str, list[Component]], known: list[str]) -> None:
    for part, of_part in components.items():
        for component in of_part:
            if component.tag is not None and component.tag not in known:
                raise ConfigError(
                    f"data.{part}.{component.name}.tag={component.tag}: no training corpus has "
                    f"that tag. Theirs: {', '.join(known) or 'none'}"
                )


def sample_step(components: Sequence[Component], memo: FileMemo) -> int:
    """Tokenizers are learnt from every n-th pair of each corpus: from at most about `LEARNT_FROM`
    in all. n is 1 below that.
    """
    return -(-sum(component.text.check(memo) for component in components) // LEARNT_FROM)


def learn_tokenizers(
    recipe: Recipe, components: list[Component], tags: list[str], max_length: int, cache: Path
) -> Tokenizers:
    """Learn one tokenizer from all text, or one from each side, or reuse those in the cache; that
    of the source gets a symbol for each tag.

    Lines too long to be kept are skipped, see `learnable`, and of very many pairs, see
    `sample_step`, most.
    """
    texts = [component.text for component in components]
    sides = {"joint": (0, 1)} if recipe.joint else {"source": (0,), "target": (1,)}

    def write(folder: Path) -> None:
        for side, indices in sides.items():
            of_sides = (text.side(index) for text in texts for index in indices)
            lines = chain.from_iterable(islice(each, 0, None, step) for each in of_sides)
            total = len(indices) * sum(-(-text.check(memo) // step) for text in texts)
            with show_progress("learning the tokenizer", "lines", total) as tally:
                learnt = recipe.train(learnable(tally.count(lines), max_length), indices[0])
            (folder / f"{side}.json").write_text(learnt.to_json(), encoding="utf-8")

    memo = FileMemo(cache)
    step = sample_step(components, memo)
    settings = [library.__version__, repr(recipe), str(max_length)]
    settings += [f"every {step}"] if step > 1 else []
    for text in texts:
        settings += [*text.settings, *(memo.sha256(file) for file in text.files)]
    folder = cached_folder(cache, f"tokenizer-{digest(settings)}", write)
    files = [folder / f"{side}.json" for side in sides]
    learnt = [Tokenizer.from_json(file.read_text(encoding="utf-8")) for file in files]
    if tags:
        learnt[0] = learnt[0].with_tags(tags)
    return Tokenizers(learnt[0], learnt[-1])
