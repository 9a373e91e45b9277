"""Adjectives, names, adverbs, prepositions, conjunctions and numerals, as tables.

An underscore stands for a space. English words of an adverbial have the index of the German word
that they translate: "vor drei Tagen" is "three:1 days:2 ago:0".
"""

# German, English, the kinds of noun they describe (letters of `nouns.NOUN_TABLES`), and, where it
# differs, the stem before an ending.
ADJECTIVES = """
alt old PAREOUVIGBrvu
jung young PA
neu new CREOUVIGBTX
groß big PACOUVGNBXTrvsu
klein small PACOUVGNBTrvsu
schön beautiful PACOUVIGNBTrvsu
hässlich ugly CUVGB
teuer expensive FCREUVIGNB teur
billig cheap FCREUVIGNB
rot red COUVGN
blau blue COUVG
grün green COUVG
gelb yellow COVGN
schwarz black ACOUVG
weiß white ACOUVGN
braun brown AOUG
müde tired PA müd
freundlich friendly P
nett nice P
klug clever PA
fleißig diligent P
faul lazy PA
glücklich happy P
traurig sad PR
stark strong PA
krank sick PA
hungrig hungry PA
reich rich P
arm poor P
berühmt famous PBvs
lustig funny PRX
mutig brave PA
schüchtern shy P
höflich polite P
neugierig curious PA
wild wild A
süß sweet F
frisch fresh F
warm warm FD
kalt cold FDrsu
heiß hot FD
lecker delicious FD
gut good FDXR
schlecht bad DXR
schwer heavy UEOG
leer empty OGVrv
sauber clean CUVOr
schmutzig dirty CUVOGr
kaputt broken EVUIG
modern modern BEUrvs
nützlich useful EGX
seltsam strange PRXGT
wichtig important RXT
schwierig difficult XT
einfach simple XR
interessant interesting RXTv
langweilig boring RTX
lang long RTX
kurz short RTX
ruhig quiet rvsu
dunkel dark rvu dunkl
hell bright r
rund round UG
elegant elegant C
"""

# Positive, comparative and English comparative, for sentences that compare.
COMPARATIVES = """
alt älter older
jung jünger younger
groß größer bigger
klein kleiner smaller
klug klüger cleverer
stark stärker stronger
teuer teurer more_expensive
billig billiger cheaper
schwer schwerer heavier
reich reicher richer
schön schöner more_beautiful
wichtig wichtiger more_important
schwierig schwieriger more_difficult
interessant interessanter more_interesting
"""

WOMEN = "Anna Maria Laura Julia Sophie Emma Lena Clara Nina Eva Lisa Sarah Mia Paula Helena"
MEN = "Peter Paul Martin Tom Felix Max Jan David Simon Daniel Anton Oskar Robert Karl Leon"

# Nouns for what a person is to somebody, and for what a person does (by gender).
RELATIONS = """
Freund Freundin Bruder Schwester Vater Mutter Onkel Tante Sohn Tochter Nachbar Nachbarin Lehrer
Lehrerin Chef Kollege Gast
"""
PROFESSIONS = {
    "f": "Lehrerin Studentin Ärztin Sängerin Kellnerin Verkäuferin Krankenschwester",
    "m": "Lehrer Student Arzt Schauspieler Gärtner Pilot Richter Busfahrer",
}

