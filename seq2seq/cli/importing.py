"""Turn a model that another program trained into a run.

seq2seq import opus-mt-de-en -o RUN        a folder of Hugging Face: a Marian model, NLLB or M2M-100
seq2seq import model.npz --vocab vocab.spm -o RUN        a model of Marian
seq2seq import model.deen.intgemm.alphas.bin --vocab vocab.deen.spm -o RUN        one of Firefox
"""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.base.errors import ConfigError, printable
from seq2seq.cli.files import InputPath, check_new_folder
from seq2seq.cli.options import Options, argument, value

if TYPE_CHECKING:
    from seq2seq.interchange.imported import ImportedModel

VOCAB = "SentencePiece model of Marian, or two, source then target; and vocab.yml"
HELP = "turn a model of another program into a run"


class ImportOptions(Options):
    """The options of `seq2seq import`."""

    path: InputPath = argument("a folder of Hugging Face, or a .npz or .bin of Marian", "PATH")
    output: Path = value("the folder of the run to write", "RUN", "-o", required=True)
    source: str | None = value("source language; default: as the model says", "LANGUAGE")
    target: str | None = value("target language", "LANGUAGE")
    vocab: list[InputPath] | None = value(VOCAB, "FILE", nargs="+")
    shortlist: InputPath | None = value("shortlist of Marian: lex.50.50.deen.s2t.bin", "FILE")


def run(options: ImportOptions) -> None:
    folder = options.output
    check_new_folder(folder)
    from seq2seq.decoding.shortlist.file import NAME, write_shortlist
    from seq2seq.interchange import huggingface_folder, marian  # only here: torch takes a second
    from seq2seq.interchange.marian_shortlist import read_marian_shortlist
    from seq2seq.text.tokenization.tokenizer import Tokenizers

    languages = (options.source, options.target)
    if options.path.suffix in (".npz", ".bin"):
        if options.vocab is None:
            raise ConfigError("a model of Marian needs its vocabulary: --vocab vocab.spm")
        imported = marian.read_marian(options.path, options.vocab, languages)
    elif options.vocab is not None or options.shortlist is not None:
        raise ConfigError("--vocab and --shortlist are for a .npz or .bin of Marian: omit them")
    else:
        imported = huggingface_folder.read_folder(options.path, languages)
    shortlist = options.shortlist
    lists = read_marian_shortlist(shortlist, imported.maps) if shortlist else None
    model = imported.write(folder)
    tokenizers = Tokenizers(imported.saved.source, imported.saved.target)
    if lists is not None:
        write_shortlist(folder / NAME, lists, tokenizers)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    sizes = f"{tokenizers.source.size:,} source and {tokenizers.target.size:,} target pieces"
    print(printable(f"{folder}: written; {parameters / 1e6:.2f} M parameters, {sizes}"))
    for line in compare_pieces(imported):
        print(printable(line))
    print(printable(f"To go on training with it:\n    {finetune_command(imported, folder)}"))


def compare_pieces(imported: "ImportedModel") -> list[str]:
    """A line for each side: the number of texts that SentencePiece cuts into other pieces."""
    from seq2seq.text.tokenization.piece_model import parse_piece_model
    from seq2seq.text.tokenization.sentencepiece import compare_with_library, probe_texts

    lines, sides = [], {"source": imported.saved.source, "target": imported.saved.target}
    for (side, tokenizer), data in zip(sides.items(), imported.piece_models, strict=False):
        texts = probe_texts(parse_piece_model(data))
        try:
            others = compare_with_library(tokenizer, data, texts)
        except ConfigError as error:
            return [f"pieces were not compared with those of SentencePiece: {error}"]
        named = f", such as {others[0]!r:.60}" if others else ""
        lines.append(f"{side}: {len(others)} of {len(texts):,} texts are cut in another way{named}")
    return lines


def finetune_command(imported: "ImportedModel", folder: Path) -> str:
    """The command that fine-tunes the model, with all options that describe it."""
    typed = [f"init={folder}", "tokenizer=checkpoint"]
    config: dict[str, Any] = imported.saved.config
    pair = [config["data"][side] for side in ("source", "target")]
    several = config["data"].get("languages")
    if several:
        named = ",".join(pair if all(pair) else several[:2])
        typed += ["data=languages", f"data.languages=[{named}]", "data.language_tags=both"]
    else:
        typed += ["data=files", f"data.source={pair[0]}", f"data.target={pair[1]}"]
    typed += ["data.train=PREFIX", "data.valid=PREFIX"]
    typed += overrides("model", config["model"], ("name", "project_scores"))
    typed += [f"position={config['position']['name']}"]
    typed += overrides("position", config["position"], ("name",))
    for role, chosen in config["attention"].items():
        multihead = chosen["name"] == "multihead"
        typed.append(f"attn@{role}_attn={'mha' if multihead else chosen['name']}")
        if multihead:
            typed += [f"{role}_attn.bias=true", f"{role}_attn.num_heads={chosen['num_heads']}"]
    return f"seq2seq train {shlex.join(typed)}"


def overrides(node: str, values: dict[str, Any], without: tuple[str, ...]) -> list[str]:
    """Options of a configuration node as they are typed, except those in `without`."""
    texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in values.items()}
    return [f"{node}.{name}={text}" for name, text in texts.items() if name not in without]
