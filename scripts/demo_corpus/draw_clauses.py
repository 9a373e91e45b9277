"""Random clauses: a verb, the arguments of its frame, and adverbials that suit its tense."""

from dataclasses import replace

from demo_corpus import draw_adverbials, words
from demo_corpus.draw import Draw
from demo_corpus.draw_nominals import (
    companion,
    definite,
    dressed,
    noun_phrase,
    object_phrase,
    object_pronoun,
    other_name,
    subject,
)
from demo_corpus.lexicon import (
    ADJECTIVES,
    COMPARATIVES,
    COPULA,
    MODALS,
    NAMES,
    PROFESSIONS,
    VERBS,
    Modal,
    Verb,
)
from demo_corpus.meaning import (
    Adverb,
    Clause,
    Constituent,
    Name,
    Nominal,
    NounPhrase,
    Prepositional,
    Pronoun,
    Relative,
    Tense,
)

FRAMES = {
    "transitive": 54,
    "intransitive": 18,
    "dative": 8,
    "ditransitive": 14,
    "prepositional": 15,
    "directional": 8,
    "copula": 12,
}
QUANTIFIERS = ("every", "many", "all", "some")
Parts = dict[str, Constituent]


def clause(draw: Draw) -> Clause:
    """A clause of any frame."""
    frame = draw.weighted(FRAMES)
    return copular(draw) if frame == "copula" else verbal(draw, verb_of(draw, frame))


def verb_of(draw: Draw, frame: str, *, personal: bool = False, kind: str = "") -> Verb:
    """A verb of this frame, perhaps one with persons as subject or with this kind of object.

    Separable verbs count twice, for they have twice the forms: macht auf, aufmacht.
    """
    fitting = [
        verb
        for verb in VERBS[frame]
        if (not personal or "P" in verb.subjects) and kind in verb.complement
    ]
    return draw.pick(fitting + [verb for verb in fitting if verb.prefix])


def verbal(draw: Draw, verb: Verb) -> Clause:
    """A clause around this verb, with adverbials, negation and an unusual first constituent."""
    return fronted(draw, negated(draw, placed(draw, timed(draw, core(draw, verb)))))


def core(draw: Draw, verb: Verb) -> Clause:
    """The verb with its subject and objects, in some tense."""
    tense, modal = tense_and_modal(draw)
    modal = modal if verb.animate else None
    compound = modal is not None or tense is not Tense.PRESENT
    agent = subject(draw, verb.subjects, compound=compound)
    if verb.frame in ("dative", "ditransitive") and isinstance(agent, NounPhrase):
        # A genitive right before a dative would be hard to tell from it.
        agent = without_genitive(agent)
    return Clause(verb, {"subject": agent} | arguments(draw, verb, agent), tense, modal)


def tense_and_modal(draw: Draw) -> tuple[Tense, Modal | None]:
    """Present, perfect or future, or a modal verb."""
    kind = draw.weighted({"present": 46, "perfect": 32, "modal": 16, "future": 6})
    return (Tense.PRESENT, draw.pick(MODALS)) if kind == "modal" else (Tense(kind), None)


def arguments(draw: Draw, verb: Verb, agent: Nominal) -> Parts:
    """Objects and prepositional objects, as the frame of the verb asks."""
    match verb.frame:
        case "transitive" | "dative":
            return {"object": patient(draw, verb, agent)}
        case "ditransitive":
            recipient: Nominal = noun_phrase(draw, "P")
            if draw.chance(0.4):
                recipient = object_pronoun(draw, agent, dative=True)
            return {
                "recipient": recipient,
                "object": without_genitive(object_phrase(draw, verb.complement)),
            }
        case "prepositional":
            inner = noun_phrase(draw, verb.complement)
            return {"oblique": Prepositional(*verb.preposition, inner)}
        case "directional":
            return {"direction": draw_adverbials.place(draw, words.DIRECTIONS)}
    return {}


def patient(draw: Draw, verb: Verb, agent: Nominal) -> Nominal:
    """An object: a noun phrase or, for a person, a pronoun or a name."""
    if "P" in verb.complement and draw.chance(0.15):
        return object_pronoun(draw, agent, verb.frame == "dative")
    if "P" in verb.complement and draw.chance(0.12):
        return other_name(draw, agent)
    part = object_phrase(draw, verb.complement)
    return dressed(draw, part) if part.noun.kind == "P" and draw.chance(0.1) else part


def without_genitive(part: NounPhrase) -> NounPhrase:
    """The phrase without an owner in the genitive, which looks like a dative."""
    return replace(part, owner=None) if isinstance(part.owner, NounPhrase) else part


def timed(draw: Draw, told: Clause) -> Clause:
    """The clause with an adverbial of time or an adverb, and perhaps a particle."""
    parts, simple = dict(told.parts), told.tense is Tense.PRESENT and told.modal is None
    if draw.chance(0.4):
        parts["time"] = draw_adverbials.time(draw, told.verb, told.tense, told.modal)
    elif simple and told.verb.durative and draw.chance(0.6):
        parts["aspect"] = Adverb("gerade", "")
    elif simple and draw.chance(0.4):
        active = told.verb.animate and not told.verb.english.startswith("be ")
        liking = active and draw.chance(0.6)
        parts["liking" if liking else "frequency"] = (
            Adverb("gern", "") if liking else draw_adverbials.adverb(draw, words.FREQUENCIES)
        )
    if draw.chance(0.33):
        parts["particle"] = Adverb(draw.pick(words.STATEMENT_PARTICLES), "")
    return replace(told, parts=parts)


