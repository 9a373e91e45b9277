"""Models of Marian with random weights, and its formulas in NumPy."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from helpers.piece_models import model_bytes
from seq2seq.interchange.marian import DESCRIPTION

E, F, HEADS = 16, 20, 4


PIECES = {"\u2581": -2.0, "a": -3.0, "b": -3.5, "ab": -5.0, "\u2581a": -4.0, "c": -6.0}


V = len(PIECES) + 3  # and <unk>, <s>, </s> of the model


NONE = (None, None)


OPTIONS = {
    "type": "transformer",
    "enc-depth": 2,
    "dec-depth": 1,
    "dim-emb": E,
    "transformer-heads": HEADS,
    "transformer-dim-ffn": F,
    "transformer-ffn-activation": "relu",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-top": "",
    "transformer-decoder-autoreg": "self-attention",
    "tied-embeddings-all": True,
    "tied-embeddings": False,
}


RECURRENT = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"}


PRE = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}


class Marian:
    """A random model: its arrays, and what it computes, by the formulas of Marian."""

    def __init__(self, **changes: Any) -> None:
        self.options = {**OPTIONS, **changes}
        self.pre = self.options["transformer-preprocess"] == "n"
        self.random = np.random.default_rng(1)
        self.arrays: dict[str, np.ndarray] = {}
        self.recurrent = self.options["transformer-decoder-autoreg"] == "rnn"
        tied_all, tied = (self.options[f"tied-embeddings{n}"] for n in ("-all", ""))
        shared = tied_all or self.options.get("tied-embeddings-src")
        for name in ["Wemb"] if shared else ["encoder_Wemb", "decoder_Wemb"]:
            self.array(name, V, E)
        if not tied_all and not tied:
            self.array("decoder_ff_logit_out_W", E, V)
        self.array("decoder_ff_logit_out_b", 1, V)
        for stack, depth in (("encoder", "enc-depth"), ("decoder", "dec-depth")):
            for layer in range(1, self.options[depth] + 1):
                self.layer(f"{stack}_l{layer}", stack == "decoder")
            if self.pre:
                self.norm(f"{stack}_top", "")

    def with_options(self, options: dict[str, Any]) -> "Marian":
        """Change the options, but not the arrays."""
        self.options = {**self.options, **options}
        return self

    def array(self, name: str, *shape: int, mean: float = 0.0) -> None:
        self.arrays[name] = (mean + self.random.normal(0, 0.4, shape)).astype(np.float32)

    def norm(self, name: str, ending: str | None = None) -> None:
        ending = ("_pre" if self.pre else "") if ending is None else ending
        self.array(f"{name}_ln_scale{ending}", 1, E, mean=1.0)
        self.array(f"{name}_ln_bias{ending}", 1, E)

    def layer(self, at: str, decoder: bool) -> None:
        if decoder and self.recurrent:
            self.array(f"{at}_rnn_W", E, E)
            self.array(f"{at}_rnn_Wf", E, E)
            self.array(f"{at}_rnn_bf", 1, E)
            self.norm(f"{at}_rnn" if self.pre else f"{at}_rnn_ffn")
        for part in ["self", "context"] if decoder else ["self"]:
            if part == "self" and decoder and self.recurrent:
                continue
            for letter in "qkvo":
                self.array(f"{at}_{part}_W{letter}", E, E)
                self.array(f"{at}_{part}_b{letter}", 1, E)
            self.norm(f"{at}_{part}_Wo")
        for number, (rows, columns) in (("1", (E, F)), ("2", (F, E))):
            self.array(f"{at}_ffn_W{number}", rows, columns)
            self.array(f"{at}_ffn_b{number}", 1, columns)
        self.norm(f"{at}_ffn_ffn")

    def write(self, folder: Path) -> Path:
        lines = [f"{key}: {self.as_yaml(value)}" for key, value in self.options.items()]
        sizes = [] if "dim-vocabs" in self.options else ["dim-vocabs:", f"  - {V}", f"  - {V}"]
        text = "\n".join([*lines, *sizes, ""])
        special = np.frombuffer(text.encode() + b"\0", np.int8)
        np.savez(folder / "model.npz", **{DESCRIPTION: special}, **self.arrays)
        (folder / "vocab.spm").write_bytes(model_bytes(PIECES))
        return folder / "model.npz"

    def as_yaml(self, value: Any) -> str:
        return json.dumps(value)

    # The formulas, for one sentence: x (T, E).

    def get(self, name: str) -> np.ndarray:
        return self.arrays[name].astype(np.float64)

    def normed(self, x: np.ndarray, name: str, ending: str | None = None) -> np.ndarray:
        ending = ("_pre" if self.pre else "") if ending is None else ending
        centred = x - x.mean(-1, keepdims=True)
        unit = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return unit * self.get(f"{name}_ln_scale{ending}") + self.get(f"{name}_ln_bias{ending}")

    def around(self, x: np.ndarray, name: str, inside: Any) -> np.ndarray:
        if self.pre:
            return x + inside(self.normed(x, name))
        return self.normed(x + inside(x), name)

    def mapped(self, x: np.ndarray, at: str, letter: str) -> np.ndarray:
        return x @ self.get(f"{at}_W{letter}") + self.get(f"{at}_b{letter}")

    def attention(self, at: str, x: np.ndarray, source: np.ndarray, causal: bool) -> np.ndarray:
        q, k, v = (
            self.mapped(each, at, letter).reshape(len(each), HEADS, -1).transpose(1, 0, 2)
            for each, letter in ((x, "q"), (source, "k"), (source, "v"))
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(E / HEADS)
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return self.mapped((weights @ v).transpose(1, 0, 2).reshape(len(x), E), at, "o")

    def unit(self, at: str, x: np.ndarray) -> np.ndarray:
        state, states = np.zeros(E), []
        for token in x:
            f = 1 / (1 + np.exp(-self.mapped(token, at, "f")[0]))
            state = f * state + (1 - f) * (token @ self.get(f"{at}_W"))
            states.append(np.maximum(state, 0))
        return np.stack(states)

    def feed(self, at: str, x: np.ndarray) -> np.ndarray:
        hidden = self.mapped(x, at, "1")
        if self.options["transformer-ffn-activation"] == "relu":
            hidden = np.maximum(hidden, 0)
        else:
            hidden = hidden / (1 + np.exp(-hidden))
        return self.mapped(hidden, at, "2")

    def table(self, side: str) -> np.ndarray:
        return self.get("Wemb" if "Wemb" in self.arrays else f"{side}_Wemb")

    def placed(self, x: np.ndarray) -> np.ndarray:
        rates = np.exp(-np.log(10_000) * np.arange(E // 2) / (E // 2 - 1))
        angles = np.arange(len(x))[:, None] * rates
        return x * np.sqrt(E) + np.concatenate((np.sin(angles), np.cos(angles)), axis=1)

    def states(self, source: list[int]) -> np.ndarray:
        x = self.placed(self.table("encoder")[source])
        for layer in range(1, self.options["enc-depth"] + 1):
            at = f"encoder_l{layer}"
            x = self.around(
                x, f"{at}_self_Wo", lambda y, a=f"{at}_self": self.attention(a, y, y, False)
            )
            x = self.around(x, f"{at}_ffn_ffn", lambda y, a=f"{at}_ffn": self.feed(a, y))
        return self.normed(x, "encoder_top", "") if self.pre else x

    def logits(self, source: list[int], target: list[int]) -> np.ndarray:
        """The logits of the word after each prefix of the target, beginning with the empty one."""
        memory = self.states(source)
        x = self.placed(np.concatenate((np.zeros((1, E)), self.table("decoder")[target])))
        for layer in range(1, self.options["dec-depth"] + 1):
            at = f"decoder_l{layer}"
            if self.recurrent:
                norm = f"{at}_rnn" if self.pre else f"{at}_rnn_ffn"
                x = self.around(x, norm, lambda y, a=f"{at}_rnn": self.unit(a, y))
            else:
                x = self.around(
                    x, f"{at}_self_Wo", lambda y, a=f"{at}_self": self.attention(a, y, y, True)
                )
            x = self.around(
                x,
                f"{at}_context_Wo",
                lambda y, a=f"{at}_context": self.attention(a, y, memory, False),
            )
            x = self.around(x, f"{at}_ffn_ffn", lambda y, a=f"{at}_ffn": self.feed(a, y))
        x = self.normed(x, "decoder_top", "") if self.pre else x
        own = "decoder_ff_logit_out_W"
        out = self.get(own) if own in self.arrays else self.table("decoder").T
        return x @ out + self.get("decoder_ff_logit_out_b")
