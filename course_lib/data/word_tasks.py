"""Eight tasks of word pairs, lists of our own: a model reads some pairs and is asked for the partner of one more word.

examples, asked = pairs("plurals", "train"), pairs("plurals", "test")      # [("child", "children"), ...]
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from course_lib.data import SPLITS, check_split, sha256, tables

if TYPE_CHECKING:
    from datasets import DatasetDict

VERSION = 1  # of the lists and the split: raise it when one of them changes
SIZES = {"train": 32, "validation": 16, "test": 32}  # pairs of each task
SUFFIX = "-zo"  # of the made-up task: no text that a model was trained on has such pairs

# word:answer, the words of an answer joined by _; where a rule gives the answers, the words alone.
LISTS = {
    "capitals": """
        France:Paris Germany:Berlin Italy:Rome Spain:Madrid Portugal:Lisbon Austria:Vienna Belgium:Brussels
        Poland:Warsaw Hungary:Budapest Greece:Athens Sweden:Stockholm Norway:Oslo Denmark:Copenhagen Finland:Helsinki
        Iceland:Reykjavik Ireland:Dublin Romania:Bucharest Bulgaria:Sofia Croatia:Zagreb Serbia:Belgrade
        Slovenia:Ljubljana Slovakia:Bratislava Albania:Tirana Estonia:Tallinn Latvia:Riga Lithuania:Vilnius
        Russia:Moscow Belarus:Minsk Turkey:Ankara Cyprus:Nicosia Malta:Valletta Armenia:Yerevan Azerbaijan:Baku
        Iran:Tehran Iraq:Baghdad Syria:Damascus Lebanon:Beirut Jordan:Amman Egypt:Cairo Libya:Tripoli Tunisia:Tunis
        Algeria:Algiers Morocco:Rabat Sudan:Khartoum Ethiopia:Addis_Ababa Kenya:Nairobi Uganda:Kampala Rwanda:Kigali
        Ghana:Accra Nigeria:Abuja Senegal:Dakar Mali:Bamako Angola:Luanda Zambia:Lusaka Zimbabwe:Harare
        Namibia:Windhoek Mozambique:Maputo Somalia:Mogadishu Cuba:Havana Jamaica:Kingston Peru:Lima Ecuador:Quito
        Venezuela:Caracas Argentina:Buenos_Aires Uruguay:Montevideo Chile:Santiago Nicaragua:Managua Canada:Ottawa
        Japan:Tokyo China:Beijing Vietnam:Hanoi Thailand:Bangkok Philippines:Manila Nepal:Kathmandu Bangladesh:Dhaka
        Pakistan:Islamabad Afghanistan:Kabul Australia:Canberra Qatar:Doha India:New_Delhi
    """,
    "antonyms": """
        hot:cold big:small tall:short up:down black:white day:night good:bad happy:sad rich:poor fast:slow strong:weak
        soft:hard wet:dry full:empty left:right high:low early:late near:far inside:outside above:below before:after
        always:never life:death war:peace first:last dark:light thick:thin wide:narrow deep:shallow true:false yes:no
        north:south east:west victory:defeat success:failure friend:enemy hero:villain question:answer
        arrival:departure entrance:exit import:export increase:decrease maximum:minimum positive:negative major:minor
        innocent:guilty alive:dead awake:asleep expensive:cheap public:private visible:invisible
        possible:impossible legal:illegal top:bottom front:back over:under sunrise:sunset optimist:pessimist
        superior:inferior interior:exterior temporary:permanent artificial:natural floor:ceiling horizontal:vertical
        even:odd plus:minus urban:rural majority:minority profit:loss more:less everything:nothing hello:goodbye
        heaven:hell predator:prey internal:external forward:backward introvert:extrovert input:output senior:junior
        winner:loser
    """,
    "plurals": """
        mouse:mice child:children foot:feet tooth:teeth goose:geese woman:women man:men ox:oxen knife:knives wife:wives
        wolf:wolves leaf:leaves loaf:loaves thief:thieves calf:calves half:halves shelf:shelves potato:potatoes
        tomato:tomatoes echo:echoes crisis:crises analysis:analyses hypothesis:hypotheses thesis:theses
        criterion:criteria phenomenon:phenomena bacterium:bacteria box:boxes church:churches class:classes
        glass:glasses dish:dishes fox:foxes match:matches witch:witches brush:brushes city:cities baby:babies
        country:countries story:stories party:parties lady:ladies berry:berries army:armies body:bodies family:families
        duty:duties factory:factories table:tables window:windows river:rivers song:songs teacher:teachers
        cloud:clouds bottle:bottles train:trains garden:gardens ship:ships idea:ideas road:roads monkey:monkeys
        toy:toys boy:boys valley:valleys radio:radios piano:pianos photo:photos roof:roofs cliff:cliffs chief:chiefs
        pencil:pencils mountain:mountains village:villages doctor:doctors farmer:farmers number:numbers
        student:students problem:problems engine:engines planet:planets
    """,
    "past tense": """
        go:went come:came run:ran see:saw eat:ate drink:drank sing:sang swim:swam write:wrote speak:spoke break:broke
        choose:chose drive:drove fly:flew grow:grew know:knew throw:threw draw:drew blow:blew feel:felt keep:kept
        sleep:slept leave:left meet:met feed:fed bring:brought catch:caught think:thought fight:fought seek:sought
        buy:bought teach:taught sell:sold tell:told find:found hold:held stand:stood make:made pay:paid say:said
        hear:heard send:sent spend:spent build:built lose:lost sit:sat win:won ride:rode shake:shook steal:stole
        wake:woke wear:wore freeze:froze forget:forgot hide:hid give:gave take:took begin:began walk:walked talk:talked
        jump:jumped stop:stopped plan:planned try:tried carry:carried cry:cried study:studied play:played call:called
        ask:asked help:helped want:wanted need:needed hope:hoped dance:danced arrive:arrived explain:explained
        visit:visited love:loved use:used
    """,
    "English to French": """
        dog:chien cat:chat horse:cheval cow:vache bird:oiseau fish:poisson rabbit:lapin duck:canard house:maison
        water:eau bread:pain milk:lait cheese:fromage book:livre tree:arbre sun:soleil moon:lune sea:mer sky:ciel
        fire:feu snow:neige rain:pluie wind:vent hand:main head:tête mouth:bouche nose:nez brother:frère mother:mère
        father:père son:fils salt:sel sugar:sucre butter:beurre meat:viande wine:vin beer:bière coffee:café tea:thé
        school:école street:rue door:porte chair:chaise bed:lit kitchen:cuisine letter:lettre pen:stylo paper:papier
        shirt:chemise shoe:chaussure hat:chapeau glove:gant coat:manteau red:rouge green:vert yellow:jaune blue:bleu
        Monday:lundi Friday:vendredi Sunday:dimanche January:janvier three:trois five:cinq seven:sept ten:dix
        winter:hiver autumn:automne king:roi queen:reine week:semaine month:mois hour:heure stone:pierre
        forest:forêt island:île flower:fleur fork:fourchette soap:savon beach:plage bridge:pont
    """,
    "kinds": """
        eagle:bird sparrow:bird robin:bird parrot:bird owl:bird penguin:bird hawk:bird pigeon:bird raven:bird swan:bird
        salmon:fish trout:fish tuna:fish cod:fish shark:fish herring:fish sardine:fish carp:fish haddock:fish
        mackerel:fish ant:insect bee:insect beetle:insect butterfly:insect mosquito:insect wasp:insect
        grasshopper:insect moth:insect termite:insect dragonfly:insect oak:tree maple:tree birch:tree willow:tree
        elm:tree beech:tree cedar:tree spruce:tree poplar:tree redwood:tree rose:flower tulip:flower daisy:flower
        lily:flower orchid:flower sunflower:flower daffodil:flower carnation:flower marigold:flower dahlia:flower
        apple:fruit banana:fruit pear:fruit mango:fruit grape:fruit strawberry:fruit pineapple:fruit lemon:fruit
        raspberry:fruit papaya:fruit gold:metal silver:metal iron:metal copper:metal tungsten:metal zinc:metal
        nickel:metal titanium:metal cobalt:metal platinum:metal guitar:instrument violin:instrument trumpet:instrument
        flute:instrument clarinet:instrument cello:instrument saxophone:instrument harp:instrument
        trombone:instrument banjo:instrument
    """,
    "made-up suffix": """
        lamp candle carpet pillow blanket curtain basket bucket hammer nail ladder rope wheel motor pocket button
        ribbon jacket sweater helmet camera ticket suitcase passport airport station tunnel lighthouse canal desert
        meadow canyon glacier storm thunder shadow mirror painting statue poem novel chapter sentence grammar accent
        market bakery kettle oven salad soup pepper garlic onion honey biscuit breakfast dinner holiday birthday
        wedding journey soldier sailor pilot artist writer lawyer nurse captain castle palace temple tower prison
        museum library hospital office stadium
    """,
    "letters reversed": """
        boat farm gift desk lake frog clay coin corn cube dust drum flag foam gate glue goat hill hook jazz kite lawn
        limb lock mask math maze mule myth neck nest oath path pill pipe plum pond pork port race raft rice ring rock
        sand seed shop silk sock star stem tail tank tent tide tile toad tomb tray tube twig unit vase veil vine wage
        wall weed wing wire wool yard yarn zone belt bush cage dome germ jury
    """,
}
RULES = {"made-up suffix": lambda word: word + SUFFIX, "letters reversed": lambda word: word[::-1]}
TASKS = tuple(LISTS)


class Row(NamedTuple):
    """One question: the task it belongs to, the word asked and its one right answer."""

    task: str
    word: str
    answer: str


def load() -> DatasetDict:
    """All tasks as a `datasets.DatasetDict` (train, validation, test): task, word, answer.

    train: the pairs that a prompt shows; validation and test: the words that it asks. Raises ModuleNotFoundError
    without `datasets`; `pairs` needs no package.
    """
    return tables(Row._fields, {split: rows(split) for split in SPLITS})


def rows(split: str) -> list[Row]:
    """Every task's rows of one split, task by task; raises ValueError for an unknown split."""
    return [Row(task, word, answer) for task in TASKS for word, answer in pairs(task, split)]


