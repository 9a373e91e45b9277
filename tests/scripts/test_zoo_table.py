"""The table of mechanisms agrees with the code."""

import pytest
from helpers.builders import CONF
from helpers.builders import presets as preset_files
from zoo import describe_preset, list_positions, presets
from zoo_table import BEGIN, END, HEADER, PAGE, cells, insert_between_marks, table

from seq2seq.attention import Role


def test_the_table_in_docs_is_up_to_date_and_complete() -> None:
    page, shown = PAGE.read_text(encoding="utf-8"), table()
    assert page == insert_between_marks(page, shown), "type: python scripts/zoo_table.py"
    lines = shown.splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == preset_files("attn")
    for line in lines:
        assert line.replace("\\|", "").count("|") == len(HEADER) + 1
        assert "|  |" not in line


def test_a_row_describes_its_mechanism() -> None:
    mha, fixed = (dict(zip(HEADER, cells(p), strict=True)) for p in presets(["mha", "fixed"]))
    assert mha["what it is"] == "Multi-head attention"
    assert mha["source"] == "Vaswani et al. 2017, arXiv:1706.03762"
    assert (mha["roles"], mha["weights"], mha["positions inside"]) == (
        *("all", "yes", "rope, alibi, t5, transformer_xl"),
    )
    assert (fixed["roles"], fixed["weights"], fixed["positions inside"]) == ("cross", "no", "none")


def test_positions_are_those_that_the_score_can_take() -> None:
    (additive,) = presets(["additive"])
    assert list_positions(additive, Role.ENCODER, 64, 4) == ["alibi", "t5", "transformer_xl"]


def test_mechanisms_of_less_than_quadratic_cost_are_recognized() -> None:
    assert [p.is_subquadratic for p in presets(["mha", "additive", "fixed"])] == [
        *(False, False, True),
    ]


def test_only_what_is_between_the_marks_is_replaced() -> None:
    page = f"above\n{BEGIN}\nold\n{END}\nbelow\n"
    assert insert_between_marks(page, "new") == f"above\n{BEGIN}\n\nnew\n\n{END}\nbelow\n"
    with pytest.raises(SystemExit, match="needs these two lines"):
        insert_between_marks(f"{END}\n{BEGIN}", "new")


def test_dots_and_dashes_of_formulas_stay_in_the_words(tmp_path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("# Kernel, -w/2 |q - k|^2 . k. Beware: more\n# of it - Nobody 1964\nname: x\n")
    assert describe_preset(file) == ("Kernel, -w/2 |q - k|^2 . k", "Nobody 1964")
    assert describe_preset(CONF / "attn" / "concat_linear.yaml")[1] == ""
