"""Other programs open what is written: LibreOffice, python-pptx and openpyxl."""

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.document_files import translate

SPACE = "urn:oasis:names:tc:opendocument:xmlns"
FLAT = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    f'<office:document xmlns:office="{SPACE}:office:1.0" xmlns:text="{SPACE}:text:1.0" '
    'office:version="1.3" office:mimetype="application/vnd.oasis.opendocument.text">'
    "<office:body><office:text><text:h>a title</text:h><text:p>a <text:span>big</text:span> dog"
    "<text:tab/>runs.</text:p></office:text></office:body></office:document>"
)


def convert(path: Path, end: str) -> Path:
    """Convert a file with LibreOffice."""
    program = shutil.which("soffice") or pytest.skip("apt-get install libreoffice-writer")
    profile = f"-env:UserInstallation=file://{path.parent}/profile"
    command = [program, profile, "--headless", "--convert-to", end, "--outdir", path.parent, path]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return path.with_suffix(f".{end.partition(':')[0]}")


@pytest.mark.parametrize("end", ["odt", "docx"])
def test_libreoffice_reads_a_translated_text(tmp_path: Path, end: str) -> None:
    flat = tmp_path / "a.fodt"
    flat.write_text(FLAT)
    new = tmp_path / f"new.{end}"
    new.write_bytes(translate(new.name, convert(flat, end).read_bytes()))
    text = convert(new, "txt:Text (encoded):UTF8").read_text(encoding="utf-8-sig")
    assert text.split() == ["A", "TITLE", "A", "BIG", "DOG", "RUNS."]


def test_python_pptx_reads_a_translated_presentation() -> None:
    package = pytest.importorskip("pptx")
    slides = package.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[1])
    slide.shapes.title.text = "a title\vin two lines"
    paragraph = slide.placeholders[1].text_frame.paragraphs[0]
    for text, is_bold in (("a ", None), ("big", True), (" dog", None)):
        run = paragraph.add_run()
        run.text, run.font.bold = text, is_bold
    slide.notes_slide.notes_text_frame.text = "a note"
    file = io.BytesIO()
    slides.save(file)
    (new,) = package.Presentation(io.BytesIO(translate("a.pptx", file.getvalue()))).slides
    assert new.shapes.title.text == "A TITLE\vIN TWO LINES"
    runs = new.placeholders[1].text_frame.paragraphs[0].runs
    assert [(run.text.strip(), run.font.bold) for run in runs] == [
        *[("A", None), ("BIG", True), ("DOG", None)]
    ]
    assert new.notes_slide.notes_text_frame.text == "A NOTE"


def test_openpyxl_reads_a_translated_workbook() -> None:
    package = pytest.importorskip("openpyxl")
    book = package.Workbook()
    sheet = book.active
    rows = [["a dog", 3, "=A1"], ["two\nlines", 4.5, " at the edge "]]
    for row in rows:
        sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    new = package.load_workbook(io.BytesIO(translate("a.xlsx", file.getvalue()))).active
    changed = [[each.upper() if isinstance(each, str) else each for each in row] for row in rows]
    assert [[cell.value for cell in row] for row in new.iter_rows()] == changed
