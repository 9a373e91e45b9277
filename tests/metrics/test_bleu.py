import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2seq.metrics.registry import DEFAULT, build_metrics, find_metrics
from seq2seq.metrics.scores import CorpusScore, corpus_scores
from seq2seq.training.module import SummedScore

REFERENCES = [
    "The cat sat on the mat, and it slept.",
    "A man in a red shirt rides a bicycle.",
    "Two dogs run along the beach.",
    "",
    "Nobody knows.",
]
HYPOTHESES = [
    "The cat is on the mat and it slept.",
    "A man with a red shirt is riding a bicycle.",
    "Two dogs are running along the beach.",
    "something",
    "",
]
sentences = st.lists(
    st.sampled_from(["the", "cat", "sat", "on", "mat", ",", "3.5", "$5."]), max_size=9
)
pairs = st.lists(st.tuples(sentences.map(" ".join), sentences.map(" ".join)), max_size=12)


def score(
    hypotheses: list[str], references: list[str], language: str | None = None
) -> list[CorpusScore]:
    return corpus_scores(hypotheses, build_metrics(find_metrics(DEFAULT), [references], language))


def test_scores_are_bleu_chrf_and_ter_as_sacrebleu_computes_them():
    bleu, chrf, ter = score(HYPOTHESES, REFERENCES)
    assert (bleu.name, chrf.name, ter.name) == ("BLEU", "chrF", "TER")
    assert ter.value == TER().corpus_score(HYPOTHESES, [REFERENCES]).score
    assert bleu.value == BLEU().corpus_score(HYPOTHESES, [REFERENCES]).score
    assert chrf.value == CHRF().corpus_score(HYPOTHESES, [REFERENCES]).score


def test_equal_texts_score_100_and_need_no_edits():
    assert [round(s.value, 6) for s in score(REFERENCES, REFERENCES)] == [100, 100, 0]


def test_ter_of_a_short_corpus_by_pencil_and_paper():
    # One word is replaced and one is missing: two edits, five words in the reference.
    assert score(["a b x d"], ["a b c d e"])[2].value == pytest.approx(100 * 2 / 5)
    # Two of five characters are wrong in Chinese; without spaces the sentence would be one word.
    assert score(["你好中国人"], ["你好世界人"], language="zh")[2].value == pytest.approx(40)
    assert score(["你好中国人"], ["你好世界人"])[2].value == pytest.approx(100)


def test_bleu_of_a_short_corpus_by_pencil_and_paper():
    # 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 quadruples match; the lengths are equal.
    shown = score(["a b c d x"], ["a b c d e"])[0]
    assert shown.value == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4))
    metric = SummedScore(BLEU())
    metric.update(["a b c d x"], ["a b c d e"])
    assert metric.counts.tolist() == [5, 5, 4, 3, 2, 1, 5, 4, 3, 2]


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        (None, "13a"),
        ("de", "13a"),
        ("zh", "zh"),
        ("zh-Hans", "zh"),
        ("zh_CN", "zh"),
        ("zho_Hans", "zh"),
        ("cmn_Hant", "zh"),
        ("yue", "zh"),
        ("wuu", "zh"),
        ("zh_Latn", "13a"),
        ("jpn_Jpan", "char"),
        ("tha", "char"),
        ("bod_Tibt", "char"),
        ("eng_Latn", "13a"),
        ("ja", "char"),
        ("JA", "char"),
        ("th", "char"),
    ],
)
def test_signature_names_the_tokenizer_of_the_language(language, tokenizer):
    for name, tok in (("BLEU", f"tok:{tokenizer}|"), ("chrF", "nc:6|")):
        signature = {s.name: s.signature for s in score(["你好"], ["你好"], language=language)}[
            name
        ]
        assert tok in signature and "version:" in signature


@settings(deadline=None, max_examples=50)
@given(pairs, st.data())
def test_statistics_of_parts_add_up_to_the_bleu_of_the_whole(corpus, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(corpus)), max_size=3)))
    parts = [
        corpus[i:j] for i, j in zip([0, *cuts], [*cuts, len(corpus)], strict=True)
    ]  # some may be empty: a rank without sentences
    metric = SummedScore(BLEU())
    for part in filter(None, parts):
        metric.update([h for h, _ in part], [r for _, r in part])
    hypotheses, references = [h for h, _ in corpus], [r for _, r in corpus]
    whole = BLEU().corpus_score(hypotheses, [references]).score if corpus else 0.0
    metric._update_count = 1
    assert metric.compute().item() == pytest.approx(whole, rel=1e-6)
