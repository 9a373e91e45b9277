"""The nouns of the demonstration corpus that name things, in the columns of `nouns`."""

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
