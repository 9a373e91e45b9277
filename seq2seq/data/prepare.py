"""From the options of a run to its data: checked files, tokenizers, encoded corpora."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seq2seq.data.cache import FileMemo
from seq2seq.data.corpus import Corpus, encode_corpus
from seq2seq.data.guided_links import (
    NO_LINKS,
    LinkFiles,
    RowLinks,
    find_links,
    read_piece_links,
    read_word_links,
)
from seq2seq.data.learn_tokenizers import learn_tokenizers, sample_step
from seq2seq.data.ledger import links_entry, make_ledger, summarize
from seq2seq.data.mixture import Component, add_directions, find_components
from seq2seq.data.options import DataOptions
from seq2seq.data.stages import Stage, find_stages
from seq2seq.data.text import MissingFileError
from seq2seq.errors import ConfigError
from seq2seq.languages import read_language
from seq2seq.progress import show_progress
from seq2seq.tokenization.recipe import Recipe
from seq2seq.tokenization.registry import build_recipe
from seq2seq.tokenization.tokenizer import Tokenizers

PUBLISHED = "docs/data.md says where to get it and how to name the files."
MULTI30K = "To download it: python scripts/prepare_multi30k.py --languages {} {}"
WHERE_TO_GET = {
    "demo": "To write it here: seq2seq demo --corpus",
    "iwslt14_de_en": PUBLISHED,
    "wmt14_en_de": PUBLISHED,
    "multi30k": MULTI30K,
    "multi30k_tok": f"{MULTI30K} --tok",
}


class Prepared(NamedTuple):
    """The data of a run; `report` describes it in a few sentences, `ledger` in full; `components`
    are those of the training text, `stages` their weights by update if they change, `word_links`
    the links of their rows if they are augmented.
    """

    train: Corpus
    valid: Corpus
    tokenizers: Tokenizers
    report: tuple[str, ...]
    ledger: dict[str, Any]
    components: tuple[Component, ...]
    stages: tuple[Stage, ...]
    word_links: RowLinks | None


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
    if data.both_directions:
        check_joint(given if recipe is None else recipe)
    cache = Path(data.cache).expanduser()
    memo = FileMemo(cache)
    components = find_parts(data)
    check_texts(components, memo)
    tags = sorted({component.tag for component in components["train"] if component.tag is not None})
    check_tags(components, tags)
    links_of_parts = find_links(link_files, components, memo)
    distinct = [component for component in components["train"] if not component.is_reversed]
    if recipe is None:
        assert given is not None
        tokenizers = given
    else:
        tokenizers = learn_tokenizers(recipe, distinct, tags, data.max_length, cache)
    for tag in tags:
        tokenizers.source.tag_id(tag)  # `given` may lack it
    corpora = {
        part: encode_corpus(each, tokenizers, max_length=data.max_length, cache_dir=cache)
        for part, each in components.items()
    }
    learnt = dict(tokenizer)
    about = f"tokenizer: {describe_sizes(tokenizers)}"
    if recipe is not None and (step := sample_step(distinct, memo)) > 1:
        learnt["learnt_from_every"] = step
        about += f", learnt from one of every {step} pairs"
    ledger = make_ledger(components, corpora, tokenizers, learnt, memo)
    report = summarize(ledger, corpora)
    if not read_language(str(data.target)).is_known:
        unknown = f"data.target={data.target} is the code of no language"
        report.append(f"{unknown}: BLEU takes what is between spaces for words")
    report.append(about)
    for part, files in links_of_parts.items():
        corpus, of_part = corpora[part], components[part]
        links = read_piece_links(
            corpus, of_part, files, tokenizers, to_end=link_files.to_end, cache_dir=cache
        )
        corpus.links = links
        report.append(
            f"{part}: links for {np.count_nonzero(links.linked):,} of {len(corpus):,} pairs"
        )
        ledger.setdefault("links", {})[part] = links_entry(of_part, files, memo)
    train, of_train, word_links = corpora["train"], components["train"], None
    if train.links is not None and any(component.is_augmented for component in of_train):
        word_links = read_word_links(train, of_train, links_of_parts["train"], cache)
    if data.stages is not None:
        ledger["stages"] = data.stages
    return Prepared(
        train,
        corpora["valid"],
        tokenizers,
        tuple(report),
        ledger,
        components=tuple(of_train),
        stages=tuple(find_stages(data.stages or [], of_train, train.shares)),
        word_links=word_links,
    )


def find_parts(data: DataOptions) -> dict[str, list[Component]]:
    """The corpora of each part. Raises: ConfigError, and DataError for a missing file."""
    sides = str(data.source), str(data.target)
    specs = {"train": data.train, "valid": data.valid, "test": data.test}
    try:
        parts = {
            part: find_components(spec, *sides, f"data.{part}")
            for part, spec in specs.items()
            if spec is not None
        }
        if data.both_directions:
            # Validation and test are of the direction that the run is for.
            for part in parts.keys() - {"train"}:
                parts[part] = [replace(each, tag=sides[1]) for each in parts[part]]
            parts["train"] = add_directions(parts["train"], data.train, *sides, "data.train")
        parts["train"] = [
            replace(each, augment={**data.augment, **each.augment}) for each in parts["train"]
        ]
        return parts
    except MissingFileError as error:
        where = WHERE_TO_GET.get(data.name, "").format(*sides)
        raise MissingFileError(f"{error} {where}".strip()) from error


def check_texts(components: Mapping[str, list[Component]], memo: FileMemo) -> None:
    """Read each file in full. Raises: DataError for a faulty one."""
    every = list(chain.from_iterable(components.values()))
    with show_progress("checking the text", "corpora", len(every)) as tally:
        for component in tally.count(every):
            component.text.check(memo)


def check_tags(components: Mapping[str, list[Component]], known: list[str]) -> None:
    """Raises: ConfigError for a tag that no training corpus has."""
    for part, of_part in components.items():
        for component in of_part:
            if component.tag is not None and component.tag not in known:
                raise ConfigError(
                    f"data.{part}.{component.name}.tag={component.tag}: no training corpus has "
                    f"that tag. Theirs: {', '.join(known) or 'none'}"
                )


def check_joint(tokenizers: Recipe | Tokenizers | None) -> None:
    """Raises: ConfigError for text of both languages on either side, but two vocabularies."""
    if isinstance(tokenizers, Tokenizers):
        source, target = (each.to_json() for each in tokenizers)
        is_joint = source == target
    else:
        is_joint = tokenizers is not None and tokenizers.joint
    if not is_joint:
        raise ConfigError(
            "data.both_directions=true makes each language a source and a target, which needs one "
            "vocabulary: tokenizer.joint=true, or data.both_directions=false"
        )


def describe_sizes(tokenizers: Tokenizers) -> str:
    if tokenizers.source is tokenizers.target:
        return f"{tokenizers.source.size:,} pieces for both languages"
    return f"{tokenizers.source.size:,} source and {tokenizers.target.size:,} target pieces"
