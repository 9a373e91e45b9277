"""The nouns of the demonstration corpus, as tables.

Columns: German singular, gender, German plural, English singular (and /plural where irregular).
Gender is m, f or n; w is a weak masculine, whose singular takes the plural's ending in every case
but the nominative (der Student, den Studenten). A plural of - marks a noun that is not counted.
An underscore stands for a space: German writes compounds as one word, English as two.
"""

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

FOOD = """
Apfel m Äpfel apple
Birne f Birnen pear
Banane f Bananen banana
Tomate f Tomaten tomato/tomatoes
Kartoffel f Kartoffeln potato/potatoes
Ei n Eier egg
Brot n - bread
Käse m - cheese
Reis m - rice
Fleisch n - meat
Kuchen m Kuchen cake
Apfelkuchen m Apfelkuchen apple_cake
Tomatensuppe f Tomatensuppen tomato_soup
Kartoffelsalat m Kartoffelsalate potato_salad
Brötchen n Brötchen bread_roll
Wurst f Würste sausage
Pfannkuchen m Pfannkuchen pancake
Keks m Kekse biscuit
Honig m - honey
Schokolade f - chocolate
Zwiebel f Zwiebeln onion
"""

DRINKS = """
Milch f - milk
Wasser n - water
Kaffee m - coffee
Tee m - tea
Wein m - wine
Bier n - beer
Apfelsaft m - apple_juice
Orangensaft m - orange_juice
Limonade f - lemonade
"""

CLOTHES = """
Hemd n Hemden shirt
Rock m Röcke skirt
Kleid n Kleider dress
Mantel m Mäntel coat
Hut m Hüte hat
Mütze f Mützen cap
Schal m Schals scarf/scarves
Jacke f Jacken jacket
Schuh m Schuhe shoe
Handschuh m Handschuhe glove
Pullover m Pullover sweater
Wintermantel m Wintermäntel winter_coat
Sommerkleid n Sommerkleider summer_dress
Lederjacke f Lederjacken leather_jacket
Strohhut m Strohhüte straw_hat
"""

READING = """
Buch n Bücher book
Zeitung f Zeitungen newspaper
Roman m Romane novel
Gedicht n Gedichte poem
Brief m Briefe letter
Liebesbrief m Liebesbriefe love_letter
Wörterbuch n Wörterbücher dictionary
Geschichte f Geschichten story
Märchen n Märchen fairy_tale
Bericht m Berichte report
Postkarte f Postkarten postcard
Nachricht f Nachrichten message
Rezept n Rezepte recipe
"""

DEVICES = """
Lampe f Lampen lamp
Radio n Radios radio
Computer m Computer computer
Heizung f Heizungen heater
Motor m Motoren engine
Waschmaschine f Waschmaschinen washing_machine
Kaffeemaschine f Kaffeemaschinen coffee_machine
Staubsauger m Staubsauger vacuum_cleaner
Ofen m Öfen oven
Drucker m Drucker printer
Wecker m Wecker alarm_clock
"""

OPENABLE = """
Tür f Türen door
Fenster n Fenster window
Haustür f Haustüren front_door
Schrank m Schränke cupboard
Koffer m Koffer suitcase
Kiste f Kisten box
Schublade f Schubladen drawer
Flasche f Flaschen bottle
Paket n Pakete parcel
Umschlag m Umschläge envelope
Gartentor n Gartentore garden_gate
Küchenfenster n Küchenfenster kitchen_window
Briefkasten m Briefkästen letter_box
"""

FURNITURE = """
Tisch m Tische table
Stuhl m Stühle chair
Bett n Betten bed
Sofa n Sofas sofa
Regal n Regale shelf/shelves
Teppich m Teppiche carpet
Spiegel m Spiegel mirror
Küchentisch m Küchentische kitchen_table
Gartenstuhl m Gartenstühle garden_chair
Sessel m Sessel armchair
"""

VEHICLES = """
Auto n Autos car
Fahrrad n Fahrräder bicycle
Boot n Boote boat
Zug m Züge train
Bus m Busse bus
Schiff n Schiffe ship
Lastwagen m Lastwagen truck
Straßenbahn f Straßenbahnen tram
Traktor m Traktoren tractor
Segelboot n Segelboote sailing_boat
Polizeiauto n Polizeiautos police_car
"""

INSTRUMENTS = """
Klavier n Klaviere piano
Gitarre f Gitarren guitar
Geige f Geigen violin
Flöte f Flöten flute
Trommel f Trommeln drum
Trompete f Trompeten trumpet
"""

GOODS = """
Tasche f Taschen bag
Schultasche f Schultaschen school_bag
Regenschirm m Regenschirme umbrella
Schlüssel m Schlüssel key
Autoschlüssel m Autoschlüssel car_key
Ball m Bälle ball
Puppe f Puppen doll
Geschenk n Geschenke gift
Messer n Messer knife/knives
Gabel f Gabeln fork
Löffel m Löffel spoon
Teller m Teller plate
Tasse f Tassen cup
Kaffeetasse f Kaffeetassen coffee_cup
Weinglas n Weingläser wine_glass
Topf m Töpfe pot
Bleistift m Bleistifte pencil
Bild n Bilder picture
Foto n Fotos photo
Kamera f Kameras camera
Leiter f Leitern ladder
Korb m Körbe basket
Münze f Münzen coin
Decke f Decken blanket
Kinokarte f Kinokarten cinema_ticket
"""

PLANTS = """
Blume f Blumen flower
Baum m Bäume tree
Rose f Rosen rose
Pflanze f Pflanzen plant
Apfelbaum m Apfelbäume apple_tree
Tulpe f Tulpen tulip
"""

BUILDINGS = """
Haus n Häuser house
Turm m Türme tower
Mauer f Mauern wall
Schloss n Schlösser castle
Hütte f Hütten hut
Wohnung f Wohnungen flat
Baumhaus n Baumhäuser tree_house
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
Wald m Wälder forest
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
    "F": FOOD,
    "D": DRINKS,
    "C": CLOTHES,
    "R": READING,
    "E": DEVICES,
    "O": OPENABLE,
    "U": FURNITURE,
    "V": VEHICLES,
    "I": INSTRUMENTS,
    "G": GOODS,
    "N": PLANTS,
    "B": BUILDINGS,
    "X": IDEAS,
    "T": EVENTS,
    "r": ROOMS,
    "v": VENUES,
    "s": SITES,
    "u": SURFACES,
}
