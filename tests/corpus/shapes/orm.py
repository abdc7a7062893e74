"""Sessions and mapped classes."""

from tests.corpus.shape import BOTH, POSTGRESQL, VERSION_TABLE, shape

_MODELS = """
class Base(DeclarativeBase):
    pass

class Note(Base):
    __tablename__ = "note"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str | None]

class Person(Base):
    __tablename__ = "person"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    age: Mapped[int | None] = mapped_column(default=18)
    note_id: Mapped[int | None] = mapped_column(sa.ForeignKey("note.id"))
    note: Mapped[Note | None] = sa.orm.relationship()
"""

SHAPES = [
    shape(
        "session_adds",
        """
        session = Session(bind=op.get_bind())
        session.add(Person(name="Cleo", note=Note(text="hers")))
        session.commit()
        """,
        head=_MODELS,
    ),
    shape(
        "session_adds_many",
        """
        with Session(op.get_bind()) as session:
            session.add_all([Note(text=f"n{n}") for n in range(5)])
            session.flush()
            see([one.id for one in session.scalars(sa.select(Note).order_by(Note.id))])
            session.commit()
        """,
        head=_MODELS,
    ),
    shape(
        "session_changes",
        """
        with Session(bind=op.get_bind()) as session:
            for one in session.scalars(sa.select(Person)):
                one.age = (one.age or 0) + 1
            session.delete(session.get(Note, 3))
            session.commit()
        """,
        head=_MODELS,
    ),
    shape(
        "session_query",
        """
        session = Session(bind=op.get_bind())
        session.query(Note).filter(Note.text.is_(None)).update({"text": "filled"})
        see(session.query(Person).count(), session.query(Person).filter_by(name="Ada").one().age)
        session.flush()
        """,
        head=_MODELS,
    ),
    shape(
        "session_without_commit",
        """
        session = Session(bind=op.get_bind())
        session.add(Note(text="flushed"))
        session.flush()
        session.add(Note(text="never flushed"))
        """,
        head=_MODELS,
    ),
    shape(
        "session_closed_without_commit",
        """
        with Session(bind=op.get_bind()) as session:
            session.add(Note(text="lost or kept"))
            session.flush()
        op.execute("INSERT INTO note (text) VALUES ('after')")
        """,
        head=_MODELS,
    ),
    shape(
        "session_rollback",
        """
        op.execute("INSERT INTO note (text) VALUES ('before')")
        session = Session(bind=op.get_bind())
        session.add(Note(text="rolled back"))
        session.flush()
        session.rollback()
        op.execute("INSERT INTO note (text) VALUES ('after')")
        """,
        setup=VERSION_TABLE,
        head=_MODELS,
        loses=BOTH,
    ),
    shape(
        "session_commit_then_error",
        """
        session = Session(bind=op.get_bind())
        session.add(Note(text="committed?"))
        session.commit()
        raise ValueError("after the commit")
        """,
        head=_MODELS,
        fails=BOTH,
    ),
    shape(
        "session_begin",
        """
        with Session(op.get_bind()) as session, session.begin():
            session.add(Note(text="begun"))
        """,
        head=_MODELS,
    ),
    shape(
        "session_nested",
        """
        session = Session(bind=op.get_bind())
        with contextlib.suppress(sa.exc.IntegrityError):
            with session.begin_nested():
                session.add(Person(name="Ada"))
        session.add(Note(text="outer"))
        session.commit()
        """,
        head=_MODELS,
        engines=POSTGRESQL,
    ),
    shape(
        "session_bulk",
        """
        session = Session(bind=op.get_bind())
        session.bulk_insert_mappings(Note, [{"text": "b1"}, {"text": "b2"}])
        session.bulk_save_objects([Person(name="D"), Person(name="E", age=None)])
        session.execute(sa.insert(Note), [{"text": "b3"}, {"text": "b4"}])
        session.commit()
        """,
        head=_MODELS,
    ),
    shape(
        "session_maker",
        """
        maker = sessionmaker(bind=op.get_bind())
        with maker() as session:
            session.execute(sa.text("UPDATE note SET text = :t"), {"t": "made"})
            session.commit()
        """,
    ),
    shape(
        "session_from_models_of_the_project",
        """
        with Session(op.get_bind()) as session:
            session.add(Label(name="x"))
            session.commit()
            see([label.name for label in session.scalars(sa.select(Label))])
        """,
        head="from shop.models import Base, Label\n",
        setup="CREATE TABLE label (id INTEGER PRIMARY KEY, name VARCHAR(9), created VARCHAR(9));",
        engines=frozenset({"sqlite"}),
        files={
            "shop/__init__.py": "",
            "shop/models.py": """
                import sqlalchemy as sa
                from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

                class Base(DeclarativeBase):
                    pass

                class Label(Base):
                    __tablename__ = "label"
                    id: Mapped[int] = mapped_column(primary_key=True)
                    name: Mapped[str]
                    created: Mapped[str] = mapped_column(default=lambda: "now")
            """,
        },
    ),
    shape(
        "create_all_from_models_of_the_project",
        "Base.metadata.create_all(op.get_bind())",
        head="from shop.tables import Base\n",
        files={
            "shop/__init__.py": "",
            "shop/tables.py": """
                import sqlalchemy as sa
                from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

                class Base(DeclarativeBase):
                    metadata = sa.MetaData(naming_convention={"uq": "uq_%(table_name)s"})

                class Tag(Base):
                    __tablename__ = "tag"
                    id: Mapped[int] = mapped_column(primary_key=True)
                    name: Mapped[str] = mapped_column(sa.String(9), unique=True)
            """,
        },
    ),
    shape(
        "session_of_a_new_engine",
        """
        engine = op.get_bind().engine
        with Session(engine) as session:
            see(session.scalar(sa.text("SELECT count(*) FROM note")))
        """,
    ),
    shape(
        "second_connection",
        """
        with op.get_bind().engine.connect() as other:
            see(other.scalar(sa.text("SELECT count(*) FROM note")))
        """,
    ),
    shape(
        "second_connection_writes",
        """
        with op.get_bind().engine.begin() as other:
            other.execute(sa.text("INSERT INTO note (text) VALUES ('by another connection')"))
        """,
        engines=POSTGRESQL,
    ),
]
