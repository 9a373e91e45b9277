"""Prepare the data of a run from its options: check files, learn tokenizers, encode corpora."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers as library

from seq2seq.base.environment import script_command
from seq2seq.base.errors import ConfigError
from seq2seq.base.progress import show_progress
from seq2seq.data.batches.stages import Stage, find_stages
from seq2seq.data.corpus.cache import FileMemo, compute_once, digest
from seq2seq.data.corpus.corpus import Corpus, Share, encode_corpus, temper
from seq2seq.data.corpus.ledger import make_ledger, summarize
from seq2seq.data.corpus.mixture import Component, find_components
from seq2seq.data.corpus.ragged_array import RaggedArray
from seq2seq.data.links.link_files import (
    NO_LINKS,
    LinkFiles,
    find_links,
    read_piece_links,
    read_word_links,
)
from seq2seq.data.options import DataOptions
from seq2seq.data.text.lines import MissingFileError
from seq2seq.text.languages import read_language
from seq2seq.text.tokenization.recipe import Recipe
from seq2seq.text.tokenization.registry import build_recipe
from seq2seq.text.tokenization.tokenizer import SEPARATOR, Tokenizer, Tokenizers

MAX_PAIRS = 5_000_000  # more would take minutes, and change few pieces
# Far above the average length of a piece: a line with more characters per allowed piece is not
# worth encoding with any tokenizer.
CHARACTERS_PER_PIECE = 20
# The time to learn merges grows superlinearly in the longest run of characters without a space.
LONGEST_PART = 1000
PART = re.compile(rf".{{1,{LONGEST_PART}}}(?= |\Z)|.{{{LONGEST_PART}}}", re.DOTALL)
# Parameters of the length ratio, see `learn_length_ratio`.
COVERED = 0.999  # share of the pairs to cover; the rest may be wrong translations
ROOM = 1.25
MIN_RATIO = 1.5  # lower bound: if all pairs are short, `extra` hides how lengths grow
SAMPLE = 2**20  # maximum pairs examined

PARTS = ("train", "valid", "test")
PUBLISHED = "docs/data.md says where to get it and how to name the files."
MULTI30K = "To download it: scripts/prepare_multi30k.py --languages {}"
TABLES = "To make it from tables of words: scripts/split_letters.py"
WHERE_TO_GET = {  # a script stands for the command that runs it
    "demo": "To write it here: seq2seq demo --corpus",
    "iwslt14_de_en": PUBLISHED,
    "wmt14_en_de": PUBLISHED,
    "multi30k": MULTI30K,
    "multi30k_tok": f"{MULTI30K} --tok",
    "copy": "To make it: scripts/make_strings.py",
    "reverse": "To make it: scripts/make_strings.py",
    "scan": "To make it: scripts/make_scan.py",
    "scan_jump": "To make it: scripts/make_scan.py --split jump",
    "scan_length": "To make it: scripts/make_scan.py --split length",
    "g2p": f"{TABLES} g2p TRAIN VALID TEST",
    "inflection": f"{TABLES} inflection TRAIN VALID TEST",
}


class Prepared(NamedTuple):
    """The data of a run.

    Attributes:
        report: description of the data in a few sentences.
        ledger: full description of the data.
        stages: weights of the training corpora, if they change during training.
        word_links: links between the words of training pairs, if these are augmented.
    """

    train: Corpus
    valid: Corpus
    tokenizers: Tokenizers
    report: tuple[str, ...]
    ledger: dict[str, Any]
    stages: tuple[Stage, ...]
    word_links: RaggedArray | None


def prepare(
    data: DataOptions,
    tokenizer: Mapping[str, Any],
    given: Tokenizers | None = None,
    link_files: LinkFiles = NO_LINKS,
) -> Prepared:
    """Check the files, learn the tokenizers from the training text, and encode both corpora.

    Options are checked before any file is read, and all files, including the test part, are checked
    before anything is computed. Results of earlier runs with the same contents are reused.

    Args:
        data: options of the data.
        tokenizer: `name`, an entry of TOKENIZERS, and its options.
        given: tokenizers to use; None = learn them.
        link_files: links between the words of the pairs, for guided alignment.

    Raises: ConfigError for an invalid option; DataError for a faulty file, with its name and line.
    """
    recipe = given or build_recipe(tokenizer)
    if data.both_directions or data.languages:
        check_joint(recipe)
    cache = Path(data.cache).expanduser()
    memo = FileMemo(cache)
    components = find_parts(data)
    check_texts(components, memo)
    tags = find_tags(components, data.languages or ())
    tags += [SEPARATOR] if data.context else []
    links = find_links(link_files, components, memo)
    learnt = dict(tokenizer)
    if isinstance(recipe, Tokenizers):
        tokenizers = recipe
    else:
        tokenizers, step = learn_tokenizers(recipe, components["train"], tags, data)
        learnt |= {"learnt_from_every": step} if step > 1 else {}
    check_given_tags(tokenizers, tags)
    corpora = {
        part: encode_corpus(
            each, tokenizers, max_length=data.max_length, cache_dir=cache, context=data.context
        )
        for part, each in components.items()
    }
    train = corpora["train"]
    train.shares = temper(train.shares, data.temperature)
    for part, files in links.items():
        corpora[part].links = read_piece_links(
            corpora[part], files, tokenizers, to_end=link_files.to_end, cache_dir=cache
        )
    needs_words = train.links is not None and train.is_augmented
    ledger = make_ledger(corpora, tokenizers, learnt, links, data.stages, cache)
    return Prepared(
        train,
        corpora["valid"],
        tokenizers,
        report=tuple(describe_data(ledger, corpora, data, tokenizers)),
        ledger=ledger,
        stages=tuple(find_stages(data.stages or [], train, data.temperature)),
        word_links=read_word_links(train, links["train"], cache) if needs_words else None,
    )


def describe_data(
    ledger: Mapping[str, Any],
    corpora: Mapping[str, Corpus],
    data: DataOptions,
    tokenizers: Tokenizers,
) -> Iterator[str]:
    """A few sentences about the data, shown before training."""
    yield from summarize(ledger, corpora)
    for target in data.languages or [str(data.target)]:
        if not read_language(target).is_known:
            option = "data.languages" if data.languages else "data.target"
            unknown = f"{option}={target} is the code of no language"
            yield f"{unknown}: BLEU takes what is between spaces for words"
    step = ledger["tokenizer"].get("learnt_from_every")
    sampled = f", learnt from one of every {step} pairs" if step else ""
    yield f"tokenizer: {describe_sizes(tokenizers)}{sampled}"
    for part, corpus in corpora.items():
        if corpus.links is not None and corpus.links.linked is not None:
            linked = np.count_nonzero(corpus.links.linked)
            yield f"{part}: links for {linked:,} of {len(corpus):,} pairs"


def find_parts(data: DataOptions) -> dict[str, list[Component]]:
    """The corpora of each part.

    Raises: ConfigError for an invalid option; DataError for a missing file.
    """
    options = vars(data)
    try:
        return {part: find_components(options, part) for part in PARTS if options[part] is not None}
    except MissingFileError as error:
        languages = data.languages or (str(data.source), str(data.target))
        where = WHERE_TO_GET.get(data.name, "").format(" ".join(languages))
        where = re.sub(r"scripts/(\w+)\.py", lambda found: script_command(found[1]), where)
        raise MissingFileError(f"{error} {where}".strip()) from error


def check_texts(components: Mapping[str, list[Component]], memo: FileMemo) -> None:
    """Check all files by reading them in full. Raises: DataError if a file is faulty."""
    every = list(chain.from_iterable(components.values()))
    with show_progress("checking the text", "corpora", len(every)) as tally:
        for component in tally.count(every):
            component.text.check(memo)


def find_tags(components: Mapping[str, list[Component]], languages: Sequence[str]) -> list[str]:
    """The tags of the training corpora.

    Raises: ConfigError if a language, or a tag of another part, does not occur in training.
    """
    used = [tag for each in components["train"] for tag in (each.tag, each.target_tag)]
    known = sorted({tag for tag in used if tag is not None})
    seen = {language for component in components["train"] for language in component.languages}
    if unseen := [each for each in languages if each not in seen]:
        raise ConfigError(f"data.languages: no corpus of data.train has {', '.join(unseen)}")
    for part, of_part in components.items():
        for component in of_part:
            if component.tag is not None and component.tag not in known:
                raise ConfigError(
                    f"data.{part}.{component.name}.tag={component.tag}: no training corpus has "
                    f"that tag or target. Theirs: {', '.join(known) or 'none'}"
                )
    return known


def check_joint(recipe: Recipe | Tokenizers) -> None:
    """Check that there is one vocabulary, as needed if each side has text of both languages.

    Raises: ConfigError if there are two.
    """
    if isinstance(recipe, Tokenizers):
        is_joint = recipe.source.to_json() == recipe.target.to_json()
    else:
        is_joint = recipe.joint
    if not is_joint:
        raise ConfigError(
            "with data.both_directions=true or data.languages, each language is a source and a "
            "target, which needs one vocabulary: tokenizer.joint=true, or leave this option out"
        )


def check_given_tags(tokenizers: Tokenizers, tags: Sequence[str]) -> None:
    """Check that given tokenizers have all tags. Raises: ConfigError otherwise."""
    for tag in tags:
        try:
            tokenizers.source.tag_id(tag)
        except ConfigError as error:
            if tag != SEPARATOR:
                raise
            raise ConfigError(
                "these tokenizers lack the symbol of data.context: learn others with it, by "
                "init.vocabulary=mapped instead of tokenizer=checkpoint"
            ) from error


def describe_sizes(tokenizers: Tokenizers) -> str:
    if tokenizers.source is tokenizers.target:
        return f"{tokenizers.source.size:,} pieces for both languages"
    return f"{tokenizers.source.size:,} source and {tokenizers.target.size:,} target pieces"


def learn_tokenizers(
    recipe: Recipe, components: list[Component], tags: list[str], data: DataOptions
) -> tuple[Tokenizers, int]:
    """Learn one tokenizer from all text, or one from each side, or reuse cached ones. The source
    tokenizer gets a symbol for each tag.

    Lines that are too long are skipped, see `select_text`. Each corpus is read as often as training
    with this temperature visits it, its own weight apart.

    Returns: the tokenizers, and the number n such that they are learnt from every n-th pair of each
        corpus: from about `MAX_PAIRS` pairs in all, at most.
    """
    texts = [component.text for component in components if not component.is_reversed]
    sides = {"joint": (0, 1)} if recipe.joint else {"source": (0,), "target": (1,)}

    def write(folder: Path) -> None:
        for side, indices in sides.items():
            of_sides = (
                repeat_lines(islice(text.side(index), 0, None, step), rate)
                for text, rate in zip(texts, rates, strict=True)
                for index in indices
            )
            lines = chain.from_iterable(of_sides)
            total = len(indices) * sum(-(-size // step) for size in sizes)
            with show_progress("learning the tokenizer", "lines", total) as tally:
                learnt = recipe.train(select_text(tally.count(lines), data.max_length), indices[0])
            (folder / f"{side}.json").write_text(learnt.to_json(), encoding="utf-8")

    cache = Path(data.cache).expanduser()
    memo = FileMemo(cache)
    sizes = [text.check(memo) for text in texts]
    step = -(-sum(sizes) // MAX_PAIRS)
    rates = [each.weight for each in temper([Share(0, n, 1) for n in sizes], data.temperature)]
    settings = [library.__version__, repr(recipe), str(data.max_length)]
    settings += [f"every {step}"] if step > 1 else []
    settings += [f"rates {rates}"] if data.temperature != 1 else []
    settings += chain.from_iterable(text.fingerprint(memo) for text in texts)
    folder = compute_once(cache, f"tokenizer-{digest(settings)}", write)
    files = [folder / f"{side}.json" for side in sides]
    learnt = [Tokenizer.from_json(file.read_text(encoding="utf-8")) for file in files]
    if tags:
        learnt[0] = learnt[0].with_tags(tags)
    return Tokenizers(learnt[0], learnt[-1]), step


def repeat_lines(lines: Iterable[str], rate: float) -> Iterator[str]:
    """Each line 0, 1 or more times, so that the first n lines become n * rate, rounded up."""
    for done, line in enumerate(lines):
        yield from repeat(line, math.ceil((done + 1) * rate) - math.ceil(done * rate))


def select_text(lines: Iterable[str], max_length: int) -> Iterator[str]:
    """Select the lines from which a tokenizer is learnt.

    A line of more than 20 * `max_length` characters is left out: hardly any tokenizer makes at most
    `max_length` pieces of it. Lines of more than 1,000 characters are cut into parts, before spaces
    if possible; nothing is lost between them. If all lines are too long, the beginning of the first
    is used, because a tokenizer is needed to decide which pairs are kept.

    Args:
        lines: lines of one or both sides of the training text.
        max_length: maximum pieces of a sentence, EOS included.
    """
    instead, given = "", False
    for line in lines:
        if len(line) <= CHARACTERS_PER_PIECE * max_length:
            given = given or bool(line.strip())
            yield from PART.findall(line) or [line]
        else:
            instead = instead or line[:LONGEST_PART]
    if not given and instead:
        yield instead


def learn_length_ratio(source: np.ndarray, target: np.ndarray, extra: int) -> float:
    """The ratio r such that r * S + `extra` tokens, EOS counted, suffice for a source of S pieces:
    25 % above both the ratio that 99.9 % of the pairs need and the median ratio; at least 1.5.

    Args:
        source, target: (rows,) pieces of both sides of each pair, EOS not counted.
    """
    step = -(-len(source) // SAMPLE)
    source, target = np.maximum(source[::step], 1), target[::step]
    needed = (target + 1 - extra) / source
    longest = float(np.quantile(needed, COVERED))
    usual = float(np.median(target / source))
    return round(max(MIN_RATIO, ROOM * longest, ROOM * usual), 2)
