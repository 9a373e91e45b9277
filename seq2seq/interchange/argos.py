"""Export packages for Argos Translate and LibreTranslate.

An `.argosmodel` file is a zip archive of one folder: `metadata.json`; `sentencepiece.model`, which
cuts the source into pieces and joins the pieces of the translation; and `model/` for CTranslate2.
"""

import json
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2seq.base.durable import replacing
from seq2seq.base.errors import ConfigError
from seq2seq.base.symbols import NAMES
from seq2seq.checkpoint import Saved
from seq2seq.interchange import ctranslate2
from seq2seq.interchange.agreement import Agreement, compare_translations
from seq2seq.text.tokenization import piece_model, sentencepiece

VERSION = "1.9"  # version of Argos Translate whose packages are written
STAMP = (2000, 1, 1, 0, 0, 0)  # date of all files, so that the same model gives the same bytes


def export(saved: Saved, path: Path, rows: list[list[int]]) -> list[Agreement]:
    """Write a package, and compare its model with the original.

    Args:
        rows: sources for the comparison, as ids without eos.

    Raises: ConfigError if Argos Translate cannot run the model; nothing is written then.
    """
    if saved.source is not saved.target:
        raise ConfigError(
            "Argos has one tokenizer for both languages, and this model has two: train with one "
            "SentencePiece model, or tokenizer=unigram tokenizer.joint=true"
        )
    model = sentencepiece.piece_model_of(saved.source)
    names = [*NAMES, *(piece.text for piece in model.pieces[3:])]
    source, target = (str(saved.config["data"][side]) for side in ("source", "target"))
    metadata = {
        "package_version": "1.0",
        "argos_version": VERSION,
        "type": "translate",
        "from_code": source,
        "from_name": source,  # no other name is known
        "to_code": target,
        "to_name": target,
    }
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        ctranslate2.export(saved, folder / "model", names)
        engine = ctranslate2.CTranslate2(saved, folder / "model", names)
        agreements = compare_translations(saved, engine.translate, rows)
        (folder / "sentencepiece.model").write_bytes(piece_model.serialize(model))
        (folder / "metadata.json").write_text(json.dumps(metadata, indent=1), encoding="utf-8")
        write_archive(folder, f"translate-{source}_{target}-1_0", path)
    return agreements


def write_archive(folder: Path, name: str, path: Path) -> None:
    """Write a zip archive of a folder, which is called `name` inside it."""
    with replacing(path) as target, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(each for each in folder.rglob("*") if each.is_file()):
            inside = zipfile.ZipInfo(f"{name}/{file.relative_to(folder).as_posix()}", STAMP)
            inside.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(inside, file.read_bytes())
