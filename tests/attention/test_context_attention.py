"""Context attention, compared with loops over queries and keys."""

from typing import Any

import pytest
import torch
from cases import DIM, randn
from helpers.builders import assert_equal, gradients, mask_of, position_scheme, randomised
from helpers.gradients import held_for_the_gradient
from torch import Tensor

from seq2seq.attention import Attention, Place, Role, build_attention
from seq2seq.attention.context import ContextGate, GlobalContext, HierarchicalContext
from seq2seq.attention.dynamic import DynamicContext
from seq2seq.attention.memory import JointMemory
from seq2seq.attention.multihead import MultiHead

H, G, D = 4, 2, DIM // 4
NAMES = ("global_context", "hierarchical_context", "dynamic_context")
ROLES = list(Role)


def fresh(name: str, role: Role, **options: Any) -> Any:
    torch.default_generator.manual_seed(0)
    given = {"name": name, "num_heads": H, "num_kv_heads": G, **options}
    return build_attention(given, Place(role, DIM, DIM)).double()


def built(name: str, role: Role, **options: Any) -> Any:
    return randomised(fresh(name, role, **options))


class Given:
    """Queries, what they attend to, a mask, and the groups of three levels."""

    def __init__(self, role: Role, size: int = 7):
        self.role = role
        self.x = randn(3, 5 if role is Role.CROSS else size, DIM).requires_grad_()
        cross = role is Role.CROSS
        self.source = randn(3, size, DIM).requires_grad_() if cross else None
        self.mask = None if role is Role.DECODER else mask_of([size, size // 2, 1], size)
        word, sentence = torch.arange(size) // 2, torch.arange(size) // 4
        levels = torch.stack((word, sentence, torch.zeros(size, dtype=torch.long)), dim=-1)
        self.groups = levels.expand(3, -1, -1)

    @property
    def attended(self) -> Tensor:
        return self.x if self.source is None else self.source

    def visible(self, n: int, t: int, j: int) -> bool:
        real = self.mask is None or bool(self.mask[n, j])
        return real and (self.role is not Role.DECODER or j <= t)

    def mean(self, n: int, j: int, groups: Tensor | None = None) -> Tensor:
        """Mean of the tokens of its group, or of its row, that token j of row n may see."""
        members = [
            self.attended[n, t]
            for t in range(self.attended.shape[1])
            if self.visible(n, j, t) and (groups is None or groups[n, t] == groups[n, j])
        ]
        return torch.stack(members).mean(0) if members else torch.zeros(DIM).double()


def keys_of(attention: Any, given: Given, n: int, j: int, groups: Tensor | None) -> Tensor:
    """The changed key K~_j (G, D), by the printed formulas."""
    k, x = attention.k.weight @ given.attended[n, j], given.attended[n, j]
    if isinstance(attention, HierarchicalContext):
        means = [x, given.mean(n, j), given.mean(n, j)]
        if groups is not None:
            means = [given.mean(n, j, groups[..., level]) for level in range(3)]
        maps = [attention.levels[level].weight for level in ("word", "sentence", "paragraph")]
        k = k * (1 + sum(w @ m for w, m in zip(maps, means, strict=True)))
    elif isinstance(attention, GlobalContext):
        mean, change = given.mean(n, j), attention.of_keys
        if isinstance(change, ContextGate):
            return gated(change, k, mean).view(G, D)
        if change is not None:
            k = k * (1 + change.context.weight @ mean)
    return k.view(G, D)


def gated(change: ContextGate, x: Tensor, mean: Tensor) -> Tensor:
    c = change.context.weight @ mean
    heads = []
    for h, (of_x, of_c) in enumerate(zip(x.view(-1, D), c.view(-1, D), strict=True)):
        share = torch.sigmoid(of_x @ change.a[h] + of_c @ change.b[h])
        heads.append((1 - share) * of_x + share * of_c)
    return torch.cat(heads)


def query_of(attention: Any, given: Given, n: int, t: int) -> Tensor:
    """The query (H, D) before dynamic context changes it."""
    q = attention.q.weight @ given.x[n, t]
    change = getattr(attention, "of_queries", None)
    if change is not None:
        # A query of the decoder knows its prefix; others know everything they attend to.
        mean = given.mean(n, t if given.role is Role.DECODER else 0)
        q = (
            gated(change, q, mean)
            if isinstance(change, ContextGate)
            else q + change.context.weight @ mean
        )
    return q.view(H, D)


def by_loops(attention: Any, given: Given, groups: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Outputs and weights, one query and one head at a time."""
    N, T, _ = given.x.shape
    S = given.attended.shape[1]
    outs, weights = [], torch.zeros(N, H, T, S).double()
    for n in range(N):
        keys = [keys_of(attention, given, n, j, groups) for j in range(S)]
        values = [(attention.v.weight @ given.attended[n, j]).view(G, D) for j in range(S)]
        for t in range(T):
            seen, heads = [j for j in range(S) if given.visible(n, t, j)], []
            for h, q in enumerate(query_of(attention, given, n, t)):
                k = torch.stack([keys[j][h // (H // G)] for j in seen])
                v = torch.stack([values[j][h // (H // G)] for j in seen])
                a = (k @ q / D**0.5).softmax(0)
                if isinstance(attention, DynamicContext):
                    a = (k @ (q * (1 + attention.feedback[h] @ (a @ v))) / D**0.5).softmax(0)
                weights[n, h, t, seen] = a.detach()
                heads.append(a @ v)
            outs.append(attention.out.weight @ torch.cat(heads))
    return torch.stack(outs).view(N, T, DIM), weights


CASES = [
    ("global_context", {}),
    ("global_context", {"form": "additive"}),
    ("global_context", {"form": "gated"}),
    ("hierarchical_context", {}),
    ("dynamic_context", {}),
]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "name, options, grouped",
    [*((*case, False) for case in CASES), ("hierarchical_context", {}, True)],
)
def test_context_attention_follows_its_formula(
    name: str, options: Any, grouped: bool, role: Role
) -> None:
    attention, given = built(name, role, **options), Given(role)
    groups = given.groups if grouped else None
    expected, weights = by_loops(attention, given, groups)
    answer = attention(given.x, given.source, given.mask, need_weights=True, groups=groups)
    plain = attention(given.x, given.source, given.mask, groups=groups)
    real = torch.ones(given.x.shape[:2], dtype=torch.bool)
    if role is Role.ENCODER and given.mask is not None:
        real = given.mask
    assert_equal(answer.weights.transpose(1, 2)[real], weights.transpose(1, 2)[real])
    assert_equal(answer.out[real], expected[real])
    slope = torch.randn_like(expected) * real[..., None]
    leaves = {given.x, given.attended, *attention.parameters()}
    wanted = gradients((expected * slope).sum(), *leaves)
    for out in (answer.out, plain.out):
        assert_equal(gradients((out * slope).sum(), *leaves), wanted)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name, options", [case for case in CASES if case[1] != {"form": "gated"}])
def test_context_attention_starts_as_multi_head_attention_and_learns(
    name: str, options: Any, role: Role
) -> None:
    attention, given = fresh(name, role, **options), Given(role)
    plain = MultiHead(Place(role, DIM, DIM), num_heads=H, num_kv_heads=G).double()
    state = attention.state_dict()
    plain.load_state_dict({key: state[key] for key in plain.state_dict()})
    out = attention(given.x, given.source, given.mask).out
    assert_equal(out, plain(given.x, given.source, given.mask).out)
    out.square().sum().backward()
    added = [p for key, p in attention.named_parameters() if key not in plain.state_dict()]
    assert added and all(p.grad is not None and p.grad.any() for p in added)


def test_a_gate_starts_half_open_and_learns() -> None:
    attention, given = fresh("global_context", Role.ENCODER, form="gated"), Given(Role.ENCODER)
    attention(given.x, mask=given.mask).out.square().sum().backward()
    for gate in (attention.of_keys, attention.of_queries):
        assert not gate.a.any() and not gate.b.any()
        assert all(p.grad.any() for p in gate.parameters())


@pytest.mark.parametrize("role", ROLES)
def test_a_single_paragraph_equals_global_context(role: Role) -> None:
    levels, one = built("hierarchical_context", role), built("global_context", role)
    state = levels.state_dict()
    for level in ("word", "sentence"):
        state[f"levels.{level}.weight"].zero_()
    state["of_keys.context.weight"] = state["levels.paragraph.weight"]
    one.load_state_dict({key: state[key] for key in one.state_dict()})
    given = Given(role)
    expected = one(given.x, given.source, given.mask).out
    for groups in (None, torch.full((3, 7, 3), 5)):
        out = levels(given.x, given.source, given.mask, groups=groups).out
        assert_equal(out, expected)


@pytest.mark.parametrize("role", ROLES)
def test_without_groups_a_word_is_a_token_and_larger_groups_are_the_row(role: Role) -> None:
    attention, given = built("hierarchical_context", role), Given(role)
    said = torch.zeros(3, 7, 3, dtype=torch.long)
    said[..., 0] = torch.arange(7)
    expected = attention(given.x, given.source, given.mask).out
    for levels in (1, 2, 3):
        groups = said[..., :levels]
        assert_equal(attention(given.x, given.source, given.mask, groups=groups).out, expected)
    other = torch.ones_like(said) * torch.tensor([0, 1, 2])
    assert not torch.allclose(
        attention(given.x, given.source, given.mask, groups=other).out, expected
    )


def test_groups_of_padding_change_nothing() -> None:
    attention, given = built("hierarchical_context", Role.CROSS), Given(Role.CROSS)
    assert given.mask is not None
    other = torch.where(given.mask[..., None], given.groups, torch.randint(9, (3, 7, 3)))
    expected = attention(given.x, given.source, given.mask, groups=given.groups).out
    assert_equal(attention(given.x, given.source, given.mask, groups=other).out, expected)


def test_too_many_levels_of_groups_are_refused() -> None:
    attention, given = built("hierarchical_context", Role.ENCODER), Given(Role.ENCODER)
    with pytest.raises(ValueError, match="groups have 4 levels; there are 3: word, sentence"):
        attention(given.x, groups=torch.zeros(3, 7, 4, dtype=torch.long))


@pytest.mark.parametrize("name", NAMES)
def test_keys_are_rotated_after_context_has_changed_them(name: str) -> None:
    # With one position for all tokens, attention equals attention without positions.
    rope = build_attention(
        {"name": name, "num_heads": H},
        Place(Role.DECODER, DIM, DIM, position_scheme("rope")),
    )
    plain = build_attention({"name": name, "num_heads": H}, Place(Role.DECODER, DIM, DIM))
    randomised(rope)
    randomised(plain).load_state_dict(rope.state_dict())
    x, still = randn(2, 7, DIM), torch.zeros(7, dtype=torch.long)
    moved = torch.full((7,), 1000)
    expected = plain(x).out
    for positions in (still, moved):
        out = rope.advance(x, rope.new_memory(), positions)
        # If they were rotated first, the angles of queries and keys would not cancel.
        assert_equal(out, expected, 1e-7)
    assert not torch.allclose(rope(x).out, expected)


@torch.no_grad()
def test_a_decoder_remembers_one_sum_beside_its_tokens() -> None:
    for name, beside in (("global_context", DIM + 1), ("hierarchical_context", DIM + 1)):
        attention = built(name, Role.DECODER)
        for length in (3, 65):
            memory = attention.new_memory()
            for step in range(length):
                attention.advance(randn(2, 1, DIM), memory, torch.tensor([step]))
            assert isinstance(memory, JointMemory)
            tokens = 2 * length * 2 * G * D * 8
            assert memory.nbytes == tokens + 2 * beside * 8


def test_sums_stay_float32_in_a_bfloat16_model() -> None:
    attention: Attention[Any] = built("global_context", Role.DECODER).bfloat16()
    memory = attention.new_memory()
    attention.advance(randn(2, 3, DIM).bfloat16(), memory, torch.arange(3))
    assert all(x.dtype is torch.float32 for x in memory.context.state.values())


@pytest.mark.parametrize("name", NAMES)
def test_memory_for_the_gradient_grows_linearly_with_the_length(name: str) -> None:
    def held(size: int) -> int:
        attention = built(name, Role.DECODER).float()
        return sum(held_for_the_gradient(lambda: attention(torch.randn(1, size, DIM)).out))

    assert held(1024) < 2.1 * held(512)
