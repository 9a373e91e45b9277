"""Write a model for another engine, and compare the translations of both.

seq2seq export PATH --format ctranslate2 -o FOLDER     compares on validation sentences
seq2seq export PATH --format hf -o FOLDER              for transformers: Marian or Pegasus
seq2seq export PATH --format argos -o de_en.argosmodel
seq2seq export PATH --format firefox -o FOLDER         for the engines of Firefox, in 8 bits
"""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from seq2seq.base.errors import ConfigError, DataError, format_count, printable
from seq2seq.cli.files import InputPath, check_new_folder
from seq2seq.cli.options import Options, argument, value

if TYPE_CHECKING:
    from seq2seq.checkpoint import Saved
    from seq2seq.decoding.shortlist import Shortlist
    from seq2seq.interchange.agreement import Agreement

    Lists = Shortlist | None
    Agreements = list[Agreement]

Rows = list[list[int]]  # sources as ids, without the end of sentence
HELP = "write a model for another engine"

TAGS = {  # by data.language_tags
    "target": 'the tag of the target language comes first: pieces = ["<tag fr>", *pieces]',
    "both": 'tags come first: pieces = ["<tag de>", *pieces], target_prefix=[["<tag fr>"]]',
}
INSTRUCTIONS = """To translate with it from Python (pip install ctranslate2 tokenizers):

    import ctranslate2, tokenizers
    source = tokenizers.Tokenizer.from_file("{folder}/source_tokenizer.json")
    target = tokenizers.Tokenizer.from_file("{folder}/target_tokenizer.json")
    source.encode_special_tokens = True  # "<s>" in a sentence is text
    translator = ctranslate2.Translator("{folder}", compute_type="int8")
    pieces = source.encode("...", add_special_tokens=False).tokens
    (result,) = translator.translate_batch([pieces], beam_size=5, return_end_token=True)
    print(target.decode([target.token_to_id(piece) for piece in result.hypotheses[0]]))"""


Format = Literal["ctranslate2", "hf", "argos", "firefox"]


class ExportOptions(Options):
    """The options of `seq2seq export`."""

    path: InputPath = argument("a checkpoint, or the folder of a run", "PATH")
    format: Format = value("the format to write", required=True)
    output: Path = value("a new folder; for argos, an .argosmodel", "PLACE", "-o", required=True)
    check: InputPath | None = value("sources to compare on, not the validation set", "FILE")
    sentences: int = value("compare on N sentences (%(default)s)", "N", default=64)


def run(options: ExportOptions) -> None:
    output = options.output
    check_new_folder(output)
    from seq2seq import checkpoint  # only here: torch takes a second

    saved = checkpoint.read(options.path)
    languages = saved.config["data"].get("languages")
    if languages and options.format in ("argos", "firefox"):
        raise ConfigError(
            f"--format {options.format} is for one direction, and this model has {len(languages)} "
            "languages: type --format ctranslate2"
        )
    rows, whence = read_sources(saved, options.check, options.sentences)
    lists = find_lists(saved, options.path)
    agreements = write(options.format, saved, output, rows, lists)
    if not agreements:
        print(printable(f"{output}: written, and not compared: pip install transformers"))
        return
    count = format_count(len(rows), "sentence")
    # Firefox's integers are compared with the float32 weights that they round.
    width = "in 8 bits" if options.format == "firefox" else "in float32"
    print(printable(f"{output}: written; compared {width} on {count} of {whence}:"))
    print(*agreements, sep="\n")
    if options.format != "firefox" and not all(each.holds for each in agreements):
        raise ConfigError(f"{output} translates differently: do not use it (docs/export.md)")
    if options.format == "ctranslate2":
        if lists is not None:
            print(printable(f"translate_batch(..., use_vmap=True) uses the shortlist in {output}"))
        print(printable(INSTRUCTIONS.format(folder=output)))
        if languages:
            print(
                f"This model has several languages: {TAGS[saved.config['data']['language_tags']]}"
            )


def find_lists(saved: "Saved", path: Path) -> "Lists":
    """The shortlist of the run; None if it has none."""
    from seq2seq.decoding.shortlist.file import find_shortlist, read_shortlist
    from seq2seq.text.tokenization.tokenizer import Tokenizers

    file = find_shortlist(path)
    return None if file is None else read_shortlist(file, Tokenizers(saved.source, saved.target))


def write(form: Format, saved: "Saved", output: Path, rows: Rows, lists: "Lists") -> "Agreements":
    """Write the model, and compare translations of `rows` (not possible without transformers)."""
    from seq2seq.interchange import argos, ctranslate2, firefox, huggingface_export
    from seq2seq.interchange.agreement import compare_translations

    if form == "argos":
        if output.suffix != ".argosmodel":
            raise ConfigError(f"-o {output} should be a file: {output}.argosmodel")
        return argos.export(saved, output, rows)
    if form == "firefox":
        return [firefox.export(saved, output, rows, lists)]
    if form == "ctranslate2":
        ctranslate2.export(saved, output)
        if lists is not None:
            ctranslate2.write_vocabulary_map(saved, output, lists)
        engine = ctranslate2.CTranslate2(saved, output)
        return compare_translations(saved, engine.translate, rows)
    huggingface_export.export(saved, output)
    try:
        other = huggingface_export.HuggingFace(saved, output)
    except ConfigError:  # transformers is not installed
        return []
    return compare_translations(saved, other.translate, rows)


def read_sources(saved: "Saved", given: Path | None, limit: int) -> tuple[Rows, str]:
    """Up to `limit` sources to compare on, and a name for where they come from."""
    from seq2seq.data.text.lines import read_lines
    from seq2seq.interchange.agreement import random_rows

    path = given or find_validation_source(saved)
    if path is None:
        return random_rows(saved, limit), "random pieces"
    texts = islice((line for line in read_lines(path) if line.strip()), limit)
    longest = saved.config["data"]["max_length"] - 1
    rows = [row for row in saved.source.encode_batch(list(texts)) if row and len(row) <= longest]
    if not rows:
        raise ConfigError(f"{path} has no sentence to compare: give another file with --check FILE")
    return rows, str(path)


def find_validation_source(saved: "Saved") -> Path | None:
    """The file of validation sources; None if it is gone, or not a file of lines."""
    from seq2seq.data.corpus.mixture import find_components
    from seq2seq.data.text.formats import TwoFiles

    data = saved.config["data"]
    spec = data.get("valid")
    if not isinstance(spec, str | list):
        return None
    try:
        form = find_components(data, "valid")[0].text
    except DataError:
        return None
    return form.source if isinstance(form, TwoFiles) else None
