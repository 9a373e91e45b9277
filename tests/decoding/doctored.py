"""Edit checkpoints at random, and translate with each in the native decoder and in torch.

This is a program, so that a crash ends only its process. Arguments: the first seed, and the number
of seeds. Prints what went wrong.
"""

import copy
import json
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from helpers.tiny_runs import TINY_MODEL, save_model

from seq2seq import Translator, checkpoint
from seq2seq.base.errors import Seq2SeqError
from seq2seq.decoding import native

MODELS = (
    (*TINY_MODEL, "attn=gqa", "position=rope"),
    (*TINY_MODEL, "attn=mha", "position=learned", "model.tie=none"),
    (*TINY_MODEL, "position=alibi", "model.norm=rmsnorm", "model.activation=swiglu"),
    (*TINY_MODEL, "position=t5", "model.norm_order=post", "model.activation=gelu"),
    (*TINY_MODEL, "attn@decoder_attn=ssru", "model.activation=silu"),
)
TEXTS = ["Ein Hund läuft.", "Die alte Frau liest 12 Bücher 中文, und <s> schläft.", "a"]
NUMBERS = [0, 1, 2, 3, 5, 7, 8, 33, 64, 10**6, 2**31, 2**63, -1, 0.5, 1e-30, 1e30, float("nan")]
SCHEMES = ["none", "rope", "alibi", "t5", "transformer_xl"]
WORDS = ["", "x", "silu", "rmsnorm", "post", *SCHEMES, "ssru", "multihead"]
VALUES = [*NUMBERS, *WORDS, None, True, False, [], [1], {}, {"name": "x"}]


def leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value below a node."""
    for key in node if isinstance(node, dict) else range(len(node) if type(node) is list else 0):
        yield (*path, key)
        yield from leaves(node[key], (*path, key))


def replace_any(node: Any, draw: random.Random, values: list[Any]) -> None:
    *above, last = draw.choice(list(leaves(node)))
    for key in above:
        node = node[key]
    node[last] = draw.choice(values)


def edit_configuration(entry: dict[str, Any], state: dict[str, Any], draw: random.Random) -> None:
    nodes = {key: entry["config"][key] for key in ("model", "position", "attention")}
    replace_any(nodes if draw.random() < 0.8 else entry["config"], draw, VALUES)


def edit_tokenizer(entry: dict[str, Any], state: dict[str, Any], draw: random.Random) -> None:
    side = draw.choice(("source", "target"))
    pieces = json.loads(entry["tokenizer"][side])
    vocabulary = pieces["model"]["vocab"]
    names = list(vocabulary)
    size = len(names)
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    pad = {"strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": None}
    edits: list[Callable[[], Any]] = [
        lambda: vocabulary.update(
            {draw.choice(names): draw.choice((size, 10**6, 2**31, 2**32 - 1))}
        ),
        lambda: vocabulary.update({names[-1]: size}),  # leaves a gap
        lambda: vocabulary.update({draw.choice(names): draw.randrange(size)}),  # twice
        lambda: vocabulary.update({f"new{i}": size + i for i in range(draw.choice((1, 9, 999)))}),
        lambda: vocabulary.pop(names[-1]),
        lambda: vocabulary.pop(draw.choice(names)),
        lambda: vocabulary.update({"<s>": 7, names[7]: 1}),
        lambda: pieces["added_tokens"].append(
            {"id": draw.choice((size, 10**6)), "content": "Hund", "special": False, **added}
        ),
        lambda: pieces["added_tokens"][0].update(id=draw.choice((5, 10**6))),
        lambda: pieces.update(padding={**pad, "pad_id": 10**6, "pad_type_id": 0, "pad_token": "q"}),
        lambda: pieces["model"].update(merges=pieces["model"]["merges"][:20]),
        lambda: replace_any({k: v for k, v in pieces.items() if k != "model"}, draw, VALUES),
        lambda: replace_any(pieces["model"], draw, VALUES),
    ]
    draw.choice(edits)()
    entry["tokenizer"][side] = json.dumps(pieces)


def edit_weights(entry: dict[str, Any], state: dict[str, Any], draw: random.Random) -> None:
    name = draw.choice(list(state))
    x = state[name].clone()
    rows = draw.randrange(len(x))
    dtypes = (torch.float16, torch.float64, torch.int32, torch.bool, torch.complex64)
    edits: list[Callable[[], torch.Tensor]] = [
        lambda: x.index_fill(0, torch.tensor([rows]), torch.nan),
        lambda: x.index_fill(0, torch.tensor([rows]), draw.choice((torch.inf, -torch.inf))),
        lambda: torch.full_like(x, draw.choice((torch.nan, torch.inf, 0.0, 3.0, 1e30))),
        lambda: x.t().contiguous() if x.dim() == 2 else x[None],
        lambda: x.t().contiguous().t() if x.dim() == 2 else torch.stack((x, x), 1)[:, 0],
        lambda: x.to(draw.choice(dtypes)),
        lambda: x[:0],
        lambda: x[:-1],
        lambda: torch.cat((x, x[:1])),
        lambda: x[:1].expand_as(x),
        lambda: x.flatten()[0],
        lambda: x.to_sparse(),
        lambda: x.to("meta"),
    ]
    state[name] = draw.choice(edits)()


EDITS = (edit_tokenizer, edit_configuration, edit_weights)


def outcome(path: Path, is_native: bool, options: dict[str, Any]) -> Any:
    """The translations with their scores, or the error message."""
    os.environ["SEQ2SEQ_NATIVE"] = "1" if is_native else "0"
    try:
        translator = Translator.load(path, device="cpu")
        search = translator.search(name=options["search"], max_length=12)
        engine = translator.engine(
            search, workers=1, precision=options["precision"], cache=options["cache"]
        )
        results = list(translator.stream(TEXTS, engine))
    except Seq2SeqError as error:
        return str(error)
    return [best and (best[0].text, best[0].score) for best, _ in results]


def agree(one: Any, other: Any, precision: str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str)  # a message is always right
    # In int8, the rounding of float32 can change integers, and so the translation.
    return precision == "int8" or all(
        a == b or (a and b and a[0] == b[0] and abs(a[1] - b[1]) < 1e-3)
        for a, b in zip(one, other, strict=True)
    )


def main(first: int, count: int) -> int:
    warnings.simplefilter("ignore")
    assert native.unavailable_reason() is None, native.unavailable_reason()
    wrong = 0
    with TemporaryDirectory() as folder:
        path = Path(folder, "any.ckpt")

        @cache
        def whole(kind: int) -> Any:
            torch.manual_seed(kind)
            save_model(path, *MODELS[kind])
            return torch.load(path, weights_only=True)

        for seed in range(first, first + count):
            draw = random.Random(seed)
            content = copy.deepcopy(whole(seed // 10 % len(MODELS)))
            edit = EDITS[seed % len(EDITS)]
            options = {
                "search": draw.choice(("greedy", "beam")),
                "precision": draw.choice(("float32", "float32", "int8")),
                "cache": draw.choice(("dense", "paged")),
            }
            path.unlink(missing_ok=True)
            edit(content[checkpoint.ENTRY], content["state_dict"], draw)
            torch.save(content, path)
            print(f"seed {seed}: {edit.__name__}, {options}", flush=True)
            found, expected = (outcome(path, native, options) for native in (True, False))
            if not agree(found, expected, options["precision"]):
                wrong += 1
                print(f"seed {seed}: C gives {found}, torch {expected}", flush=True)
    return min(wrong, 100)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
