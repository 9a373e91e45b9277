"""Make new sentences from halves of a corpus's sentences: more text for a teacher to translate.

    python scripts/recombine.py my/train.en --before in,on,with,at,near > my/in/more.txt

Each sentence is cut before one of the given words, and continued like another sentence with that
word: `two men sit | on a bench` and `a cat sleeps | on the roof` give `two men sit on the roof`.
New sentences need not be true, only grammatical, and cost nothing; but if there is real text of
your domain, prefer it. Words are separated by spaces, so the text should be tokenised, or the given
words should not be next to punctuation. Sentences of the corpus and duplicates are not written. The
same seed gives the same sentences.
"""

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from seq2seq.base.errors import Seq2SeqError, fail
from seq2seq.data.text.lines import read_lines


def recombine(
    sentences: Sequence[str], before: Collection[str], *, times: int, seed: int
) -> Iterator[str]:
    """Make new sentences.

    Args:
        sentences: sentences of the corpus.
        before: words before which a sentence may be cut; the cut is drawn at random.
        times: maximum number of new sentences for each sentence.
    """
    ends: defaultdict[str, list[str]] = defaultdict(list)  # second halves, by first word
    cuts = []
    for words in map(str.split, sentences):
        places = [i for i, word in enumerate(words) if i and word in before]
        cuts.append((words, places))
        for i in places:
            ends[words[i]].append(" ".join(words[i:]))
    draws, known = random.Random(seed), {" ".join(words) for words, _ in cuts}
    for words, places in cuts:
        for _ in range(times if places else 0):
            cut = draws.choice(places)
            made = " ".join([*words[:cut], draws.choice(ends[words[cut]])])
            if made not in known:
                known.add(made)
                yield made


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="sentences, one per line; .gz too")
    parser.add_argument(
        "--before", required=True, metavar="WORDS", help="words to cut before, such as in,on,with"
    )
    parser.add_argument(
        "--times", type=int, default=2, help="new sentences for each sentence (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        sentences = list(read_lines(options.file))
    except (Seq2SeqError, OSError) as error:
        return fail(str(error))
    before = options.before.split(",")
    for made in recombine(sentences, before, times=options.times, seed=options.seed):
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
