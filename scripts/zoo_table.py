"""Write the table of all attention mechanisms into a page.

    python scripts/zoo_table.py            # into docs/attention.md, between its two marks
    python scripts/zoo_table.py --check    # only check whether the page is up to date

The table has one line per preset of conf/attn. Description and paper come from the comment at the
beginning of the preset. Roles, cost, cache and weights are declared by its class. Positions are the
schemes that it can be built with. Compiled are those that `trainer.compile` makes one graph of.
"""

import argparse
import sys
from pathlib import Path

from zoo import Preset, list_positions, preset_names, presets

from seq2seq.attention import Place, Role

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "attention.md"
BEGIN, END = "<!-- zoo table: python scripts/zoo_table.py -->", "<!-- end of the zoo table -->"
HEADER = (
    "`attn=`",
    "what it is",
    "roles",
    "time",
    "held in training",
    "remembered in decoding",
    "weights",
    "positions inside",
    "compiled",
    "source",
)
DIM, HEADS = 64, 4  # sizes of the mechanisms built to find out which positions they support


def cells(preset: Preset) -> list[str]:
    """The cells of one line of the table, in the order of `HEADER`."""
    cost = preset.cost
    return [
        f"`{preset.name}`",
        preset.words,
        roles(preset),
        cost.time,
        cost.memory,
        cost.remembers,
        "yes" if preset.mechanism.shows_weights else "no",
        positions(preset),
        "no" if preset.build(Place(role_of(preset), DIM, DIM)).no_graph else "yes",
        preset.paper or "-",
    ]


def role_of(preset: Preset) -> Role:
    """A role that the mechanism is defined for."""
    return next(role for role in Role if role in preset.mechanism.roles)


def roles(preset: Preset) -> str:
    defined = [role for role in Role if role in preset.mechanism.roles]
    return "all" if len(defined) == len(Role) else ", ".join(defined)


def positions(preset: Preset) -> str:
    """The position schemes as text: `rope, alibi, t5`; for each role separately if they differ."""
    of_roles = {
        role: ", ".join(list_positions(preset, role, DIM, HEADS)) or "none"
        for role in (Role.ENCODER, Role.DECODER)
        if role in preset.mechanism.roles
    }
    if len(set(of_roles.values())) > 1:
        return "; ".join(f"{role}: {names}" for role, names in of_roles.items())
    return next(iter(of_roles.values()), "none")


def table() -> str:
    rows = [list(HEADER), ["---"] * len(HEADER), *map(cells, presets(preset_names()))]
    lines = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows)
    return "\n".join(f"| {line} |" for line in lines)


def insert_between_marks(page: str, content: str) -> str:
    """Replace the part of a page between its two marks.

    Raises: SystemExit unless the page has each mark exactly once.
    """
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise SystemExit(f"the page needs these two lines where the table goes:\n{BEGIN}\n{END}")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{content}\n\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", nargs="?", type=Path, default=PAGE)
    parser.add_argument(
        "--check", action="store_true", help="only check; exit with code 1 if out of date"
    )
    options = parser.parse_args()
    page = options.page.read_text(encoding="utf-8")
    wanted = insert_between_marks(page, table())
    if options.check and page != wanted:
        sys.exit(f"{options.page} is out of date: python scripts/zoo_table.py")
    if not options.check:
        options.page.write_text(wanted, encoding="utf-8")
        print(f"wrote {options.page}", file=sys.stderr)


if __name__ == "__main__":
    main()
