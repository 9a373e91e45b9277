"""Learn the tokenizers of a run on its training text, once per content."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import tokenizers as library

from seq2seq.data.cache import FileMemo, compute_once, digest
from seq2seq.data.mixture import Component
from seq2seq.progress import show_progress
from seq2seq.tokenization.recipe import Recipe
from seq2seq.tokenization.tokenizer import Tokenizer, Tokenizers

MAX_PAIRS = 5_000_000  # more would take minutes, and change few pieces
# Far above the average length of a piece: a line with more characters than this for every piece
# allowed is not worth the time, whatever the tokenizer.
CHARACTERS_PER_PIECE = 20
# The time to learn merges grows superlinearly in the longest run of characters without a space.
LONGEST_PART = 1000


def sample_step(components: Sequence[Component], memo: FileMemo) -> int:
    """Tokenizers are learnt from every n-th pair of each corpus: from at most about `MAX_PAIRS`
    in all. n is 1 below that.
    """
    return -(-sum(component.text.check(memo) for component in components) // MAX_PAIRS)


def learn_tokenizers(
    recipe: Recipe, components: list[Component], tags: list[str], max_length: int, cache: Path
) -> Tokenizers:
    """Learn one tokenizer from all text, or one from each side, or reuse those in the cache; that
    of the source gets a symbol for each tag.

    Lines too long to be kept are skipped, see `select_text`, and of very many pairs, see
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
                learnt = recipe.train(select_text(tally.count(lines), max_length), indices[0])
            (folder / f"{side}.json").write_text(learnt.to_json(), encoding="utf-8")

    memo = FileMemo(cache)
    step = sample_step(components, memo)
    settings = [library.__version__, repr(recipe), str(max_length)]
    settings += [f"every {step}"] if step > 1 else []
    settings += chain.from_iterable(text.fingerprint(memo) for text in texts)
    folder = compute_once(cache, f"tokenizer-{digest(settings)}", write)
    files = [folder / f"{side}.json" for side in sides]
    learnt = [Tokenizer.from_json(file.read_text(encoding="utf-8")) for file in files]
    if tags:
        learnt[0] = learnt[0].with_tags(tags)
    return Tokenizers(learnt[0], learnt[-1])


def select_text(lines: Iterable[str], max_length: int) -> Iterator[str]:
    """The lines that a tokenizer should be learnt from.

    A line of more than 20 * `max_length` characters is left out: hardly any tokenizer makes at most
    `max_length` pieces of it. Lines of more than 1,000 characters are cut into parts, before spaces
    if possible; nothing is lost between them. If all lines are too long, the beginning of the first
    is used, because a tokenizer is needed to decide which pairs are kept.

    Args:
        lines: of one or both sides of the training text.
        max_length: maximum pieces of a sentence, EOS included.
    """
    instead, given = "", False
    for line in lines:
        if len(line) <= CHARACTERS_PER_PIECE * max_length:
            given = given or bool(line.strip())
            yield from cut_line(line)
        else:
            instead = instead or line[:LONGEST_PART]
    if not given and instead:
        yield instead


def cut_line(line: str) -> Iterator[str]:
    """A line in parts of at most 1,000 characters, as long as possible, cut before spaces."""
    start = 0
    while len(line) - start > LONGEST_PART:
        # Not at the start itself: the part would be empty.
        space = line.rfind(" ", start + 1, start + LONGEST_PART + 1)
        end = space if space > start else start + LONGEST_PART
        yield line[start:end]
        start = end
    yield line[start:]
