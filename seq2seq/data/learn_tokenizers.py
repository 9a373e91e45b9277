"""Learn the tokenizers of a run on its training text, once per content."""

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path

import tokenizers as library

from seq2seq.data.cache import compute_once, digest
from seq2seq.data.file_memo import FileMemo
from seq2seq.data.mixture import Component
from seq2seq.progress import show_progress
from seq2seq.tokenization.recipe import Recipe
from seq2seq.tokenization.tokenizer import Tokenizer, Tokenizers
from seq2seq.tokenization.training_text import select_text

MAX_PAIRS = 5_000_000  # more would take minutes, and change few pieces


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
