"""The log does not depend on how the work was divided: any split size, any number of tasks, in any order."""

from __future__ import annotations

import gzip
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replay.lake import Lake
from replay.streams import lines, samples, staged_files, staging, writing
from replay.streams.declaration import Declaration
from replay.streams.delimited import Delimited
from replay.streams.layout import Layout
from replay.streams.numbering import Judged
from replay.streams.parsed import StreamError
from replay.streams.raw import RawFile
from replay.streams.splitting import Outcome
from tests.replay.streams.harness import Place, assert_equals, stream
from tests.replay.streams.reference import expected

COLUMNS = [
    {"name": "seq", "type": "int32"},
    {"name": "t", "type": "time"},
    {"name": "k", "type": "string"},
    {"name": "v", "type": "float64"},
]
TIME = {"column": "t", "format": ["number", "iso"]}
KINDS: dict[str, Declaration] = {
    "order: file, spikes": stream(
        files={"pattern": "*.csv", "header": True}, columns=COLUMNS, time=TIME, key="k", order="file", max_jump="30s"
    ),
    "order: time": stream(files={"pattern": "*.csv", "header": True}, columns=COLUMNS, time=TIME, key="k", order="time"),
    "order: a column": stream(files={"pattern": "*.csv", "header": True}, columns=COLUMNS, time=TIME, order="seq"),
    "order: a column, spikes": stream(
        files={"pattern": "*.csv", "header": True},
        columns=COLUMNS,
        time=TIME,
        order="seq",
        max_jump="5s",
        range=["1970-01-01", "1970-01-09"],
    ),
    "short and quoted": stream(
        files={"pattern": "*.csv", "header": True, "short_records": True}, columns=COLUMNS, time=TIME, key=["k", "seq"], order="file"
    ),
    "glued": stream(
        files={"pattern": "*.csv", "quote": None, "glued_after": 3},
        columns=[{"name": "t", "type": "int64"}, {"name": "k", "type": "string"}, {"name": "v", "type": "string"}],
        time={"column": "t", "format": "number", "keep": "was"},
        max_jump="1m",
    ),
    "json lines": stream(
        files={"pattern": "*.csv", "format": "json"},
        columns=[{"name": "t", "type": "int64"}, {"name": "v", "type": "float64"}, {"name": "k", "type": "string"}],
        time={"column": "t", "format": "number"},
        order="time",
    ),
}


def lines_of(kind: str, seed: int, count: int) -> bytes:
    """A file with a bit of everything: wrong lines, blank ones, all line ends, times that jump and go back, days that end."""
    random_ = random.Random(seed)
    out = [] if kind in ("glued", "json lines") else [b"\xef\xbb\xbf\r\nseq,t,k,v\n"]
    clock = 86_380
    for n in range(count):
        clock += random_.choice([0, 1, 1, 2, 7, -5])
        t = clock + random_.choice([0] * 12 + [60, 1000, -100])
        key = random_.choice(["a", "b", "c d", "é"])
        if kind == "glued":
            record = f"{t},{key},x{n % 100:02d}"
            line = record + (random_.choice(["", "", f"{t + 1},{key},y{n % 100:02d}", "z,z,zzz", ",", "9"]) if n % 3 == 0 else "")
        elif kind == "json lines":
            line = random_.choice([f'{{"t":{t},"v":{n}.5,"k":"{key}"}}'] * 5 + [f'{{"t":"{t}"}}', "{", f'{{"t":{t},"k":null}}', "[1]"])
        else:
            whole = f"{random_.randrange(count)},{t},{key},{n}.25"
            odd = [
                f"x,{t},{key},1",
                f'{n},{t},"{key}, ""q""",{n}',
                f"{n},{t}",
                f'{n},{t},"open,1',
                f"{n},,a,1",
                f"{n},1970-01-02,a,",
                "   ",
            ]
            line = random_.choice([whole] * 12 + odd)
        out.append(line.encode() + random_.choice([b"\n"] * 4 + [b"\r\n", b"\r", b"\n\n", b"\r\n\r\n"]))
    return b"".join(out) if seed % 2 else b"".join(out).rstrip(b"\r\n")