# Adverbials of time, by the tenses they go with: a future one turns the German present into "will".
PAST_TIMES = {
    "gestern": "yesterday:0",
    "vorgestern": "the:0 day:0 before:0 yesterday:0",
    "gestern Abend": "yesterday:0 evening:1",
    "letzte Woche": "last:0 week:1",
    "letzten Sommer": "last:0 summer:1",
    "letztes Jahr": "last:0 year:1",
}
FUTURE_TIMES = {
    "morgen": "tomorrow:0",
    "übermorgen": "the:0 day:0 after:0 tomorrow:0",
    "bald": "soon:0",
    "nächste Woche": "next:0 week:1",
    "nächstes Jahr": "next:0 year:1",
}
PRESENT_TIMES = {
    "heute": "today:0",
    "jetzt": "now:0",
    "jeden Tag": "every:0 day:1",
    "jede Woche": "every:0 week:1",
}
ANY_TIMES = {
    "am Morgen": "in:0 the:0 morning:1",
    "am Nachmittag": "in:0 the:0 afternoon:1",
    "am Abend": "in:0 the:0 evening:1",
    "in der Nacht": "at:0 night:2",
    "am Wochenende": "at:0 the:0 weekend:1",
    "im Frühling": "in:0 spring:1",
    "im Sommer": "in:0 summer:1",
    "im Herbst": "in:0 autumn:1",
    "im Winter": "in:0 winter:1",
    "am Montag": "on:0 Monday:1",
    "am Dienstag": "on:0 Tuesday:1",
    "am Mittwoch": "on:0 Wednesday:1",
    "am Donnerstag": "on:0 Thursday:1",
    "am Freitag": "on:0 Friday:1",
    "am Samstag": "on:0 Saturday:1",
    "am Sonntag": "on:0 Sunday:1",
}
MONTHS = {
    "Januar": "January",
    "März": "March",
    "April": "April",
    "Mai": "May",
    "Juni": "June",
    "Juli": "July",
    "August": "August",
    "Oktober": "October",
    "Dezember": "December",
}
# Anfang Mai: at the beginning of May.
MONTH_PARTS = {"Anfang": "at beginning", "Mitte": "in middle", "Ende": "at end"}
FREQUENCIES = {
    "oft": "often:0",
    "immer": "always:0",
    "nie": "never:0",
    "selten": "rarely:0",
    "manchmal": "sometimes:0",
    "meistens": "usually:0",
}
MANNERS = {
    "schnell": "quickly:0",
    "langsam": "slowly:0",
    "leise": "quietly:0",
    "allein": "alone:0",
    "sofort": "at:0 once:0",
    "vorsichtig": "carefully:0",
    "heimlich": "secretly:0",
}
DURATIONS = {"Stunden": "hours", "Tage": "days", "Wochen": "weeks", "Monate": "months"}
PERIODS = {"Tagen": "days", "Wochen": "weeks", "Monaten": "months", "Jahren": "years"}

# Particles colour a sentence without adding a word to its translation.
STATEMENT_PARTICLES = ["ja", "doch", "halt", "eben"]
QUESTION_PARTICLES = ["denn", "eigentlich"]
REQUEST_PARTICLES = ["mal", "doch mal"]

# What is drunk or eaten, by the measure: eine Tasse Kaffee, a cup of coffee; what is counted stands
# in the plural: ein Korb Äpfel, a basket of apples.
MEASURES = {
    "Tasse f Tassen cup": ["Kaffee", "Tee", "Milch"],
    "Glas n Gläser glass": [
        "Milch",
        "Wasser",
        "Wein",
        "Bier",
        "Apfelsaft",
        "Orangensaft",
        "Limonade",
    ],
    "Flasche f Flaschen bottle": ["Wasser", "Wein", "Bier", "Apfelsaft", "Limonade"],
    "Stück n Stücke piece": ["Brot", "Käse", "Fleisch", "Schokolade"],
    "Korb m Körbe basket": ["Apfel", "Birne", "Banane", "Tomate", "Brötchen"],
    "Kiste f Kisten box": ["Ei", "Kartoffel", "Zwiebel", "Keks", "Apfel"],
}

COORDINATORS = {"und": "and", "aber": "but"}
SUBORDINATORS = {
    "weil": "because",
    "obwohl": "although",
    "wenn": "when",
    "falls": "if",
    "während": "while",
    "bevor": "before",
    "nachdem": "after",
    "dass": "that",
    "ob": "whether",
}

# (preposition and article) -> contraction: German never writes the two apart here.
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("in", "das"): "ins",
    ("an", "das"): "ans",
}

# Kind of place -> (German preposition, case, English preposition) for being there and going there.
LOCATIONS = {
    "r": ("in", "dat", "in"),
    "v": ("in", "dat", "at"),
    "s": ("an", "dat", "at"),
    "u": ("auf", "dat", "on"),
}
DIRECTIONS = {
    "r": ("in", "acc", "into"),
    "v": ("in", "acc", "to"),
    "s": ("zu", "dat", "to"),
    "u": ("auf", "acc", "onto"),
}

UNITS = {
    1: ("ein", "one"),
    2: ("zwei", "two"),
    3: ("drei", "three"),
    4: ("vier", "four"),
    5: ("fünf", "five"),
    6: ("sechs", "six"),
    7: ("sieben", "seven"),
    8: ("acht", "eight"),
    9: ("neun", "nine"),
    10: ("zehn", "ten"),
    11: ("elf", "eleven"),
    12: ("zwölf", "twelve"),
}
TENS = {
    20: ("zwanzig", "twenty"),
    30: ("dreißig", "thirty"),
    40: ("vierzig", "forty"),
    50: ("fünfzig", "fifty"),
}


def numeral(value: int) -> tuple[str, str]:
    """German and English numeral: German says the unit first and writes one word.

    The English parts stay apart (twenty three), so that an alignment can show where each came from.
    """
    if value in UNITS:
        return UNITS[value]
    if value in TENS:
        return TENS[value]
    tens, unit = TENS[value - value % 10], UNITS[value % 10]
    return f"{unit[0]}und{tens[0]}", f"{tens[1]} {unit[1]}"
