"""The verbs of the demonstration corpus, as tables.

Columns: infinitive (prefix|verb where the prefix separates, sich/ before a reflexive), third person
singular of the present (- where regular; without the prefix), participle (ist/ where the perfect is
built with sein), English verb (an underscore stands for a space; the first word is inflected),
English past (- where regular), and what the frame needs: the kinds of noun that go with the verb,
by the letters of `nouns.NOUN_TABLES` (subject>object where the subject is no person), a preposition
and its English counterpart, or a conjunction.
"""

# Subject and accusative object.
TRANSITIVE = """
kaufen - gekauft buy bought FDCREUVIGN
verkaufen - verkauft sell sold FCREUVIGNB
suchen - gesucht look_for - ACREOVGPr
finden - gefunden find found ACROGPXN
verlieren - verloren lose lost CRG
holen - geholt fetch - FDCROUGI
tragen trägt getragen carry - UOGI
auf|machen - aufgemacht open - O
zu|machen - zugemacht close - O
an|machen - angemacht turn_on - E
aus|machen - ausgemacht turn_off - E
reparieren - repariert repair - EVUB
putzen - geputzt clean - OUVECr
waschen wäscht gewaschen wash - CVG
an|ziehen - angezogen put_on put C
aus|ziehen - ausgezogen take_off took C
an|probieren - anprobiert try_on - C
lesen liest gelesen read read R
schreiben - geschrieben write wrote R
vor|lesen liest vorgelesen read_aloud read R
übersetzen - übersetzt translate - R
essen isst gegessen eat ate F
trinken - getrunken drink drank D
probieren - probiert taste - FD
bestellen - bestellt order - FDRCU
bezahlen - bezahlt pay_for paid FDCRG
schneiden - geschnitten cut cut F
sehen sieht gesehen see saw PAVBN
hören - gehört hear heard PAI
kennen - gekannt know knew PX
treffen trifft getroffen meet met P
besuchen - besucht visit - PBv
lieben - geliebt love - PA
an|rufen - angerufen call - P
ein|laden lädt eingeladen invite - P
ab|holen - abgeholt pick_up - PRO
mit|bringen - mitgebracht bring_along brought FDGIR
mit|nehmen nimmt mitgenommen take_along took GOCP
verstehen - verstanden understand understood PX
begrüßen - begrüßt greet - P
vermissen - vermisst miss - PA
auf|wecken - aufgeweckt wake_up woke P
loben - gelobt praise - P
retten - gerettet rescue - PA
beobachten - beobachtet watch - PA
malen - gemalt paint - PABN
fotografieren - fotografiert photograph - PABN
bauen - gebaut build built BU
spielen - gespielt play - I
parken - geparkt park - V
füttern - gefüttert feed fed A
pflanzen - gepflanzt plant - N
gießen - gegossen water - N
bewundern - bewundert admire - BNPC
auf|räumen - aufgeräumt tidy_up - r
verlassen verlässt verlassen leave left rvB
erklären - erklärt explain - X
vergessen vergisst vergessen forget forgot XOG
besprechen bespricht besprochen discuss - XT
auf|schreiben - aufgeschrieben write_down wrote X
lösen - gelöst solve - X
vor|bereiten - vorbereitet prepare - TF
organisieren - organisiert organise - T
ab|sagen - abgesagt cancel - T
genießen - genossen enjoy - TD
verpassen - verpasst miss - TV
stehlen stiehlt gestohlen steal stole GVOC
verstecken - versteckt hide hid GRF
weg|werfen wirft weggeworfen throw_away threw GCF
benutzen - benutzt use - EG
schieben - geschoben push - UV
an|schauen - angeschaut look_at - BGC
jagen - gejagt chase - PA>A
beißen - gebissen bite bit A>P
fressen frisst gefressen eat ate A>F
aus|packen - ausgepackt unpack - OG
ein|packen - eingepackt pack - CGF
"""

# Subject alone; the last column names the kinds of subject.
INTRANSITIVE = """
liegen - gelegen lie lay CGRO
stehen - gestanden stand stood UBNEG
fehlen - gefehlt be_missing was CGRI
herunter|fallen fällt ist/heruntergefallen fall_down fell GONI
kaputt|gehen - ist/kaputtgegangen break broke EVUI
verschwinden - ist/verschwunden disappear - GVCR
schlafen schläft geschlafen sleep slept PA
lachen - gelacht laugh - P
weinen - geweint cry - P
arbeiten - gearbeitet work - P
tanzen - getanzt dance - P
singen - gesungen sing sang P
schwimmen - ist/geschwommen swim swam PA
warten - gewartet wait - PA
kochen - gekocht cook - P
auf|wachen - ist/aufgewacht wake_up woke PA
ein|schlafen schläft ist/eingeschlafen fall_asleep fell PA
auf|stehen - ist/aufgestanden get_up got P
an|kommen - ist/angekommen arrive - P
weg|laufen läuft ist/weggelaufen run_away ran PA
zurück|kommen - ist/zurückgekommen come_back came PA
fern|sehen sieht ferngesehen watch_television - P
ein|kaufen - eingekauft go_shopping went P
sich/aus|ruhen - ausgeruht rest - PA
sich/beeilen - beeilt hurry - P
sich/setzen - gesetzt sit_down sat PA
sich/hin|legen - hingelegt lie_down lay PA
sich/um|ziehen - umgezogen get_changed got P
sich/verlaufen verläuft verlaufen get_lost got PA
sich/langweilen - gelangweilt be_bored was P
"""

