"""Folders of Hugging Face against their own library: the same function, the same translations."""

from pathlib import Path
from typing import Any

import pytest
import torch
from interchange_models import marian_folder, texts_of

from seq2seq.data.windows import padded
from seq2seq.decoding import build_search, decode
from seq2seq.interchange.files import Folder
from seq2seq.interchange.huggingface import read_folder, read_vocabularies
from seq2seq.interchange.imported import Imported
from seq2seq.interchange.vocabularies import shared_or_not
from seq2seq.models import Seq2Seq
from seq2seq.symbols import BOS, EOS, PAD, UNK

pytest.importorskip("transformers", reason="pip install transformers")
pytest.importorskip("safetensors", reason="pip install safetensors")

NONE = (None, None)
CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"encoder_layers": 1, "decoder_layers": 3, "activation_function": "relu", "separate": True},
    {"scale_embedding": False, "activation_function": "gelu", "decoder_attention_heads": 2},
]
every_configuration = pytest.mark.parametrize("changes", CONFIGURATIONS, ids=str)
some_searches = pytest.mark.parametrize(
    ("changes", "beams"),
    [
        (CONFIGURATIONS[0], 5),
        (CONFIGURATIONS[1], 1),
        *(
            pytest.param(CONFIGURATIONS[i], beams, marks=pytest.mark.slow)
            for i, beams in ((0, 1), (1, 5), (2, 1), (2, 5))
        ),
    ],
    ids=str,
)


def their_ids(imported: Imported, folder: Path) -> list[torch.Tensor]:
    """Of each side, their id of each of ours."""
    vocabularies = read_vocabularies(Folder(folder))
    rows = [each.rows(each.ids["<pad>"]) for each in vocabularies]
    rows = shared_or_not(vocabularies, rows)
    return [torch.tensor(each.ids) for each in rows]


def sources(imported: Imported, count: int) -> torch.Tensor:
    rows = imported.source.encode_batch(texts_of(3, count))
    return padded([[*row, EOS] for row in rows])


@every_configuration
@torch.no_grad()
def test_states_and_logits_are_theirs(changes: dict[str, Any], tmp_path: Path) -> None:
    theirs = marian_folder(tmp_path / "hf", **changes)
    imported = read_folder(tmp_path / "hf", NONE)
    model, ids = imported.saved().build(), their_ids(imported, tmp_path / "hf")
    source = sources(imported, 20)
    target = torch.cat((torch.full((20, 1), BOS), torch.randint(4, len(ids[1]), (20, 12))), 1)
    mask = source != PAD
    out = theirs(ids[0][source], attention_mask=mask, decoder_input_ids=ids[1][target])
    states = model.encode(source).states
    torch.testing.assert_close(states[mask], out.encoder_last_hidden_state[mask], atol=1e-5, rtol=0)
    logits = model.logits(model(source, target).hidden)
    expected = out.logits[..., ids[1]]
    others = torch.arange(len(ids[1])) != BOS
    torch.testing.assert_close(logits[..., others], expected[..., others], atol=1e-5, rtol=1e-5)
    assert (logits[..., BOS] < -9000).all()


def ours(model: Seq2Seq, source: torch.Tensor, beams: int, limit: int) -> list[list[int]]:
    options: dict[str, Any] = {"name": "greedy", "length_ratio": 0.0, "length_extra": limit}
    if beams > 1:
        options |= {"name": "beam", "beam_size": beams, "length_penalty": 1.0, "stopping": "count"}
    best = [
        max(found, key=lambda h: h.score) for found in decode(model, source, build_search(options))
    ]
    return [each.ids for each in best]


@some_searches
@torch.no_grad()
def test_they_find_the_same_hypotheses(changes: dict[str, Any], beams: int, tmp_path: Path) -> None:
    theirs = marian_folder(tmp_path / "hf", **changes)
    imported = read_folder(tmp_path / "hf", NONE)
    model, ids = imported.saved().build(), their_ids(imported, tmp_path / "hf")
    source, lengths = sources(imported, 200), set()
    never = [[int(ids[1][symbol])] for symbol in (PAD, UNK)]
    found = theirs.generate(
        ids[0][source],
        attention_mask=source != PAD,
        num_beams=beams,
        max_new_tokens=20,
        max_length=None,
        length_penalty=1.0,
        early_stopping=beams > 1,
        do_sample=False,
        bad_words_ids=never,
    )
    for row, mine in zip(found[:, 1:].tolist(), ours(model, source, beams, 20), strict=True):
        their = row[: row.index(0)] if 0 in row else row
        assert their == ids[1][torch.tensor(mine, dtype=torch.int64)].tolist()
        lengths.add(len(mine))
    assert len(lengths) > 2