def contents_of(kind: str) -> dict[str, bytes]:
    return {"part-10.csv": lines_of(kind, 1, 12), "part-9.csv": lines_of(kind, 2, 25), "part-11.csv": lines_of(kind, 3, 3)}


class InAnotherOrder:
    """Tasks as a busy cluster runs them: in any order, results in theirs."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.most = 0

    def __call__(self, function: Callable[[Any], Any], arguments: Sequence[Any], weigh: Callable[[Any], int] | None = None) -> list[Any]:
        self.most = max(self.most, len(arguments))
        order = list(range(len(arguments)))
        self._random.shuffle(order)
        results = {at: function(arguments[at]) for at in order}
        return [results[at] for at in range(len(arguments))]


@pytest.mark.parametrize("split_bytes", [1, 2, 3, 5, 17, 64, 200, 1 << 30])
@pytest.mark.parametrize("kind", KINDS)
def test_any_split_size_gives_the_log_and_the_rejects_of_the_reference(tmp_path: Path, kind: str, split_bytes: int) -> None:
    contents, declaration, place = contents_of(kind), KINDS[kind], Place(tmp_path)
    done = place.ingest(declaration, contents, split_bytes=split_bytes, file_rows=7)
    wanted = expected(declaration, contents)
    assert wanted.rejects and len(wanted.rows) > 10  # the case is worth it
    assert_equals(place, done, wanted)


@pytest.mark.parametrize("file_rows", [1, 2, 5, 1000])
@pytest.mark.parametrize("kind", ["order: file, spikes", "order: time", "order: a column, spikes"])
def test_the_files_of_the_log_are_the_same_for_every_split_size(tmp_path: Path, kind: str, file_rows: int) -> None:
    contents, declaration = contents_of(kind), KINDS[kind]
    seen = []
    for n, split_bytes in enumerate((4, 40, 400, 1 << 30)):
        place = Place(tmp_path / str(n))
        place.ingest(declaration, contents, split_bytes=split_bytes, file_rows=file_rows)
        log = place.log()
        seen.append((log.first.tolist(), log.rows.tolist(), log.clock.tolist(), place.rows()))
        # A sorted log is cut by a sample of its values, so its files are of about this size.
        assert log.rows.max() <= (file_rows if declaration.order == "file" else 2 * file_rows)
        assert file_rows == 1000 or len(log.paths) > 4
    assert all(one == seen[0] for one in seen[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_one_task_or_many_in_any_order_give_the_same_log(tmp_path: Path, kind: str) -> None:
    contents, declaration = contents_of(kind), KINDS[kind]
    one, ten = Place(tmp_path / "one"), Place(tmp_path / "ten")
    alone = one.ingest(declaration, contents, file_rows=9)
    tasks = InAnotherOrder(5)
    divided = ten.ingest(declaration, contents, tasks, split_bytes=60, file_rows=9)
    assert tasks.most >= 10
    assert ten.rows() == one.rows()
    assert ten.rejects() == one.rejects()
    assert divided.manifest.files == alone.manifest.files
    assert ten.log().first.tolist() == one.log().first.tolist()


def test_a_spike_is_one_wherever_the_split_lies_around_it(tmp_path: Path) -> None:
    #   line     1   2     3     4     5    6      7
    #   time     0   5  | 900 |  6  | 907  915  | 8        900 alone is a spike; 907 is 8 s before 915, which is no neighbour far behind:
    #                                                      but 915 is ahead of both 907 (by 8 s: no spike) and 8
    declaration = stream(
        files={"pattern": "*.csv"}, columns=[{"name": "t", "type": "int64"}, {"name": "n", "type": "int32"}],
        time={"column": "t", "format": "number"}, max_jump="10s",
    )  # fmt: skip
    content = b"".join(b"%d,%d\n" % (t, n) for n, t in enumerate([0, 5, 900, 6, 907, 915, 8], start=1))
    for split_bytes in range(1, len(content) + 1):
        place = Place(tmp_path / str(split_bytes))
        place.ingest(declaration, {"a.csv": content}, split_bytes=split_bytes)
        assert [row["n"] for row in place.rows()] == [1, 2, 4, 5, 6, 7]
        assert place.rejects() == [("a.csv", 3, "900,3", "more than 10s ahead of its neighbours")]


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        ([100, 1, 2], [1, 2]),  # the first record has one neighbour, which decides
        ([1, 2, 100], [1, 2]),  # and so has the last
        ([100, 1], [1]),
        ([1, 100], [1]),
        ([100], [100]),  # an only record is right
        ([1, 11, 21, 31], [1, 11, 21, 31]),  # ten seconds are not more than ten seconds
        ([1, 12, 1], [1, 1]),
        ([1, 100, 200, 2], [1, 100, 2]),  # 100 is not ahead of 200, 200 is ahead of both
        ([1, 100, 100, 2], [1, 100, 100, 2]),  # each has a neighbour at its side
    ],
)
def test_the_first_and_the_last_record_of_a_file_are_judged_by_the_one_neighbour_they_have(
    tmp_path: Path, times: list[int], kept: list[int]
) -> None:
    declaration = stream(
        files={"pattern": "*.csv"}, columns=[{"name": "t", "type": "int64"}, {"name": "n", "type": "int32"}],
        time={"column": "t", "format": "number"}, max_jump="10s",
    )  # fmt: skip
    content = "".join(f"{t},{n}\n" for n, t in enumerate(times))
    for split_bytes in (1, 3, 6, 100):
        place = Place(tmp_path / str(split_bytes))
        # The files before and after are other files: what stands in them is no neighbour.
        place.ingest(declaration, {"a.csv": "1,0\n", "b.csv": content, "c.csv": "1,0\n"}, split_bytes=split_bytes)
        assert [row["t"] for row in place.rows()] == [1, *kept, 1]


@pytest.mark.parametrize("end", [b"\r", b"\r\n", b"\n\r", b"\r\r"])
def test_a_file_with_one_kind_of_line_ends_has_the_same_lines_in_any_split(tmp_path: Path, end: bytes) -> None:
    declaration = stream(files={"pattern": "*.csv", "header": True}, columns=PAIRS, time={"column": "t", "format": "number"})
    contents = {"a.csv": b"t,v" + end + b"".join(b"%d,%d" % (n, n % 7) + end for n in range(40)) + b"x,1" + end}
    for split_bytes in (1, 2, 3, 7, 1000):
        place = Place(tmp_path / str(split_bytes))
        assert_equals(place, place.ingest(declaration, contents, split_bytes=split_bytes), expected(declaration, contents))
        assert [row["v"] for row in place.rows()] == [n % 7 for n in range(40)]


def test_a_line_longer_than_a_mebibyte_is_one_reject_and_the_lines_around_it_are_read(tmp_path: Path) -> None:
    declaration = stream(
        files={"pattern": "*.csv"}, columns=[{"name": "t", "type": "int64"}, {"name": "v", "type": "string"}],
        time={"column": "t", "format": "number"},
    )  # fmt: skip
    long, longer = b"2," + b"x" * (1 << 20), b"4," + b"y" * (9 << 20)
    content = b"1,a\n" + long + b"\r\n3," + b"b" * 1_000_000 + b"\r" + longer + b"\n5,c\n" + long
    for split_bytes in (1_000_000, 3 << 20, 1 << 30):
        place = Place(tmp_path / str(split_bytes))
        done = place.ingest(declaration, {"a.csv": content}, split_bytes=split_bytes)
        assert [(row["t"], len(row["v"])) for row in place.rows()] == [(1, 1), (3, 1_000_000), (5, 1)]
        assert [(line, text[:4], reason) for _, line, text, reason in place.rejects()] == [
            (2, "2,xx", "longer than a record can be"),
            (4, "4,yy", "longer than a record can be"),
            (6, "2,xx", "longer than a record can be"),
        ]
        assert all(len(text) < 2000 for _, _, text, _ in place.rejects())  # the table of rejects does not swell with them
        (entry,) = done.manifest.files
        assert (entry.lines, entry.records, entry.rows, entry.rejected) == (6, 6, 3, 3)


# ---- large tuples, and many of one value -----------------------------------------------------------------------------------

PAIRS = [{"name": "t", "type": "time"}, {"name": "v", "type": "int64"}]


@pytest.mark.parametrize("order", ["time", "v", "file"])
def test_a_value_that_fills_many_files_is_cut_inside_by_file_and_line(tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    #   ordered by    0 0 0 | 7 7 7 7 | 7 7 7 7 | 7 7 ... 7 | 8 8 9         the sevens are cut where a file is full; the clock goes on
    monkeypatch.setattr(staged_files, "BATCH_ROWS", 7)
    monkeypatch.setattr(staged_files, "RUN_ROWS", 45)
    columns = [*PAIRS, {"name": "n", "type": "int64"}]
    declaration = stream(files={"pattern": "*.csv"}, columns=columns, time={"column": "t", "format": "number"}, order=order)
    random_ = random.Random(1)
    contents = {}
    for file in range(3):
        rows = [(random_.randrange(50), random_.choice([0] + [7] * 20 + [8, 9])) for _ in range(100)]
        rows = [(v, t) for t, v in rows] if order == "time" else rows
        contents[f"{file}.csv"] = "".join(f"{t},{v},{n}\n" for n, (t, v) in enumerate(rows)).encode()
    seen = []
    for n, split_bytes in enumerate((50, 300, 1 << 30)):
        place = Place(tmp_path / str(n))
        assert_equals(place, place.ingest(declaration, contents, split_bytes=split_bytes, file_rows=20), expected(declaration, contents))
        log = place.log()
        assert log.rows.max() <= 20
        seen.append((log.first.tolist(), log.clock.tolist()))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("order", ["time", "v"])
def test_a_frequent_value_that_no_sample_has_met_fills_files_of_its_own(
    tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    #   values    0 1 2 ... 417 417 417 ... 417 ... 499        of five hundred the sample knows sixteen, and the frequent one by chance only
    monkeypatch.setattr(samples, "SIZE", 16)
    monkeypatch.setattr(staged_files, "RUN_ROWS", 45)
    declaration = stream(files={"pattern": "*.csv"}, columns=PAIRS, time={"column": "t", "format": "number"}, order=order)
    random_ = random.Random(2)
    values = [random_.choice([417, random_.randrange(500)]) for _ in range(700)]
    pairs = [(value, n) if order == "time" else (n % 50, value) for n, value in enumerate(values)]
    contents = {"a.csv": "".join(f"{t},{v}\n" for t, v in pairs).encode()}
    seen = []
    for n, split_bytes in enumerate((400, 1 << 30)):
        place = Place(tmp_path / str(n))
        assert_equals(place, place.ingest(declaration, contents, split_bytes=split_bytes, file_rows=20), expected(declaration, contents))
        log = place.log()
        assert log.rows.max() <= 2 * 20 and len(log.paths) < 80  # none is large, and few are small
        seen.append(log.first.tolist())
    assert seen[0] == seen[1]


@pytest.mark.parametrize("order", ["file", "time"])
def test_large_tuples_are_staged_and_stored_in_smaller_files(tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [{"name": "t", "type": "time"}, {"name": "s", "type": "string"}]
    declaration = stream(files={"pattern": "*.csv"}, columns=columns, time={"column": "t", "format": "number"}, order=order)
    monkeypatch.setattr(staged_files, "BATCH_BYTES", 2_000)
    monkeypatch.setattr(staged_files, "RUN_BYTES", 10_000)
    monkeypatch.setattr(samples, "FILE_BYTES", 4_000)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 4_096)
    runs: list[staged_files.Run] = []
    write = staged_files.StageWriter._write

    def noted(*these: Any) -> staged_files.Run:
        runs.append(write(*these))
        return runs[-1]

    monkeypatch.setattr(staged_files.StageWriter, "_write", noted)
    contents = {"a.csv": b"".join(b"%d,%s\n" % (n * 7 % 100, b"x" * (n % 200)) for n in range(400))}
    seen = []
    for n, split_bytes in enumerate((5_000, 1 << 30)):
        place = Place(tmp_path / str(n))
        assert_equals(place, place.ingest(declaration, contents, split_bytes=split_bytes), expected(declaration, contents))
        seen.append(place.log().rows.tolist())
    assert seen[0] == seen[1] and max(seen[0]) <= 64 and len(seen[0]) > 8
    assert max(sum(batch.bytes for batch in run.batches) for run in runs) < 16_000
    assert max(batch.bytes for run in runs for batch in run.batches) < 4_000
    assert all(len({batch.rows for batch in run.batches[:-1]}) <= 1 for run in runs)


def test_many_rejects_of_a_split_are_written_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "REJECTS_BYTES", 2_000)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 500)
    declaration = stream(files={"pattern": "*.csv*"}, columns=PAIRS, time={"column": "t", "format": "number"}, max_jump="1m")
    content = b"".join(b"%d,%s\n" % (n + 1000 * (n % 70 == 69), b"rejected" if n % 4 else b"1") for n in range(400)) + b"9999,1\n"
    place = Place(tmp_path)
    done = place.ingest(declaration, {"a.csv.gz": gzip.compress(content)})
    assert_equals(place, done, expected(declaration, {"a.csv.gz": content}))
    table = place.lake.table(place.lake.address("streams", "s__rejects"))
    assert table is not None
    rows = pa.table(table.get_add_actions(flatten=True))["num_records"].to_pylist()
    assert sum(rows) == done.rejected > 300 and len(rows) > 5 and max(rows) < 60


def test_ten_thousand_files_are_accounted_for_in_no_time() -> None:
    files = [RawFile(f"{n}.csv", 1, 0) for n in range(10_000)]
    layout, nothing = Layout(Delimited(1, {}, {}), 0, 1), samples.Sample.empty()
    splits = [staging.Split(Lake("/"), KINDS["order: time"], file, layout, n // 2) for n, file in enumerate(files + files)]
    staged = [staging.Staged(3, 2, 1, None, [], None, None, None, None, nothing)] * len(splits)
    outcome, named = Outcome(files, splits, staged, Judged([], [], [1] * len(splits))), {file.name: "" for file in files}
    begun = time.process_time()
    entries = outcome.entries(dict.fromkeys(named, 1), named)
    assert time.process_time() - begun < 3
    assert {(entry.lines, entry.records, entry.rows, entry.rejected) for entry in entries} == {(7, 4, 2, 2)} and len(entries) == 10_000


def test_lines_that_lack_most_of_their_fields_are_read_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "PIECE_VALUES", 100)
    columns = [{"name": "t", "type": "time"}, *({"name": f"c{n}", "type": "string"} for n in range(30))]
    files = {"pattern": "*.csv", "short_records": True}
    declaration = stream(files=files, columns=columns, time={"column": "t", "format": "number"})
    contents = {"a.csv": b"".join(b"%d,a\n" % n for n in range(20)) + b"x\n\n7" + b",b" * 30 + b"\n8" + b",b" * 31}
    place = Place(tmp_path)
    assert_equals(place, place.ingest(declaration, contents), expected(declaration, contents))


# ---- names -----------------------------------------------------------------------------------------------------------------


def test_a_digit_that_is_no_decimal_is_a_letter_of_a_name(tmp_path: Path) -> None:
    declaration = stream(files={"pattern": "*.csv"}, columns=PAIRS, time={"column": "t", "format": "number"})
    contents = {name: b"%d,1\n" % n for n, name in enumerate(["1²2.csv", "1²10.csv", "2.csv", "١٠.csv"])}
    place = Place(tmp_path)
    assert_equals(place, place.ingest(declaration, contents), expected(declaration, contents))
    assert [row["ts"] // 10**6 for row in place.rows()] == [0, 1, 2, 3]


def test_a_name_that_is_not_text_is_told_in_a_sentence(tmp_path: Path) -> None:
    declaration = stream(files={"pattern": "*.csv"}, columns=PAIRS, time={"column": "t", "format": "number"})
    place = Place(tmp_path)
    place.write({"a.csv": "1,1\n"})
    (Path(os.fsdecode(os.fsencode(place.raw) + b"/b\xff.csv"))).write_bytes(b"1,1\n")
    with pytest.raises(StreamError, match=r"has a file 'b\\\\xff.csv'; allowed are names in UTF-8\.$"):
        place.ingest(declaration)
    assert place.is_untouched()