# The object is a dative in German, an ordinary object in English.
DATIVE = """
helfen hilft geholfen help - PA
danken - gedankt thank - P
folgen - ist/gefolgt follow - PAV
gratulieren - gratuliert congratulate - P
antworten - geantwortet answer - P
zu|hören - zugehört listen_to - P
vertrauen - vertraut trust - P
gehören - gehört belong_to - CGVRBE>P
gefallen gefällt gefallen please - UNBI>P
begegnen - ist/begegnet meet met PA
nach|laufen läuft ist/nachgelaufen run_after ran PA
zu|winken - zugewinkt wave_to - P
"""

# Dative recipient before accusative object, where English says object first and then "to".
DITRANSITIVE = """
geben gibt gegeben give gave FGRC
schicken - geschickt send sent RCG
zeigen - gezeigt show - GRBCr
leihen - geliehen lend lent VGRI
bringen - gebracht bring brought FDUGR
empfehlen empfiehlt empfohlen recommend - RFB
an|bieten - angeboten offer - FD
zurück|geben gibt zurückgegeben give_back gave GRI
"""

# Preposition with its case, English preposition (- for none), kinds of noun that follow it.
PREPOSITIONAL = """
warten - gewartet wait - auf+acc for PV
denken - gedacht think thought an+acc of PT
sprechen spricht gesprochen speak spoke mit+dat with P
lachen - gelacht laugh - über+acc at PR
träumen - geträumt dream - von+dat of VBPT
spielen - gespielt play - mit+dat with PAG
auf|passen - aufgepasst look - auf+acc after PA
nach|denken - nachgedacht think thought über+acc about XT
teil|nehmen nimmt teilgenommen take_part took an+dat in T
sich/freuen - gefreut be_happy was über+acc about GRT
sich/interessieren - interessiert be_interested was für+acc in BRX
sich/kümmern - gekümmert take_care took um+acc of PAN
sich/erinnern - erinnert remember - an+acc - PTX
sich/ärgern - geärgert be_angry was über+acc about XRT
sich/fürchten - gefürchtet be_afraid was vor+dat of APT
sich/verlieben - verliebt fall_in_love fell in+acc with P
sich/verabschieden - verabschiedet say_goodbye said von+dat to P
"""

# Movement towards a place.
DIRECTIONAL = """
gehen - ist/gegangen walk -
fahren fährt ist/gefahren go went
laufen läuft ist/gelaufen run ran
reisen - ist/gereist travel -
eilen - ist/geeilt hurry -
zurück|kehren - ist/zurückgekehrt return -
"""

# A finite clause follows: the last column names its conjunction, after the word that may announce
# the clause (sie freut sich darüber, dass), which English leaves out.
CLAUSAL = """
sagen - gesagt say said dass
glauben - geglaubt believe - dass
hoffen - gehofft hope - dass
hören - gehört hear heard dass
merken - gemerkt notice - dass
sich/fragen - gefragt wonder - ob
sich/freuen - gefreut be_happy was darüber+dass
sich/ärgern - geärgert be_angry was darüber+dass
sich/erinnern - erinnert remember - daran+dass
träumen - geträumt dream - davon+dass
prüfen - geprüft check - ob
"""

# An infinitive with zu follows.
INFINITIVAL = """
versuchen - versucht try -
vergessen vergisst vergessen forget forgot
planen - geplant plan -
beschließen - beschlossen decide -
versprechen verspricht versprochen promise -
an|fangen fängt angefangen start -
"""

# What one can be in the middle of, or do for three hours: the verbs that take gerade and durations.
DURATIVE = """
suchen reparieren putzen waschen lesen schreiben vorlesen übersetzen essen trinken tragen beobachten
malen fotografieren bauen spielen füttern gießen aufräumen besprechen vorbereiten schieben anschauen
auspacken einpacken schlafen lachen weinen arbeiten tanzen singen schwimmen warten kochen
fernsehen einkaufen sich_ausruhen helfen folgen zuhören warten_auf sprechen_mit spielen_mit jagen
fressen nachdenken_über aufpassen_auf
"""

WEATHER = """
regnen - geregnet rain -
schneien - geschneit snow -
"""
