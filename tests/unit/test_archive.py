"""The archive format: what is written is read again, and everything else is rejected."""

import io
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tenantry.backup import archive
from tenantry.backup.archive import (
    BLOCK,
    ArchiveDamaged,
    ArchiveForeign,
    ArchiveNewer,
    ArchiveReader,
    ArchiveWriter,
    Header,
    Keys,
    Manifest,
    is_name,
)
from tenantry.backup.targets import FolderTarget, expired, stored
from tenantry.kit.ids import new_id

OURS, THEIRS = Keys(["a secret key of this installation"]), Keys(["another secret key, of 32"])
NOW = datetime(2026, 11, 22, tzinfo=UTC)
PARTS = [b"a" * 1000, b"", b"c" * 513]


class Record(msgspec.Struct, frozen=True):
    """What the catalog says."""

    name: str


def header_of(keys: Keys, **changes: object) -> Header:
    values: dict[str, object] = {
        "id": new_id(),
        "key_id": keys.current_id,
        "release": "0",
        "created_at": NOW,
        "kind": "tenant",
        "engine": "sqlite",
        "tenant_id": new_id(),
        "tenant_name": "Shop 50%",
        "revision": "0001",
    }
    return Header(**{**values, **changes})  # type: ignore[arg-type]


def written(keys: Keys = OURS, **changes: object) -> bytes:
    sink = io.BytesIO()
    writer = ArchiveWriter(sink, keys, header_of(keys, **changes))
    writer.add_record(Record("Shop"))
    for part in PARTS:
        writer.add_chunk(part)
    writer.finish(
        Manifest(
            chunk_count=writer.chunk_count,
            database_bytes=writer.database_bytes,
            sha256=writer.sha256,
            schema_fingerprint="f",
            row_counts={"t": 3},
            search_path=None,
        )
    )
    return sink.getvalue()


def read(data: bytes, keys: Keys = OURS, *, accepts_foreign: bool = False) -> list[bytes]:
    reader = ArchiveReader(io.BytesIO(data), keys, accepts_foreign=accepts_foreign)
    assert reader.record(Record) == Record("Shop")
    parts = list(reader.chunks())
    assert reader.manifest.row_counts == {"t": 3}
    return parts


