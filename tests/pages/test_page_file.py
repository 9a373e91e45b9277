"""The page of alignments as a file, which needs no browser to be looked into."""

import json
import re
from pathlib import Path

import pytest
from helpers import alignments
from helpers.alignments import FIRST, HOSTILE, random_alignment

from seq2seq.alignment.choice import Alignment
from seq2seq.base.errors import ConfigError
from seq2seq.pages.page import write_page

alignments = alignments.alignments


def test_the_data_cannot_end_the_element_it_stands_in(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_page(path, [random_alignment(" ".join(HOSTILE), "y")], FIRST)
    html = path.read_text(encoding="utf-8")
    data = html.split('id="data">', 1)[1].split("</script>", 1)[0]
    assert not set("<>&") & set(data) and data.isascii()
    assert json.loads(data)["alignments"]["pairs"][0]["target"] == ["y"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", html)  # a name, not an address


def test_the_same_alignments_make_the_same_bytes(
    alignments: list[Alignment], tmp_path: Path
) -> None:
    for name in ("a.html", "b.html"):
        write_page(tmp_path / name, alignments, FIRST)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_what_cannot_be_written_is_refused(alignments: list[Alignment], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write the page"):
        write_page(tmp_path / "file" / "page.html", alignments, FIRST)
