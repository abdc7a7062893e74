"""The sample tenants and their posts."""
# ruff: noqa: RUF001 - they write in several scripts

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SamplePost:
    """A post of a sample tenant.

    Attributes:
        is_draft: Whether it is visible only to the tenant's users.
    """

    title: str
    content: str
    tags: tuple[str, ...]
    is_draft: bool = False


@dataclass(frozen=True, slots=True)
class SampleTenant:
    """A sample tenant.

    Attributes:
        domain: The first part of its domain, below example.com.
        posts: The newest first.
    """

    name: str
    domain: str
    owner: str
    posts: tuple[SamplePost, ...]

    @property
    def email(self) -> str:
        """The address of the owner."""
        return f"owner@{self.domain}.example.com"


def sample_tenants(wanted: int) -> list[SampleTenant]:
    """Return *wanted* sample tenants; when the samples run out, they repeat with a number."""
    return [_sample_tenant(place) for place in range(wanted)]


def _sample_tenant(place: int) -> SampleTenant:
    round_, place = divmod(place, len(_TENANTS))
    sample = _TENANTS[place]
    if round_ == 0:
        return sample
    number = round_ + 1
    return replace(sample, name=f"{sample.name} {number}", domain=f"{sample.domain}-{number}")


_TENANTS = (
    SampleTenant(
        "Fig & Fennel Bakery",
        "fig-fennel",
        "Inês Carvalho",
        (
            SamplePost(
                "Opening hours in December",
                "Rui says that we open on the 24th until noon. Last year everything was sold by "
                "ten, so: twice the nata?\n\nStill to decide: the 26th.",
                ("news",),
                is_draft=True,
            ),
            SamplePost(
                "Salt & time",
                "People ask for our secret, and it is these two.\n\n"
                "Salt: 2 % of the flour, weighed and never guessed. With less the crumb is dull, "
                "with more the yeast goes to sleep.\n\n"
                "Time: if x < 12 hours, do not call it sourdough. The acids that keep a loaf fresh "
                "for a week are made in the second half of the night, while the city sleeps.",
                ("bread", "craft", "recipes"),
            ),
            SamplePost(
                "Why our rye takes three days",
                "The starter is fed on Monday, the dough rests on Tuesday, and on Wednesday the "
                "oven does in fifty minutes what patience has prepared. Nothing about it can be "
                "hurried, and we have tried.",
                ("bread", "craft"),
            ),
            SamplePost(
                "Pastéis de nata, every Friday",
                "Warm from seven o'clock, with cinnamon if you ask for it. Come early: last week "
                "they were gone by nine.",
                ("news", "pastry"),
            ),
            SamplePost(
                "What to do with yesterday's loaf",
                "Açorda, first of all: garlic, coriander, olive oil, an egg, and the bread torn by "
                "hand into hot broth.\n\n"
                "Then toast, then crumbs for the pan, and at the very end the hens of "
                "Mrs. Abernathy, who have opinions about rye.",
                ("bread", "recipes"),
            ),
            SamplePost(
                "O pão de milho da avó",
                "Metade farinha de milho, escaldada com água a ferver, metade trigo. Vai ao forno "
                "de lenha com a folha de couve por baixo, e sai com cheiro a domingo.",
                ("bread", "português"),
            ),
            SamplePost(
                "Wanted: a second baker",
                "Nights from Tuesday to Saturday, four of us, no shouting. You need strong arms, "
                "a light hand, and to like radio. Come by after seven; bring nothing but yourself.",
                ("news", "jobs"),
            ),
            SamplePost(
                "A visit to the mill",
                "Twenty kilometres up the river two stones turn as they did in 1904.\n\n"
                "The miller lets the grain through his fingers and knows the rain of last May. We "
                "take what he grinds on Monday and bake it on Wednesday; flour is a fresh food, "
                "whatever the bag says.",
                ("craft", "suppliers"),
            ),
            SamplePost(
                "Gluten-free: why not yet",
                "Because our air is full of flour. A second room would do it; we are counting.",
                ("opinion",),
                is_draft=True,
            ),
        ),
    ),
    SampleTenant(
        "Northlight Optics",
        "northlight",
        "Søren Mølgaard",
        (
            SamplePost(
                "Reading a lens prescription",
                "SPH is the power, CYL and AXIS correct astigmatism, ADD is for reading. Four "
                "numbers for each eye, and none of them says anything about the frame.",
                ("guide",),
            ),
            SamplePost(
                "Åbent søndag i december",
                "Vi holder åbent alle søndage i december, fra 11 til 16. Tag dine gamle briller "
                "med: vi sender dem videre til dem, der har brug for dem.",
                ("news", "dansk"),
            ),
            SamplePost(
                "Blue light: what we can and cannot say",
                "A filter changes the colour of the screen, and that is what it certainly does. "
                "For tired eyes we know something that costs nothing: gaze out of the window "
                "every twenty minutes.",
                ("guide", "opinion"),
            ),
            SamplePost(
                "New frames from Aarhus",
                "Waiting for the photographs.",
                ("arrivals",),
                is_draft=True,
            ),
        ),
    ),
    SampleTenant(
        "Kestrel Cycles",
        "kestrel",
        "Maya Okafor",
        (
            SamplePost(
                "Spring service: what we check",
                "Bearings, brakes, chain and every spoke. The list has thirty-one points, it "
                "hangs above the workbench, and you get a copy with your bicycle.",
                ("workshop",),
            ),
            SamplePost(
                "Tubeless, honestly",
                "Fewer punctures and a softer ride, against a mess once a year. For the way to "
                "work we still fit tubes, and here is why.",
                ("workshop", "opinion"),
            ),
            SamplePost(
                "Lights for the dark months",
                "Thirty lux to see, two hundred to be seen... check these numbers, and add the "
                "table with prices.",
                ("guide", "winter"),
                is_draft=True,
            ),
        ),
    ),
    SampleTenant(
        "Tanaka Ceramics",
        "tanaka",
        "田中 陽子",
        (
            SamplePost(
                "灰釉の作り方",
                "木灰を水で洗い、三度こしてから長石と合わせます。窯の中で灰は緑にも琥珀にもなり、"
                "同じ色は二度と出ません。",
                ("glaze", "日本語"),
            ),
            SamplePost(
                "金継ぎ教室のお知らせ",
                "欠けた器をお持ちください。漆と金で継ぎ、傷を景色にします。定員八名、三回で一つの器を仕上げます。",
                ("news", "日本語"),
            ),
            SamplePost(
                "The kiln is open again",
                "After the rebuilding it takes forty more bowls, and reaches 1,260 degrees in "
                "nine hours. First firing on the second of the month.",
                ("news",),
            ),
        ),
    ),
    SampleTenant(
        "Harbour & Sons Boatyard",
        "harbour",
        "Calum MacLeod",
        (
            SamplePost(
                "Laying up for the winter",
                "Drain the engine, lift the mast, and keep her well aired. A cover that lies "
                "close does more harm than the frost.",
                ("guide", "winter"),
            ),
        ),
    ),
    SampleTenant(
        "Librería del Puente",
        "puente",
        "Lucía Ibáñez",
        (
            SamplePost(
                "Diez libros para un verano largo",
                "Tres novelas, dos ensayos, un libro de poemas que cabe en el bolsillo, y cuatro "
                "que nadie nos ha pedido y que todo el mundo debería leer.",
                ("libros", "verano"),
            ),
            SamplePost(
                "¿Quién lee a las ocho de la mañana?",
                "Desde este mes abrimos una hora antes, con café. Los primeros clientes ya "
                "tienen su silla.",
                ("noticias",),
            ),
        ),
    ),
    SampleTenant(
        "Quarry Lane Dental",
        "quarry-lane",
        "Dr. Priya Raman",
        (
            SamplePost(
                "Your first visit",
                "Half an hour, no drill. We examine, we take one picture, and you go home with a "
                "plan that says what is urgent and what is not.",
                ("patients",),
            ),
        ),
    ),
    SampleTenant(
        "Ψωμί & Λάδι",
        "psomi",
        "Ελένη Παππά",
        (
            SamplePost(
                "Το πρώτο λάδι της χρονιάς",
                "Μαζέψαμε νωρίς φέτος. Το λάδι είναι πράσινο, πικρό, και καίει λίγο στον λαιμό: "
                "έτσι πρέπει.",
                ("λάδι", "νέα"),
            ),
        ),
    ),
    SampleTenant(
        "Alder Street Records",
        "alder-street",
        "Jonah Weiss",
        (
            SamplePost(
                "New arrivals: 180 sleeves from one attic",
                "Mostly jazz, a shelf of krautrock, and one test pressing with a label that we "
                "cannot read. Come and help.",
                ("arrivals", "jazz"),
            ),
            SamplePost(
                "How to clean a record without ruining it",
                "Distilled water, a drop of surfactant, a brush of goat's hair. Along the "
                "groove, never across it.",
                ("guide",),
            ),
        ),
    ),
    SampleTenant(
        "Gärtnerei Löwenzahn",
        "loewenzahn",
        "Jürgen Weiß",
        (
            SamplePost(
                "Tomaten: wann es losgeht",
                "Nicht vor Mitte März, auch wenn es juckt. Licht zählt mehr als Wärme, und ein "
                "Fensterbrett nach Norden ist keines.",
                ("gemüse", "frühling"),
            ),
        ),
    ),
    SampleTenant(
        "Cedar Row Veterinary",
        "cedar-row",
        "Amal Haddad",
        (
            SamplePost(
                "Fireworks, and the dog under the bed",
                "Leave him there. Draw the curtains, put on some music, and come to see us a "
                "month before, not the evening after.",
                ("dogs", "advice"),
            ),
            SamplePost(
                "مواعيد العيد",
                "العيادة مغلقة أول يومين من العيد، والطوارئ على الرقم المعتاد في أي وقت.",
                ("news", "العربية"),
            ),
        ),
    ),
    SampleTenant(
        "Signal Peak Coffee",
        "signal-peak",
        "Ruth Abernathy",
        (
            SamplePost(
                "Roast date, not best before",
                "A bag says when it was roasted because that is the only date that matters. Wait "
                "four days, finish it in thirty ☕.",
                ("coffee", "craft"),
            ),
        ),
    ),
)
