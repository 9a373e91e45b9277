import re
import unicodedata
import warnings
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread

from seq2seq.base.errors import ConfigError, DataError
from seq2seq.pages.labels import choose_fonts, to_label
from seq2seq.pages.plots import RAMP, picture_format, plot_alignment

SOURCE = ["Gestern", "las", "ich", "es"]
TARGET = ["I", "read", "it"]
WEIGHTS = np.array([[0.1, 0.1, 0.8, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
BEGINNINGS = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF"}


def written(path):
    """The texts in an SVG picture, in order."""
    return [e.text for e in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "PNG"])
def test_the_file_is_a_picture_of_the_kind_its_suffix_says(suffix, tmp_path):
    path = tmp_path / "new folder" / f"map.{suffix}"
    plot_alignment(WEIGHTS, SOURCE, TARGET, path=path)
    assert path.read_bytes().startswith(BEGINNINGS[suffix.lower()])


@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_the_same_input_gives_the_same_bytes(suffix, tmp_path):
    first, second = tmp_path / f"1.{suffix}", tmp_path / f"2.{suffix}"
    for path in (first, second):
        plot_alignment([WEIGHTS, WEIGHTS], SOURCE, TARGET, path=path)
    assert first.read_bytes() == second.read_bytes()


def test_settings_of_the_user_neither_change_the_picture_nor_are_changed(tmp_path):
    plain, styled = tmp_path / "plain.png", tmp_path / "styled.png"
    plot_alignment(WEIGHTS, SOURCE, TARGET, path=plain)
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "figure.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        plot_alignment(WEIGHTS, SOURCE, TARGET, path=styled)
        assert dict(matplotlib.rcParams) == before
    assert plain.read_bytes() == styled.read_bytes()


def test_the_picture_holds_all_words_literally(tmp_path):
    source, target = ["$x_1$", "a<b>&c", "$", "\\alpha"], ["_it_", "$\\frac{1}{2}$", "x^2$y$"]
    plot_alignment(WEIGHTS, source, target, path=tmp_path / "map.svg")
    texts = written(tmp_path / "map.svg")
    assert texts[:7] == source + target


def test_what_cannot_be_seen_is_drawn_as_an_escape(tmp_path):
    source = ["a\nb", "\x00", "\u202etxt", "\ud800"]
    plot_alignment(WEIGHTS, source, TARGET, path=tmp_path / "map.svg")
    assert written(tmp_path / "map.svg")[:4] == ["a\\nb", "\\x00", "\\u202etxt", "\\ud800"]


@given(st.text(max_size=60), st.integers(3, 40))
def test_labels_are_visible_and_short(text, limit):
    label = to_label(text, limit)
    assert len(label) <= limit
    hidden = {c for c in label if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert hidden <= {"\u200c", "\u200d"}


def test_a_long_word_keeps_its_beginning_and_its_end():
    assert to_label("abcdefghij", 10) == "abcdefghij"
    assert to_label("abcdefghijk", 10) == "abcde…hijk"
    assert to_label("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645").count("\u200c") == 1


def test_darkness_grows_evenly_with_the_weight():
    colours = RAMP(np.linspace(0, 1, 21))[:, :3]
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    lightness = 116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16  # CIE L*
    steps = -np.diff(lightness)
    assert lightness[0] == pytest.approx(100, abs=0.1)
    assert steps.min() > 0.9 * steps.mean() and steps.max() < 1.1 * steps.mean()


def test_cells_stand_where_the_weights_are(tmp_path):
    weights = np.zeros((2, 3))
    weights[0, 2] = weights[1, 0] = 1.0
    plot_alignment(weights, ["a", "b", "c"], ["x", "y"], path=tmp_path / "map.svg")
    mesh = (tmp_path / "map.svg").read_text().split('id="QuadMesh_1"')[1].split("</g>")[0]
    cells = re.findall(r'd="M (\S+) (\S+) .*?fill: (#\w+)', mesh, re.DOTALL)
    dark = [(float(x), float(y)) for x, y, fill in cells if fill == "#0b2a5c"]
    columns = sorted({float(x) for x, _, _ in cells})
    rows = sorted({float(y) for _, y, _ in cells})  # SVG counts from the top
    assert dark == [(columns[2], rows[0]), (columns[0], rows[1])]
    widths = {round(b - a, 3) for a, b in pairwise(columns)}
    assert widths == {round(rows[1] - rows[0], 3)}


@pytest.mark.parametrize("source", [["שלום", "b", "c"], ["(القاهرة", "b", "c"]])
def test_the_columns_of_a_right_to_left_source_run_from_right_to_left(source, tmp_path):
    weights = np.zeros((2, 3))
    weights[0, 0] = weights[1, 1] = 1.0
    path = tmp_path / "map.svg"
    for words, order in ((["a", "b", "c"], 1), (source, -1)):
        plot_alignment(weights, words, ["x", "y"], path=path)
        mesh = path.read_text().split('id="QuadMesh_1"')[1].split("</g>")[0]
        cells = re.findall(r'd="M (\S+) (\S+) .*?fill: (#\w+)', mesh, re.DOTALL)
        dark = [(float(x), float(y)) for x, y, fill in cells if fill == "#0b2a5c"]
        columns = sorted({float(x) for x, _, _ in cells})[::order]
        rows = sorted({float(y) for _, y, _ in cells})  # the target runs down in either case
        assert dark == [(columns[0], rows[0]), (columns[1], rows[1])]
        svg = ElementTree.parse(path)
        texts = [e for e in svg.iter("{http://www.w3.org/2000/svg}text") if e.text in words]
        places = [float(e.attrib["x"]) for e in texts]
        assert [e.text for e in texts] == words and places == sorted(places, reverse=order < 0)


def test_the_picture_grows_with_the_words_up_to_a_limit(tmp_path):
    def size(n):
        label = [f"word{i}" for i in range(n)]
        plot_alignment(np.ones((1, n)), label, ["x"], path=tmp_path / f"{n}.png")
        return imread(tmp_path / f"{n}.png").shape[1]

    assert size(1) < size(3) < size(25) < size(60) <= 16 * 200
    assert size(300) <= 16 * 200


def test_every_word_of_sixty_is_named_and_some_of_six_hundred(tmp_path):
    for n in (60, 600):
        label = [f"w{i}" for i in range(n)]
        plot_alignment(np.full((1, n), 0.5), label, ["x"], path=tmp_path / f"{n}.svg")
    assert set(written(tmp_path / "60.svg")) >= {f"w{i}" for i in range(60)}
    assert 100 < len(written(tmp_path / "600.svg")) < 400


@pytest.mark.parametrize(
    ("heads", "source", "target"),
    [(4, 10, 60), *(pytest.param(*c, marks=pytest.mark.slow) for c in ((8, 60, 60), (16, 60, 10)))],
)
def test_every_word_is_named_beside_the_maps_of_all_heads(heads, source, target, tmp_path):
    words = [f"s{i}" for i in range(source)], [f"t{j}" for j in range(target)]
    plot_alignment(np.full((heads, target, source), 0.5), *words, path=tmp_path / "map.svg")
    assert set(written(tmp_path / "map.svg")) >= {*words[0], *words[1]}


def test_maps_of_heads_stand_as_cells_are_largest(tmp_path):
    def size(heads, source, target):
        words = ["a"] * source, ["b"] * target
        path = tmp_path / "map.png"
        plot_alignment(np.full((heads, target, source), 0.5), *words, path=path)
        return imread(path).shape[:2]

    height, width = size(4, 5, 5)  # short: two beside each other, twice
    assert 0.8 < height / width < 1.2
    height, width = size(4, 80, 10)  # wide: four below each other
    assert height < width < 16 * 200 and height > 4 * 10 * 14 / 80 * 200
    height, width = size(4, 10, 80)  # high: four beside each other
    assert height > width > 4 * 10 * 14 / 80 * 200


def test_heads_have_their_names_and_one_scale(tmp_path):
    heads = np.stack([WEIGHTS] * 5)
    plot_alignment(heads, SOURCE, TARGET, path=tmp_path / "a.svg")
    texts = written(tmp_path / "a.svg")
    assert [t for t in texts if t.startswith("head")] == [f"head {i}" for i in range(1, 6)]
    assert texts.count("attention") == 1


def test_a_tensor_can_be_drawn(tmp_path):
    plot_alignment(torch.eye(2), ["a", "b"], ["x", "y"], path=tmp_path / "map.png")
    assert (tmp_path / "map.png").exists()


def test_characters_without_font_give_one_warning_that_names_them(tmp_path):
    text = "\U00017000我"  # Tangut is in few fonts
    _, missing = choose_fonts(text)
    if not missing:
        pytest.skip("the fonts of this machine have all characters of the test")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for suffix in BEGINNINGS:
            plot_alignment([[1.0]], [text], ["me"], path=tmp_path / f"map.{suffix}")
    assert len(caught) == len(BEGINNINGS)
    for warning in caught:
        assert all(f"{c} (U+{ord(c):04X})" in str(warning.message) for c in missing)
        assert "apt install fonts-noto-" in str(warning.message)
        assert warning.filename == __file__


def test_chinese_is_drawn_without_a_warning_where_a_font_has_it(tmp_path):
    families, missing = choose_fonts("你好")
    if missing:
        pytest.skip("no font of this machine has Chinese")
    for suffix in BEGINNINGS:
        plot_alignment([[1.0]], ["你好"], ["Zürich"], path=tmp_path / f"map.{suffix}")
    assert f"'{families[1]}'" in (tmp_path / "map.svg").read_text(encoding="utf-8")


def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path):
    for name in ("map.jpg", "map", ".png"):
        with pytest.raises(ConfigError, match=r"\.png, \.svg, \.pdf"):
            picture_format(tmp_path / name)
    with pytest.raises(ConfigError, match=r"'\.jpg' is not a known picture format"):
        plot_alignment(WEIGHTS, SOURCE, TARGET, path=tmp_path / "map.jpg")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write the picture"):
        plot_alignment(WEIGHTS, SOURCE, TARGET, path=tmp_path / "file" / "map.png")


def test_no_words_are_refused(tmp_path):
    with pytest.raises(DataError, match="no words"):
        plot_alignment(np.zeros((0, 3)), ["a", "b", "c"], [], path=tmp_path / "map.png")


def test_weights_that_do_not_fit_are_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "map.png"
    with pytest.raises(ValueError, match=r"shape \(3, 4\); the words need \(4, 3\)"):
        plot_alignment(WEIGHTS, TARGET, SOURCE, path=path)
    with pytest.raises(ValueError, match="should be finite"):
        plot_alignment(np.full((3, 4), np.nan), SOURCE, TARGET, path=path)
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        plot_alignment(WEIGHTS[0], SOURCE, TARGET, path=path)
    assert not path.exists()