def pairs(task: str, split: str) -> list[tuple[str, str]]:
    """(word, answer) of one task and split, in a fixed, mixed order; raises ValueError for an unknown task or split."""
    check_split(split)
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}; got {task!r}.")
    return list(_splits(task)[split])


@lru_cache(maxsize=len(LISTS))
def _splits(task: str) -> dict[str, list[tuple[str, str]]]:
    """The pairs of each split: a hash of the word draws it, as often as SIZES says."""
    entries = (entry.partition(":") for entry in LISTS[task].split())
    found = [(word, answer.replace("_", " ") or RULES[task](word)) for word, _, answer in entries]
    mixed = iter(sorted(found, key=lambda pair: sha256(f"word tasks {VERSION} {pair[0]}")))
    return {split: [next(mixed) for _ in range(size)] for split, size in SIZES.items()}


def checksum() -> str:
    """SHA-256 of every row of every split, in order: it changes with the lists and with the draw."""
    return sha256(json.dumps([rows(split) for split in SPLITS]))


def card() -> str:
    """What the tasks are, where they come from, their split and what they cannot show, in Markdown."""
    table = "\n".join(
        f"| {task} | {' · '.join(' → '.join(pair) for pair in pairs(task, 'train')[:3])} |" for task in TASKS
    )
    return f"""## Word tasks (`course_lib.data.word_tasks`)

**What it is.** {len(TASKS)} tasks of {sum(SIZES.values())} pairs each, a word and its one right answer. A prompt shows
some pairs of a task and asks for the answer to one more word: what a language model makes of that is called
in-context learning.

| task | the first three pairs |
| --- | --- |
{table}

The answers of the last two follow a rule. *made-up suffix* hangs `{SUFFIX}` on a word: a model cannot have met such
pairs in its training, so it has to take the rule from the prompt. *letters reversed* is a rule about letters, and a
model that reads subwords sees no letters.

**Where from, licence.** Lists of our own, under the licence of this repository. Nothing is copied.

**Size and split.** Of each task {SIZES["train"]} pairs are train, from which prompts take their examples,
{SIZES["validation"]} are validation and {SIZES["test"]} test, the words asked. A hash of the word draws the split. No
word is asked in two tasks. Within a task no answer is also a word asked, and none belongs to two words; only *kinds*
has {len({answer for _, answer in pairs("kinds", "train")})} answers for all its words.

**Baselines.** The most frequent answer: {_most_frequent("kinds"):.2f} of the test words of *kinds*, 0.03 of those of
every other task.

**Not to be concluded.** How well a model knows geography, grammar or French. Some words have a second good answer
(the opposite of *big* is *small*, and *little* would do), and only the one listed counts. Nor that a model learned
from the prompt what it may have read before: every pair but the made-up ones stands in many books.

**Version** {VERSION}, checksum `{checksum()}`.
"""


def _most_frequent(task: str) -> float:
    """How often the answer that is most frequent among the test words is right there."""
    found = [answer for _, answer in pairs(task, "test")]
    return max(map(found.count, found)) / len(found)
