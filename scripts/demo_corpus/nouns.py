"""The nouns of the demonstration corpus, as tables.

Columns: German singular, gender, German plural, English singular (and /plural where irregular).
Gender is m, f or n; w is a weak masculine, whose singular takes the plural's ending in every case
but the nominative (der Student, den Studenten). A plural of - marks a noun that is not counted.
An underscore stands for a space: German writes compounds as one word, English as two.
"""

from demo_corpus import things

PEOPLE = """
Mann m Männer man/men
Frau f Frauen woman/women
Kind n Kinder child/children
Junge w Jungen boy
Mädchen n Mädchen girl
Lehrer m Lehrer teacher
Lehrerin f Lehrerinnen teacher
Student w Studenten student
Studentin f Studentinnen student
Arzt m Ärzte doctor
Ärztin f Ärztinnen doctor
Nachbar w Nachbarn neighbour
Nachbarin f Nachbarinnen neighbour
Freund m Freunde friend
Freundin f Freundinnen friend
Bruder m Brüder brother
Schwester f Schwestern sister
Vater m Väter father
Mutter f Mütter mother
Onkel m Onkel uncle
Tante f Tanten aunt
Großmutter f Großmütter grandmother
Sohn m Söhne son
Tochter f Töchter daughter
Gast m Gäste guest
Bäcker m Bäcker baker
Koch m Köche cook
Kellnerin f Kellnerinnen waitress
Polizist w Polizisten police_officer
Bürgermeister m Bürgermeister mayor
Schauspieler m Schauspieler actor
Sängerin f Sängerinnen singer
Künstler m Künstler artist
Bauer w Bauern farmer
Gärtner m Gärtner gardener
Pilot w Piloten pilot
Richter m Richter judge
Anwalt m Anwälte lawyer
Verkäuferin f Verkäuferinnen shop_assistant
Krankenschwester f Krankenschwestern nurse
Busfahrer m Busfahrer bus_driver
Taxifahrer m Taxifahrer taxi_driver
Chef m Chefs boss
Kollege w Kollegen colleague
Tourist w Touristen tourist
König m Könige king
Königin f Königinnen queen
Zauberer m Zauberer wizard
"""

ANIMALS = """
Hund m Hunde dog
Katze f Katzen cat
Vogel m Vögel bird
Pferd n Pferde horse
Kuh f Kühe cow
Maus f Mäuse mouse/mice
Ente f Enten duck
Affe w Affen monkey
Bär w Bären bear
Löwe w Löwen lion
Elefant w Elefanten elephant
Fuchs m Füchse fox
Wolf m Wölfe wolf/wolves
Ziege f Ziegen goat
Esel m Esel donkey
Frosch m Frösche frog
Schwein n Schweine pig
"""

IDEAS = """
Frage f Fragen question
Antwort f Antworten answer
Plan m Pläne plan
Idee f Ideen idea
Fehler m Fehler mistake
Problem n Probleme problem
Regel f Regeln rule
Aufgabe f Aufgaben task
Wort n Wörter word
Lösung f Lösungen solution
Geheimnis n Geheimnisse secret
"""

EVENTS = """
Fest n Feste party
Konzert n Konzerte concert
Spiel n Spiele game
Reise f Reisen journey
Hochzeit f Hochzeiten wedding
Ausflug m Ausflüge trip
Prüfung f Prüfungen exam
Besprechung f Besprechungen meeting
Fußballspiel n Fußballspiele football_match
"""

# Rooms are entered, venues attended, sites reached and surfaces stepped on: the German preposition,
# and with it the English one, depends on the kind of place.
ROOMS = """
Küche f Küchen kitchen
Garten m Gärten garden
Keller m Keller cellar
Wohnzimmer n Wohnzimmer living_room
Schlafzimmer n Schlafzimmer bedroom
Badezimmer n Badezimmer bathroom
Büro n Büros office
Werkstatt f Werkstätten workshop
Laden m Läden shop
"""

VENUES = """
Schule f Schulen school
Theater n Theater theatre
Kino n Kinos cinema
Museum n Museen museum
Restaurant n Restaurants restaurant
Bibliothek f Bibliotheken library
Universität f Universitäten university
Krankenhaus n Krankenhäuser hospital
Oper f Opern opera
"""

SITES = """
Bahnhof m Bahnhöfe station
Hafen m Häfen harbour
Flughafen m Flughäfen airport
Strand m Strände beach
See m Seen lake
Fluss m Flüsse river
Bushaltestelle f Bushaltestellen bus_stop
"""

SURFACES = """
Berg m Berge mountain
Insel f Inseln island
Dach n Dächer roof
Brücke f Brücken bridge
Balkon m Balkone balcony
Wiese f Wiesen meadow
"""

# One letter for each kind: the verbs and adjectives name the kinds they go with by these letters.
NOUN_TABLES = {
    "P": PEOPLE,
    "A": ANIMALS,
    "F": things.FOOD,
    "D": things.DRINKS,
    "C": things.CLOTHES,
    "R": things.READING,
    "E": things.DEVICES,
    "O": things.OPENABLE,
    "U": things.FURNITURE,
    "V": things.VEHICLES,
    "I": things.INSTRUMENTS,
    "G": things.GOODS,
    "N": things.PLANTS,
    "B": things.BUILDINGS,
    "X": IDEAS,
    "T": EVENTS,
    "r": ROOMS,
    "v": VENUES,
    "s": SITES,
    "u": SURFACES,
}
