"""A log that is brought up to date again and again is that of its files as they are, and says from where on it differs.

Files keep the place in which they came. After every step the log is compared with that of a fresh ingestion of the same files
in the same order, and with its own earlier versions.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from replay.streams import manifest
from replay.streams.declaration import Declaration
from replay.streams.ingest import Ingested
from tests.replay.streams.harness import Place, Rows, assert_equals, nothing_but, stream
from tests.replay.streams.reference import expected, natural

DAY = 86_400


def declared(order: str = "file", **more: Any) -> Declaration:
    return stream(
        files={"pattern": "*.csv"},
        columns=[{"name": "t", "type": "time"}, {"name": "o", "type": "int32"}, {"name": "v", "type": "float64"}],
        time={"column": "t", "format": "number"},
        order=order,
        **more,
    )


def lines(*times: int | str, v: float = 0.5) -> bytes:
    """A line for each time; what is no number is a line that is rejected."""
    return b"".join(f"{t},{int(t) // 2 if isinstance(t, int) else 0},{v}\n".encode() for t in times)


@dataclass
class Growing:
    """A folder that changes, its log, and everything that the log ever was."""

    place: Place
    declaration: Declaration
    file_rows: int = 3
    order: list[str] = field(default_factory=list)
    """The files in the order in which they came."""
    versions: dict[int, Rows] = field(default_factory=dict)

    def put(self, **contents: bytes) -> None:
        self.place.write({f"{name.replace('_', '-')}.csv": content for name, content in contents.items()})

    def remove(self, name: str) -> None:
        (self.place.raw / f"{name}.csv").unlink()

    @property
    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.place.raw.glob("*.csv"))}

    def update(self) -> tuple[Ingested, int | None]:
        """Ingest, check everything that must hold, and return what was done and the first arrival that differs from before."""
        before = self.place.rows() if self.versions else None
        old = max(self.versions, default=None)
        done = self.place.ingest(self.declaration, split_bytes=50, file_rows=self.file_rows)
        there = self.contents
        self.order = [name for name in self.order if name in there] + sorted(set(there) - set(self.order), key=natural)
        assert_equals(self.place, done, expected(self.declaration, there, order=self.order))

        log, rows = self.place.log(), self.place.rows()
        assert [row["arrival"] for row in rows] == list(range(log.end))
        assert log.first.tolist() == [sum(log.rows[:n]) for n in range(len(log.rows))]
        differs = None if before is None else first_difference(before, rows)
        if old is not None:
            assert log.first_changed_since(old) == (log.end if differs is None else differs)
            assert done.changed == differs
            for version, was in self.versions.items():
                assert self.place.rows(version=version) == was
        assert done.version == log.version
        self.versions[log.version] = rows
        return done, differs


def first_difference(before: Rows, after: Rows) -> int | None:
    """The first arrival at which two logs hold something else, or one of them nothing any more."""
    for arrival, (a, b) in enumerate(zip(before, after, strict=False)):
        if a != b:
            return arrival
    return None if len(before) == len(after) else min(len(before), len(after))


@pytest.fixture
def growing(tmp_path: Path) -> Growing:
    return Growing(Place(tmp_path), declared())


@pytest.fixture
def sorted_by_time(tmp_path: Path) -> Growing:
    return Growing(Place(tmp_path), declared("time"))


# ---- the same again ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["file", "time", "o"])
def test_the_same_files_again_are_harmless(tmp_path: Path, order: str) -> None:
    growing = Growing(Place(tmp_path), declared(order))
    growing.put(a=lines(5, 3, "x", 9), b=lines(7))
    first, _ = growing.update()
    assert first.changed == 0 and sorted(first.read) == ["a.csv", "b.csv"]
    again, _ = growing.update()
    assert (again.changed, again.version, again.read, again.records) == (None, first.version, [], 0)
    growing.put(a=lines(5, 3, "x", 9))  # written again, with the same bytes
    assert growing.update()[0].version == first.version


# ---- files that come -----------------------------------------------------------------------------------------------------


def test_new_files_go_behind_in_the_order_of_the_numbers_in_their_names(growing: Growing) -> None:
    #   first        part-9            | then    part-10           part-11
    #   arrival       0  1             |          2                 3
    growing.put(part_9=lines(1, 2))
    growing.update()
    growing.put(part_11=lines(4), part_10=lines(3))
    done, differs = growing.update()
    assert nothing_but(growing.place.rows(), "ts") == [(1_000_000,), (2_000_000,), (3_000_000,), (4_000_000,)]
    assert differs == 2 and done.read == ["part-10.csv", "part-11.csv"]  # only what is new is read


def test_all_at_once_part_10_is_behind_part_9(growing: Growing) -> None:
    growing.put(part_10=lines(3), part_9=lines(2), part_1=lines(1), other_2=lines(0))
    growing.update()
    assert growing.order == ["other-2.csv", "part-1.csv", "part-9.csv", "part-10.csv"]


def test_a_file_that_comes_later_stays_behind_whatever_its_name(growing: Growing) -> None:
    growing.put(m=lines(5, 6))
    growing.update()
    growing.put(a=lines(1), z=lines(9))
    growing.update()
    #   ts       5   6 | 1   9
    #   clock    5   6 | 6   9
    assert nothing_but(growing.place.rows(), "ts", "clock") == [(t * 10**6, c * 10**6) for t, c in [(5, 5), (6, 6), (1, 6), (9, 9)]]
    growing.put(b=lines(2))
    growing.update()
    assert growing.order == ["m.csv", "a.csv", "z.csv", "b.csv"]


def test_a_file_with_nothing_to_store_changes_no_tuple_but_is_remembered(growing: Growing) -> None:
    growing.put(a=lines(1, 2))
    growing.update()
    growing.put(b=b"rubbish,1,1\n", c=b"")
    done, differs = growing.update()
    assert differs is None and done.rejected == 1
    assert [entry.name for entry in done.manifest.files] == ["a.csv", "b.csv", "c.csv"]
    assert growing.update()[0].read == []


def test_manifests_of_long_ago_do_not_pile_up(growing: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "KEPT", 2)
    left = growing.place.root / "lake" / "streams" / "s__files"
    for n in range(5):
        growing.put(**{f"f_{n}": lines(n)})
        done, _ = growing.update()
        assert f"{done.manifest.ingestion}.json" in {path.name for path in left.iterdir()} and len(list(left.iterdir())) <= 3
    assert growing.update()[0].read == []  # what counts is still known


# ---- files that change ---------------------------------------------------------------------------------------------------


def test_a_changed_file_replaces_its_rows_and_its_rejects(growing: Growing) -> None:
    growing.put(a=lines(1, 2, "x"), b=lines(3, "y", 4), c=lines(5))
    growing.update()
    #   arrival     0  1 | 2  3 | 4
    #   before      1  2 | 3  4 | 5
    #   after       1  2 | 3  8 | 5         the clock goes on with 8
    growing.put(b=lines(3, 8, "z"))
    _, differs = growing.update()
    assert differs == 3
    assert nothing_but(growing.place.rows(), "clock")[-2:] == [(8_000_000,), (8_000_000,)]
    assert [(file, text[0]) for file, _, text, _ in growing.place.rejects()] == [("a.csv", "x"), ("b.csv", "z")]


def test_a_file_that_was_appended_to_changes_nothing_before_what_is_new(growing: Growing) -> None:
    growing.put(a=lines(*range(10)))
    growing.update()
    growing.put(a=lines(*range(14)))
    assert growing.update()[1] == 10


def test_a_file_appended_to_in_the_middle_moves_what_is_behind_it(growing: Growing) -> None:
    growing.put(a=lines(1, 2), b=lines(3, 4))
    growing.update()
    growing.put(a=lines(1, 2, 3))
    done, differs = growing.update()
    assert differs == 3  # the new 3 stands where a 3 stood before, and is equal to it
    assert done.read == ["a.csv", "b.csv"]


def test_a_file_changed_in_what_is_not_stored_changes_no_tuple(growing: Growing) -> None:
    growing.put(a=lines(1, "x", 2), b=lines(3))
    growing.update()
    growing.put(a=lines(1, 2, "y"))
    _, differs = growing.update()
    assert differs is None
    assert [text[0] for _, _, text, _ in growing.place.rejects()] == ["y"]


def test_a_changed_file_does_not_rewrite_the_days_before_it(growing: Growing) -> None:
    growing.put(a=lines(1, DAY + 1, 2 * DAY + 1), b=lines(3 * DAY + 1, 4 * DAY + 1))
    growing.update()
    before = growing.place.log().paths
    growing.put(b=lines(3 * DAY + 1, 4 * DAY + 2))
    assert growing.update()[1] == 4
    assert growing.place.log().paths[:4] == before[:4]  # the very files


def test_a_removed_file_takes_its_rows_and_rejects_along(growing: Growing) -> None:
    growing.put(a=lines(1, 2), b=lines(3, "x"), c=lines(4, "y"))
    growing.update()
    growing.remove("b")
    _, differs = growing.update()
    assert differs == 2
    assert [file for file, *_ in growing.place.rejects()] == ["c.csv"]


def test_the_last_file_removed_shortens_the_log(growing: Growing) -> None:
    growing.put(a=lines(1, 2), b=lines(3, DAY))
    growing.update()
    growing.remove("b")
    done, differs = growing.update()
    assert (done.changed, differs, growing.place.log().end) == (2, 2, 2)


def test_all_rows_gone_leave_an_empty_log(growing: Growing) -> None:
    growing.put(a=lines(1, DAY), b=b"")
    growing.update()
    growing.remove("a")
    _, differs = growing.update()
    assert differs == 0 and growing.place.log().end == 0
    growing.put(c=lines(7))
    assert growing.update()[1] == 0


def test_a_file_that_went_and_comes_again_is_behind_the_others(growing: Growing) -> None:
    growing.put(a=lines(1), b=lines(2))
    growing.update()
    growing.remove("a")
    growing.update()
    growing.put(a=lines(1))
    growing.update()
    assert nothing_but(growing.place.rows(), "ts") == [(2_000_000,), (1_000_000,)]


def test_files_that_change_and_come_at_once(growing: Growing) -> None:
    growing.put(a=lines(1, 2), b=lines(3), c=lines(4))
    growing.update()
    growing.remove("c")
    growing.put(b=lines(5), d=lines(6), _0=lines(7))
    growing.update()
    assert growing.order == ["a.csv", "b.csv", "-0.csv", "d.csv"]


# ---- order: time ---------------------------------------------------------------------------------------------------------


def test_sorted_by_time_a_file_behind_the_log_is_read_alone(sorted_by_time: Growing) -> None:
    sorted_by_time.put(a=lines(5, 1, 3))
    sorted_by_time.update()
    sorted_by_time.put(b=lines(9, 5, 7))  # an equal time is behind: the file came later
    done, differs = sorted_by_time.update()
    assert differs == 3 and done.read == ["b.csv"]


def test_sorted_by_time_a_file_that_reaches_back_rewrites_the_log_from_there(sorted_by_time: Growing) -> None:
    #   log    1  3  5  7  9
    #   new             6     10
    #   then   1  3  5  6  7  9  10
    sorted_by_time.put(a=lines(5, 1, 3, 9, 7))
    sorted_by_time.update()
    sorted_by_time.put(b=lines(10, 6))
    _, differs = sorted_by_time.update()
    assert differs == 3
    assert [t for (t,) in nothing_but(sorted_by_time.place.rows(), "ts")] == [t * 10**6 for t in (1, 3, 5, 6, 7, 9, 10)]


def test_sorted_by_time_a_removed_file_closes_the_gap(sorted_by_time: Growing) -> None:
    sorted_by_time.put(a=lines(1, 5), b=lines(3, DAY), c=lines(4, "x"))
    sorted_by_time.update()
    sorted_by_time.remove("b")
    assert sorted_by_time.update()[1] == 1


def test_sorted_by_a_column_a_file_that_reaches_back_rewrites_the_log_from_there(tmp_path: Path) -> None:
    growing = Growing(Place(tmp_path), declared("o"))
    growing.put(a=b"5,10,1\n1,30,1\n")
    growing.update()
    growing.put(b=b"9,30,2\n3,31,2\n")  # equal to the last: behind
    done, differs = growing.update()
    assert differs == 2 and done.read == ["b.csv"]
    growing.put(c=b"100,20,3\n")
    assert growing.update()[1] == 1
    #   o      10    20    30    30    31
    #   ts      5   100     1     9     3
    #   clock   5   100   100   100   100
    assert nothing_but(growing.place.rows(), "arrived", "clock") == [
        (o, c * 10**6) for o, c in [(10, 5), (20, 100), (30, 100), (30, 100), (31, 100)]
    ]


def test_rows_equal_in_time_and_value_of_two_files_are_no_difference_when_one_is_swapped_for_the_other(sorted_by_time: Growing) -> None:
    sorted_by_time.put(a=lines(1, 2), b=lines(1, 2))
    sorted_by_time.update()
    sorted_by_time.remove("a")
    sorted_by_time.put(c=lines(1, 2))
    assert sorted_by_time.update()[1] is None


# ---- the declaration changes ---------------------------------------------------------------------------------------------


def test_a_new_column_rewrites_the_log_from_its_first_tuple(growing: Growing) -> None:
    growing.put(a=lines(1, 2), b=lines(3, "x"))
    growing.update()
    old = growing.place.log().version
    growing.declaration = stream(
        files={"pattern": "*.csv"},
        columns=[{"name": "t", "type": "time"}, {"name": "o", "type": "int32"}, {"name": "w", "from": "v", "type": "float32"}],
        time={"column": "t", "format": "number", "keep": "seconds"},
    )
    growing.update()
    rows = growing.place.rows()
    assert nothing_but(rows, "w", "seconds") == [(0.5, "1"), (0.5, "2"), (0.5, "3")] and "v" not in rows[0]
    assert growing.place.log().first_changed_since(old) == 0


def test_a_title_or_a_unit_changes_nothing(growing: Growing) -> None:
    growing.put(a=lines(1, 2))
    first, _ = growing.update()
    growing.declaration = declared(title="The same, with a title")
    assert growing.update()[0].version == first.version


def test_a_narrower_range_rewrites_the_log_from_the_first_row_that_falls_out(growing: Growing) -> None:
    growing.put(a=lines(1, 2, DAY, 3), b=lines(4))
    growing.update()
    growing.declaration = declared(range=["1970-01-01", "1970-01-02"])
    assert growing.update()[1] == 2


# ---- anything, at random -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["file", "time", "o"])
@pytest.mark.parametrize("seed", range(6))
def test_after_any_sequence_of_changes_the_log_is_that_of_its_files(tmp_path: Path, order: str, seed: int) -> None:
    random_ = random.Random(f"{order}{seed}")
    jump = {"max_jump": "2d"} if seed % 2 else {}
    growing = Growing(Place(tmp_path), declared(order, **jump), file_rows=random_.choice([1, 3, 100]))
    growing.put(start=lines(1))
    base = 0

    def some() -> bytes:
        times: list[int | str] = [base + random_.randrange(2 * DAY) // random_.choice([1, 1000]) for _ in range(random_.randrange(7))]
        return lines(*times, *random_.choice([[], ["x"]]), v=random_.choice([0.5, 1.5]))

    for _ in range(8):
        for _ in range(random_.choice([1, 1, 2, 3])):
            base += random_.choice([0, DAY // 3, 2 * DAY])
            names = [name.removesuffix(".csv") for name in growing.contents]
            chosen = growing.place.raw / f"{random_.choice(names)}.csv"
            step = random_.choice(["new", "new", "append", "change", "remove", "cut", "touch"])
            if step == "new":
                growing.put(**{f"part_{random_.randrange(20)}": some()})
            elif step == "append":
                chosen.write_bytes(chosen.read_bytes() + some())
            elif step == "change":
                chosen.write_bytes(some())
            elif step == "remove" and len(names) > 1:
                chosen.unlink()
            elif step == "cut":
                chosen.write_bytes(b"".join(chosen.read_bytes().splitlines(keepends=True)[:-1]))
        growing.update()