class TestArchive:
    def test_is_read_as_it_was_written(self):
        assert read(written()) == PARTS

    def test_is_a_tar_that_tar_extracts(self, tmp_path: Path):
        with tarfile.open(fileobj=io.BytesIO(written())) as file:
            file.extractall(tmp_path, filter="data")

        parts = sorted((tmp_path / "database").glob("*[0-9]"))
        assert b"".join(part.read_bytes() for part in parts) == b"".join(PARTS)

    @pytest.mark.parametrize("bit", [0x01, 0x80], ids=["lowest", "highest"])
    def test_is_rejected_wherever_a_byte_is_changed(self, bit: int):
        """With its highest bit, a byte of JSON is no longer UTF-8."""
        data = written()
        ends = len(data) - 2 * archive.BLOCK
        meaningful = [at for at in range(0, ends, 7) if data[at]]

        for at in meaningful:
            changed = bytearray(data)
            changed[at] ^= bit
            try:
                parts = read(bytes(changed))
            except (ArchiveDamaged, ArchiveForeign, ArchiveNewer):
                continue
            # Only a field of a tar header that has no meaning here, such as the mode.
            assert parts == PARTS

    def test_that_is_damaged_does_not_hide_the_others(self, tmp_path: Path):
        data = written()
        (tmp_path / "good.tar").write_bytes(data)
        (tmp_path / "bad.tar").write_bytes(data.replace(b"Shop 50%", b"Sh\xefp 50%"))

        found = stored(FolderTarget(tmp_path), OURS)

        assert [(one.name, one.fault) for one in found] == [
            ("good.tar", None),
            ("bad.tar", "damaged"),
        ]

    def test_has_a_name_that_a_file_can_have(self):
        """Linux counts 255 bytes."""
        names = ["é" * 120 + ".tar", "é" * 126 + ".tar", "a" * 202 + ".tar"]

        assert [is_name(one) for one in names] == [True, False, False]

    def test_is_rejected_wherever_it_ends_too_early(self):
        data = written()

        for length in range(0, len(data) - 2 * archive.BLOCK, 97):
            with pytest.raises(ArchiveDamaged):
                read(data[:length])

    @pytest.mark.parametrize("cut", [1, BLOCK, 2 * BLOCK, 3 * BLOCK + 1, 5 * BLOCK])
    def test_that_ends_too_early_does_not_count_as_one_of_the_newest(
        self, tmp_path: Path, cut: int
    ):
        """Else the only one that can be restored would be removed for it."""
        tenant_id = new_id()
        for number, missing in enumerate([0, cut]):
            at = NOW + timedelta(days=number)
            data = written(tenant_id=tenant_id, created_at=at)
            (tmp_path / f"shop-{number}.tar").write_bytes(data[: len(data) - missing])

        found = stored(FolderTarget(tmp_path), OURS)

        assert [(one.name, one.fault) for one in found] == [
            ("shop-1.tar", "incomplete"),
            ("shop-0.tar", None),
        ]
        assert expired(found, before=NOW + timedelta(days=9), keep_last=1) == []

    def test_is_rejected_with_its_parts_in_another_order(self):
        data = written()
        first, second = (data.index(f"database/{n:012}\0".encode()) for n in (0, 1))
        third = data.index(b"database/000000000002\0")
        swapped = data[:first] + data[second:third] + data[first:second] + data[third:]

        with pytest.raises(ArchiveDamaged):
            read(swapped)

    def test_is_rejected_with_a_part_of_another_archive(self):
        ours, other = written(), written()
        at = ours.index(b"database/000000000000\0")

        with pytest.raises(ArchiveDamaged):
            read(ours[:at] + other[at:])

    def test_of_another_secret_key_is_read_only_if_that_is_accepted(self):
        data = written(THEIRS)

        with pytest.raises(ArchiveForeign):
            read(data)
        assert read(data, accepts_foreign=True) == PARTS

    def test_of_another_secret_key_is_rejected_when_it_is_damaged(self):
        data = bytearray(written(THEIRS))
        data[data.index(PARTS[0])] ^= 1

        with pytest.raises(ArchiveDamaged):
            read(bytes(data), accepts_foreign=True)

    def test_of_a_former_secret_key_is_read(self):
        both = Keys(["a new secret key, of 32 characters", "a secret key of this installation"])

        assert read(written(), both) == PARTS

    def test_of_a_newer_release_is_rejected(self):
        with pytest.raises(ArchiveNewer):
            read(written(format=archive.FORMAT + 1))

    @pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
    def test_with_a_time_that_does_not_exist_in_utc_is_rejected(self, text: str):
        """Of another secret key, because its header is read without a check of its code."""
        earlier = "2026-11-22T00:00:00+01:00"
        data = written(THEIRS, created_at=datetime.fromisoformat(earlier))
        changed = data.replace(earlier.encode(), text.encode())

        with pytest.raises(ArchiveDamaged):
            ArchiveReader(io.BytesIO(changed), OURS, accepts_foreign=True)

    @pytest.mark.parametrize("name", ["../archive.json", "/etc/passwd", "archive.json/../x"])
    def test_with_another_name_of_a_member_is_rejected(self, name: str):
        info = tarfile.TarInfo(name)
        data = written()

        with pytest.raises(ArchiveDamaged):
            read(info.tobuf(tarfile.USTAR_FORMAT) + data[archive.BLOCK :])

    @pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
    def test_with_a_member_that_is_no_file_is_rejected(self, kind: bytes):
        info = tarfile.TarInfo("archive.json")
        info.type, info.linkname = kind, "/etc/passwd"

        with pytest.raises(ArchiveDamaged):
            read(info.tobuf(tarfile.USTAR_FORMAT))

    def test_with_a_huge_member_is_rejected_before_it_is_read(self):
        info = tarfile.TarInfo("archive.json")
        info.size = 8 * 2**30 - 1

        class Endless(io.RawIOBase):
            def __init__(self) -> None:
                self.count = 0

            def read(self, size: int = -1) -> bytes:
                self.count += size
                assert self.count <= archive.BLOCK, "it is not read"
                return info.tobuf(tarfile.USTAR_FORMAT)

        with pytest.raises(ArchiveDamaged):
            ArchiveReader(Endless(), OURS)  # type: ignore[arg-type]

    @pytest.mark.parametrize("data", [b"", b"x", bytes(4096), b"SQLite format 3\0" * 64])
    def test_that_is_something_else_is_rejected(self, data: bytes):
        with pytest.raises(ArchiveDamaged):
            read(data)
