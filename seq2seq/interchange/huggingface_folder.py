"""Folders of Hugging Face: read by the kind of model that their config.json names."""

from pathlib import Path

from seq2seq.base.errors import DataError
from seq2seq.interchange.files import Folder
from seq2seq.interchange.huggingface import read_opus_mt
from seq2seq.interchange.imported import ImportedModel, shorten
from seq2seq.interchange.many_languages import read_many_languages
from seq2seq.text.tokenization.directions import Codes

KINDS = {"marian": read_opus_mt, "m2m_100": read_many_languages}


def read_folder(path: Path, languages: Codes) -> ImportedModel:
    """Read the folder of a Marian model (OPUS-MT), or of M2M-100 or NLLB.

    Args:
        languages: source and target language; None = as in the folder.

    Raises: DataError naming the file and what is wrong with it; ConfigError for a language that the
        model does not know.
    """
    folder = Folder(path)
    names = ["config.json", "generation_config.json", "tokenizer_config.json"]
    configs = {name: folder.json(name) for name in names if name in folder or name == names[0]}
    kind = configs[names[0]].get("model_type")
    if not isinstance(kind, str) or kind not in KINDS:
        expected = "'marian' (OPUS-MT) or 'm2m_100' (M2M-100, NLLB)"
        raise DataError(f"{path}/{names[0]}: model_type={shorten(kind)} should be {expected}")
    return KINDS[kind](folder, configs, languages)
