"""What the tests promise of a CPU holds on the device."""

import copy
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from plain_transformer import our_config, our_model

from gpu_bench.models import (
    TINY,
    decided_model,
    random_batch,
    random_rows,
    rnn,
    translate_rows,
)
from gpu_bench.rows import Row, judge
from seq2seq import checkpoint
from seq2seq.base.symbols import EOS
from seq2seq.data.batches.batch import Batch
from seq2seq.decoding.options import Cache
from seq2seq.models import Seq2Seq, build_model
from seq2seq.text.tokenization.bpe import ByteLevelBPE
from seq2seq.training.loss import batch_loss
from seq2seq.translation.translator import Translator

DEMO = Path(__file__).resolve().parents[2] / "data" / "demo"
VOCABULARY, CPU = 50, torch.device("cpu")
SIZE = TINY._replace(dim=64, layers=2, dropout=0.0)


def run(device: torch.device, tiny: bool) -> Iterator[Row]:
    torch.backends.cudnn.allow_tf32 = False  # RNNs would use 10 bits of a factor
    models = {
        "Transformer": our_model(SIZE, VOCABULARY),
        "Transformer, grouped keys": our_model(SIZE, VOCABULARY, num_kv_heads=2),
        "Transformer, our tiles": our_model(SIZE, VOCABULARY, kernel="flash"),
        "RNN, additive attention": rnn(64, VOCABULARY),
    }
    for name, model in models.items():
        yield compare_update(name, model, device)
    caches: tuple[Cache, ...] = ("dense", "paged")
    for beams in (1, 5):
        for cache in caches:
            yield compare_search(beams, cache, device, 4 if tiny else 64)
    yield from move_checkpoint(device)
    yield halve_precision(device, 5 if tiny else 50)


def compare_update(name: str, model: Seq2Seq, device: torch.device) -> Row:
    """Loss and gradients of one batch in float32, against those of the CPU."""
    results = []
    batch = random_batch(8, 3, 20, VOCABULARY, CPU)
    for where in (CPU, device):
        copied = copy.deepcopy(model).to(where)
        here = batch._replace(source=batch.source.to(where), target=batch.target.to(where))
        loss = batch_loss(copied, here, 0.1).smoothed / here.total
        torch.autograd.backward(loss)
        gradients = [p.grad.cpu() for p in copied.parameters() if p.grad is not None]
        results.append((loss.item(), torch.cat([x.flatten() for x in gradients])))
    (expected, slope), (loss_there, slope_there) = results
    error = abs(loss_there - expected) / expected
    error_of_slope = ((slope_there - slope).norm() / slope.norm()).item()
    told = f"loss differs by {error:.1e}, gradient by {error_of_slope:.1e} of its norm"
    return judge(f"update, float32: {name}", told, error < 1e-5 and error_of_slope < 1e-4)


def compare_search(beams: int, cache: Cache, device: torch.device, count: int) -> Row:
    """Hypotheses in float64, where no two are nearly equal, against those of the CPU."""
    model = decided_model(SIZE, VOCABULARY).double()
    rows = [[*row, EOS] for row in random_rows(count, 1, 20, VOCABULARY)]
    expected = translate_rows(model, beams, 30, rows, 16, "dense")
    found = translate_rows(copy.deepcopy(model).to(device), beams, 30, rows, 16, cache)
    same = sum(one == other for one, other in zip(found, expected, strict=True))
    what = f"search, float64: {beams} beams, cache={cache}"
    return judge(what, f"{same} of {count} translations are those of the CPU", same == count)


def move_checkpoint(device: torch.device) -> Iterator[Row]:
    """A checkpoint written on the device, read on the CPU and again on the device."""
    lines = (DEMO / "valid.de").read_text(encoding="utf-8").splitlines()[:200]
    pieces = ByteLevelBPE(vocab_size=300).train(lines)
    config = our_config(SIZE)
    model = build_model(config, pieces.size, pieces.size).to(device).eval()
    decode = {"name": "greedy", "length_ratio": 0.0, "length_extra": 20}
    data = {"source": "de", "target": "de", "max_length": 128}
    entry = checkpoint.make_entry({**config, "decode": decode, "data": data}, pieces, pieces)
    state = {f"{checkpoint.PREFIX}{name}": x for name, x in model.state_dict().items()}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.ckpt"
        torch.save({"state_dict": state, checkpoint.ENTRY: entry}, path)
        read = checkpoint.read(path).build().state_dict()
        equal = all(torch.equal(x.cpu(), read[name]) for name, x in model.state_dict().items())
        yield judge("checkpoint of the device, read on the CPU", "the same bits", equal)
        texts = [
            Translator.load(path, where).translate(lines[:20]) for where in ("cpu", str(device))
        ]
        same = sum(one == other for one, other in zip(*texts, strict=True))
    # In float32 two pieces may be as likely as each other up to rounding.
    yield judge("texts of its translator", f"{same} of 20 are those of the CPU", same >= 18)


def halve_precision(device: torch.device, updates: int) -> Row:
    """The loss after some updates under autocast to bfloat16, against float32."""
    losses = []
    batch = random_batch(8, 3, 12, VOCABULARY, device)
    for enabled in (False, True):
        torch.manual_seed(0)
        model = our_model(SIZE, VOCABULARY).to(device)
        losses.append(train(model, batch, updates, enabled))
    first, (full, half) = losses[0][0], (each[-1] for each in losses)
    told = f"loss {first:.3f} -> {half:.3f}, in float32 {full:.3f}"
    what = f"{updates} updates under autocast to bfloat16"
    return judge(what, told, half < first and half < 1.05 * full)


def train(model: Seq2Seq, batch: Batch, updates: int, half: bool) -> list[float]:
    """The loss before each update."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(updates):
        optimizer.zero_grad()
        with torch.autocast(batch.source.device.type, torch.bfloat16, enabled=half):
            loss = batch_loss(model, batch, 0.1).smoothed / batch.total
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses
