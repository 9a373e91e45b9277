"""The beginning of a run: its module, and the weights of an earlier run."""

from dataclasses import asdict, replace
from itertools import islice
from typing import Any

import lightning as L

from seq2seq import checkpoint
from seq2seq.base.plugins import record_plugins
from seq2seq.data.augment.augmented_text import AugmentOptions
from seq2seq.data.corpus.context import ContextArray
from seq2seq.data.corpus.corpus import Corpus
from seq2seq.data.corpus.groups import group_marks, mark_unpositioned
from seq2seq.data.prepare import Prepared, learn_length_ratio
from seq2seq.models import build_model
from seq2seq.text.tokenization.tokenizer import Tokenizers
from seq2seq.training.compilation import choose_compile, compile_layers
from seq2seq.training.config.plan import Plan
from seq2seq.training.module import TrainingModule, ValidationSentence
from seq2seq.training.packed import PackedTraining
from seq2seq.training.resume import check_resumed, load_initial_weights
from seq2seq.training.trainer import choose_precision


def build_module(plan: Plan, prepared: Prepared) -> TrainingModule:
    """Build the module of a run before its first update. The seed of the plan decides its weights;
    the module's plan has values in place of `auto`.
    """
    plan = replace(plan, trainer=choose_compile(choose_precision(plan.trainer, plan.resume)))
    L.seed_everything(plan.run.seed, verbose=False)
    source, target = prepared.tokenizers
    marks = group_marks(source, plan.data.groups, plan.data.sentence_separator)
    unpositioned = mark_unpositioned(source, plan.model["model"].get("unpositioned"))
    model = build_model(plan.model, source.size, target.size, marks, unpositioned)
    if plan.trainer.compile and not plan.trainer.packed:
        compile_layers(model)
    saved = describe_run(plan, prepared)
    sentences = read_sentences(prepared.valid, plan.validation.sentences)
    kind = PackedTraining if plan.trainer.packed else TrainingModule
    return kind(model, target, plan, sentences, saved)


def read_sentences(corpus: Corpus, count: int | None) -> dict[int, ValidationSentence]:
    """The sentences to translate at a validation, by row: the first one of each component, then the
    second ones, and so on.

    Args:
        count: number of sentences; None = all.
    """
    parts = zip(corpus.components, corpus.shares, strict=True)
    turns = [(i, each) for each, (start, stop, _) in parts for i in range(stop - start)]
    order = sorted(range(len(turns)), key=lambda row: turns[row][0])[:count]
    texts = list(islice(corpus.texts(), max(order) + 1))
    return {row: ValidationSentence(*texts[row], turns[row][1].languages) for row in order}


def restore(resume: str | None, module: TrainingModule, tokenizers: Tokenizers) -> list[str]:
    """Check the checkpoint that a run resumes, or load the weights that a new run starts from.

    Returns: lines for the user about the loaded weights.
    """
    config, weights = module.saved["config"], module.model.state_dict()
    now = checkpoint.Saved(config, *tokenizers, weights, resumable=True)
    if resume is not None:
        check_resumed(resume, now)
    elif module.plan.init.checkpoint is not None:
        return load_initial_weights(module.plan.init, module.model, now)
    return []


def describe_run(plan: Plan, prepared: Prepared) -> dict[str, Any]:
    """The entry that makes a checkpoint of this run self-sufficient and resumable."""
    train = prepared.ledger["parts"]["train"]
    order = {
        "seed": plan.run.seed,
        "max_tokens": plan.data.max_tokens,
        "max_length": plan.data.max_length,
        "weights": [share.weight for share in prepared.train.shares],
        "bpe_dropout": plan.bpe_dropout,
        "text": [file["sha256"] for corpus in train["corpora"] for file in corpus["files"]],
    }
    update = {
        "optimizer": {**asdict(plan.optimizer), "betas": list(plan.optimizer.betas)},
        **asdict(plan.loss),
        "simcut_p": plan.loss.simcut_p if plan.loss.simcut else None,
        "precision": plan.trainer.precision,
        "accumulate_grad_batches": plan.trainer.accumulate_grad_batches,
        "gradient_clip_val": plan.trainer.gradient_clip_val,
        "ema": plan.checkpoint.ema,
    }
    if plan.data.both_directions:
        order["both_directions"] = True
    if plan.data.languages:
        order["directions"] = [f"{each.direction} {each.tag}" for each in prepared.train.components]
    if plan.data.stages is not None:
        order["stages"] = plan.data.stages
    if prepared.train.is_augmented:
        components = prepared.train.components
        order["augment"] = [asdict(AugmentOptions(**each.augment)) for each in components]
    guided = None
    if plan.guide is not None:
        order["links"] = [file["sha256"] for file in prepared.ledger["links"]["train"]]
        update["guided"] = {**plan.guide._asdict(), "unlinked": plan.guided.unlinked}
        guided = asdict(plan.guided)
        guided["layer"], guided["head"] = plan.guide.layer + 1, plan.guide.head + 1  # from 1
    decode = dict(plan.decode)
    if decode["length_ratio"] is None:
        source, target = prepared.train.sides
        # A text may come without context, so that all of its translation has to fit.
        alone = source.alone if isinstance(source, ContextArray) else source
        learnt = learn_length_ratio(alone.lengths, target.lengths, decode["length_extra"])
        decode["length_ratio"] = max(learnt, decode["min_length_ratio"])
    config = {
        **plan.model,
        "decode": decode,
        "data": asdict(plan.data),
        "order": order,
        "update": update,
        "guided": guided,
        "monitor": plan.checkpoint.monitor,
        "mode": plan.checkpoint.direction,
    }
    mechanisms = {options["name"] for options in plan.model["attention"].values()}
    position = {plan.model["position"]["name"]}
    names = {"attention": mechanisms, "position": position, "search": {decode["name"]}}
    if plugins := record_plugins(names):
        config["plugins"] = plugins
    return checkpoint.make_entry(config, *prepared.tokenizers)