def placed(draw: Draw, told: Clause) -> Clause:
    """The clause with a place, a companion, a manner, a means of transport, or none of them."""
    parts, frame = dict(told.parts), told.verb.frame
    active = frame in ("transitive", "intransitive", "directional") and told.verb.animate
    if active and not told.verb.reflexive:
        if draw.chance(0.1):
            parts["manner"] = draw_adverbials.adverb(draw, words.MANNERS)
        elif draw.chance(0.1):
            parts["companion"] = companion(draw, told.subject)
    if told.verb.infinitive in ("fahren", "reisen") and draw.chance(0.5):
        parts["transport"] = draw_adverbials.transport(draw)
    elif (active or frame == "intransitive") and frame != "directional" and draw.chance(0.3):
        parts["place"] = draw_adverbials.place(draw, words.LOCATIONS)
    return replace(told, parts=parts)


def negated(draw: Draw, told: Clause) -> Clause:
    """The clause or its negation: nicht, or kein where the object is indefinite."""
    agent, target = told.parts["subject"], told.parts.get("object")
    quantified = isinstance(agent, NounPhrase) and agent.determiner in QUANTIFIERS
    if quantified or "frequency" in told.parts or not draw.chance(0.24):
        return told
    if not isinstance(target, NounPhrase) or target.determiner not in ("a", "") or target.count:
        return replace(told, negation="not")
    if "liking" in told.parts:
        return told
    none = replace(target, determiner="no")
    return replace(told, parts={**told.parts, "object": none}, negation="object.det")


def fronted(draw: Draw, told: Clause) -> Clause:
    """The clause with a constituent other than the subject first, if it stays unambiguous."""
    options = [role for role in ("time", "time", "place") if role in told.parts]
    target = told.parts.get("object")
    if isinstance(target, NounPhrase) and target.determiner not in ("no", ""):
        options += ["object"] * (told.verb.frame == "dative" or marked(told))
    if not options or draw.chance(0.4):
        return told
    return replace(told, front=draw.pick(options))


def marked(told: Clause) -> bool:
    """Do the forms alone tell subject from object, so that the object may come first?

    They do where one of the two is masculine singular (der, den), or a pronoun with two forms.
    """
    agent = told.parts["subject"]
    if isinstance(agent, Pronoun):
        return agent.person < 3 or (agent.gender == "m" and not agent.plural)
    return any(
        isinstance(part, NounPhrase) and part.noun.gender == "m" and not part.plural
        for part in (agent, told.parts.get("object"))
    )


def copular(draw: Draw) -> Clause:
    """A subject with an adjective, a comparative or a profession."""
    past = draw.chance(0.35)
    kind = draw.weighted({"adjective": 7, "comparative": 2, "profession": 2})
    if kind == "profession":
        return Clause(COPULA, professional(draw), past=past)
    if kind == "comparative":
        return Clause(COPULA, comparative(draw), past=past)
    adjective = draw.pick(ADJECTIVES)
    agent: Nominal = noun_phrase(draw, adjective.kinds, subject=True)
    if isinstance(agent, NounPhrase) and agent.adjective == adjective:
        agent = replace(agent, adjective=None)
    if "P" in adjective.kinds and draw.chance(0.5):
        agent = subject(draw, "P", compound=True)
    parts: Parts = {
        "subject": agent,
        "predicate": Adverb(adjective.german, f"{adjective.english}:0"),
    }
    return Clause(COPULA, parts, past=past, negation="not" if draw.chance(0.15) else "")


def comparative(draw: Draw) -> Parts:
    """Die Katze ist größer als die Maus."""
    adjective = draw.pick([word for word in ADJECTIVES if word.german in COMPARATIVES])
    german, english = COMPARATIVES[adjective.german]
    # Of one kind, so that no shirt is younger than a castle.
    kind = draw.pick(adjective.kinds)
    return {
        "subject": definite(draw, kind),
        "predicate": Adverb(german, " ".join(f"{word}:0" for word in english.split())),
        "standard": Prepositional("als", "nom", "than", definite(draw, kind)),
    }


def professional(draw: Draw) -> Parts:
    """Anna ist Ärztin, without the article that English needs."""
    gender = draw.pick("fm")
    agent = Name(draw.pick(NAMES[gender])) if draw.chance(0.6) else Pronoun(3, gender=gender)
    noun = draw.pick(PROFESSIONS[gender])
    english = " ".join(f"{word}:0" for word in noun.english.split())
    article = "an" if english[0] in "aeiou" else "a"
    return {"subject": agent, "predicate": Adverb(noun.german, f"{article}:- {english}")}


def with_relative(draw: Draw, told: Clause) -> Clause:
    """The clause with a relative clause on its subject (a person) or its object (a thing)."""
    agent, target = told.parts["subject"], told.parts.get("object")
    if isinstance(agent, NounPhrase) and agent.noun.kind == "P" and not agent.owner:
        frame = draw.pick([frame for frame in FRAMES if frame != "copula"])
        inner = placed(draw, core(draw, verb_of(draw, frame, personal=True)))
        return _attached(told, "subject", agent, inner)
    if isinstance(target, NounPhrase) and target.noun.kind not in "PA" and not target.owner:
        kind = target.content.kind if target.content else target.noun.kind
        verb = verb_of(draw, "transitive", personal=True, kind=kind)
        return _attached(told, "object", target, core(draw, verb))
    return told


def _attached(told: Clause, role: str, head: NounPhrase, inner: Clause) -> Clause:
    gap = replace(head, adjective=None)
    relative = Relative(replace(inner, parts={**inner.parts, role: gap}), role)
    return replace(told, parts={**told.parts, role: replace(head, relative=relative)})
