"""What is another thing each time, or depends on where it runs."""

from tests.corpus.shape import POSTGRESQL, SQLITE, shape

SHAPES = [
    shape(
        "uuid4", "op.execute(note.insert().values(text=str(uuid.uuid4())))", varies=("note.text",)
    ),
    shape(
        "uuid4_for_each_row",
        'op.bulk_insert(note, [{"id": 50 + n, "text": uuid.uuid4().hex} for n in range(5)])',
        varies=("note.text",),
    ),
    shape(
        "secret",
        """
        import secrets
        op.execute(sa.text("INSERT INTO note (text) VALUES (:v)").bindparams(v=secrets.token_hex(8)))
        """,
        varies=("note.text",),
    ),
    shape(
        "random_with_a_seed",
        """
        import random
        random.seed(5)
        op.bulk_insert(note, [{"text": str(random.random())} for _ in range(3)])
        """,
    ),
    shape(
        "default_of_uuid4",
        """
        table = op.create_table("keyed", sa.Column("id", sa.Uuid, default=uuid.uuid4),
                                sa.Column("n", sa.Integer))
        op.bulk_insert(table, [{"n": 1}, {"n": 2}, {"n": 3}])
        op.execute(table.insert().values(n=4))
        """,
        varies=("keyed.id",),
    ),
    shape(
        "now_of_python",
        "op.execute(note.insert().values(text=datetime.datetime.now().isoformat()))",
        varies=("note.text",),
    ),
    shape(
        "date_of_python",
        "op.execute(note.insert().values(text=str(datetime.date.today())))",
        varies=("note.text",),
    ),
    shape(
        "now_of_the_database",
        """
        op.execute("ALTER TABLE note ADD COLUMN at timestamptz")
        op.execute("UPDATE note SET at = now()")
        op.execute(sa.text("INSERT INTO note (text, at) VALUES ('x', now())"))
        """,
        "op.execute(\"INSERT INTO note (text, at) VALUES ('y', now())\")",
        varies=("note.at",),
        engines=POSTGRESQL,
    ),
    shape(
        "clock_of_the_database",
        """
        op.execute("ALTER TABLE note ADD COLUMN at timestamptz")
        op.execute("UPDATE note SET at = clock_timestamp()")
        """,
        varies=("note.at",),
        engines=POSTGRESQL,
    ),
    shape(
        "current_timestamp_default",
        """
        op.create_table("event", sa.Column("id", sa.Integer, primary_key=True),
                        sa.Column("at", sa.DateTime, server_default=sa.func.current_timestamp()))
        op.execute("INSERT INTO event (id) VALUES (1), (2)")
        """,
        varies=("event.at",),
    ),
    shape(
        "gen_random_uuid",
        """
        op.add_column("note", sa.Column("key", sa.Uuid, server_default=sa.text("gen_random_uuid()")))
        """,
        varies=("note.key",),
        engines=POSTGRESQL,
    ),
    shape(
        "random_of_the_database",
        'op.execute("INSERT INTO note (text) VALUES (lower(hex(randomblob(8))))")',
        varies=("note.text",),
        engines=SQLITE,
    ),
    shape(
        "md5_random",
        'op.execute("UPDATE note SET text = md5(random()::text)")',
        varies=("note.text",),
        engines=POSTGRESQL,
    ),
    shape(
        "reads_the_environment",
        """
        op.execute(note.insert().values(text=os.environ.get("HOME", "none")))
        """,
    ),
    shape(
        "reads_a_file",
        """
        with open(os.path.join(os.path.dirname(__file__), "..", "seed.json")) as file:
            op.bulk_insert(note, json.load(file))
        """,
        files={"migrations/seed.json": '[{"text": "from a file"}, {"text": "100%"}]'},
    ),
    shape(
        "writes_a_file",
        'with open(WRITTEN, "a") as file:\n    file.write("x")',
        "with open(WRITTEN) as file:\n    see(file.read())\nos.remove(WRITTEN)",
        head='WRITTEN = os.path.join(os.path.dirname(__file__), "written.txt")',
    ),
    shape(
        "starts_a_program",
        """os.system(f"printf x >> '{WRITTEN}'")""",
        "with open(WRITTEN) as file:\n    see(file.read())\nos.remove(WRITTEN)",
        head='WRITTEN = os.path.join(os.path.dirname(__file__), "written.txt")',
    ),
    shape(
        "sets_the_environment",
        'os.environ["CORPUS_RUNS"] = os.environ.get("CORPUS_RUNS", "") + "x"',
        'see(os.environ.pop("CORPUS_RUNS"))',
    ),
    shape(
        "reads_a_csv_file",
        """
        import csv
        from pathlib import Path
        with (Path(__file__).parent.parent / "people.csv").open() as file:
            op.bulk_insert(person, [
                {"name": row["name"], "age": int(row["age"])} for row in csv.DictReader(file)])
        """,
        files={"migrations/people.csv": "name,age\nFay,1\nGus,2\n"},
    ),
    shape(
        "module_state",
        "COUNT.append(1)\nop.execute(note.insert().values(text=str(len(COUNT))))",
        head="COUNT = []",
    ),
    shape(
        "module_state_of_a_helper",
        "op.execute(note.insert().values(text=str(counting.next_number())))",
        head="import counting",
        files={
            "counting.py": "numbers = iter(range(1, 100))\ndef next_number():\n"
            "    return next(numbers)\n"
        },
    ),
    shape(
        "module_state_by_importlib",
        """
        import importlib
        counting = importlib.import_module("counting_by_name")
        op.execute(note.insert().values(text=str(counting.next_number())))
        """,
        "see(__import__('counting_by_name').next_number())",
        files={
            "counting_by_name.py": "numbers = iter(range(1, 100))\ndef next_number():\n"
            "    return next(numbers)\n"
        },
    ),
    shape(
        "state_across_revisions",
        "import builtins\nbuiltins.corpus_state = 'kept'",
        "import builtins\nsee(getattr(builtins, 'corpus_state', None))\ndel builtins.corpus_state",
    ),
    shape(
        "database_name",
        """
        name = op.get_bind().scalar(sa.text("SELECT current_database()"))
        see(type(name), len(name) > 0)
        """,
        engines=POSTGRESQL,
    ),
    shape(
        "object_ids",
        "op.execute(\"INSERT INTO seen (text) SELECT ('note'::regclass::oid > 0)::text\")",
        engines=POSTGRESQL,
    ),
    shape(
        "set_order",
        'op.bulk_insert(note, [{"text": word} for word in sorted({"a", "b", "c"})])',
    ),
    shape("hash_of_text", "op.execute(note.insert().values(text=str(hash('a') == hash('a'))))"),
    shape(
        "generator_as_rows",
        'op.bulk_insert(note, list({"text": f"g{n}"} for n in range(3)))',
    ),
]
