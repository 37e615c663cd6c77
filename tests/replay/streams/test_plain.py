"""Lines that are read by the compiled pass, few or many others among them: the log is the reference's, to the bit.

The files of `test_fuzz.py` are so odd that nearly every line goes the long way round. Here most are as lines of real files are.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from replay.streams.declaration import Declaration
from replay.streams.delimited import Delimited
from replay.streams.lines import Lines
from replay.streams.plain import is_simple, read_plain
from tests.replay.streams.fuzz_values import REAL, TEXTS, TIMES, TRUTHS, WHOLE
from tests.replay.streams.harness import Place, assert_equals, stream
from tests.replay.streams.reference import expected

COLUMNS = [
    {"name": "t", "type": "time"},
    {"name": "tiny", "type": "int8"},
    {"name": "truth", "type": "bool"},
    {"name": "whole", "type": "int32", "range": [-(10**6), 10**6]},
    {"name": "unread", "type": "skip"},
    {"name": "text", "type": "string"},
    {"name": "long", "type": "int64"},
    {"name": "real", "type": "float64"},
    {"name": "last", "type": "bool"},
]
ODD = {
    "t": TIMES, "tiny": WHOLE, "truth": TRUTHS, "whole": WHOLE, "unread": TEXTS, "text": TEXTS, "long": WHOLE, "real": REAL, "last": TRUTHS,
}  # fmt: skip
TIME = {"column": "t", "zone": "America/Los_Angeles", "keep": "was", "format": ["iso", "number"]}

KINDS = {
    "comma": stream(files={"pattern": "*.csv"}, columns=COLUMNS, time=TIME, nulls=["", "NA", "null"]),
    "tab, no quotes, glued": stream(
        files={"pattern": "*.csv", "format": "tsv", "quote": None, "glued_after": 1}, columns=COLUMNS, time=TIME, max_jump="1h"
    ),
    "spaces, short": stream(
        files={"pattern": "*.csv", "delimiter": " ", "quote": None, "short_records": True}, columns=COLUMNS, time=TIME, order="time"
    ),
    "nothing is missing": stream(files={"pattern": "*.csv", "delimiter": ";", "quote": "'"}, columns=COLUMNS, time=TIME, nulls=["NA"]),
    "a number is missing": stream(files={"pattern": "*.csv"}, columns=COLUMNS, time=TIME, nulls=["", "-99", "NaN"]),
    "a truth value is missing": stream(files={"pattern": "*.csv"}, columns=COLUMNS, time=TIME, nulls=["", "0"]),
}


def plain_value(random_: random.Random, name: str, second: int) -> str:
    """A value as plain files have them, now and then none."""
    if name != "t" and random_.random() < 0.03:
        return ""
    match name:
        case "t":
            return f"2020-01-01T{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{random_.randrange(10**7):07d}Z"
        case "tiny":
            return str(random_.randrange(-128, 128))
        case "truth" | "last":
            return random_.choice("01")
        case "text" | "unread":
            return random_.choice(["on", "off", "größer", "1.5", "-99"])
        case "real":
            return f"{random_.choice(['', '-'])}{random_.randrange(10 ** random_.randrange(1, 7))}.{random_.randrange(10**6)}"
        case _:
            return f"{random_.choice(['', '-'])}{random_.randrange(10**6):0{random_.randrange(1, 8)}d}"


def lines_of(declaration: Declaration, seed: int, share_odd: float) -> bytes:
    """Lines of which a share has another end, a value that is none, a field too few or too many, or the next line glued to it."""
    random_, separator, out = random.Random(seed), declaration.files[0].separator, []
    names = [column.name for column in declaration.columns]
    for n in range(400):
        values = {name: plain_value(random_, name, n) for name in names}
        end = "\r\n" if seed % 2 else "\n"
        if n and random_.random() < share_odd:
            name = random_.choice(names)
            what = random_.choice(["value", "value", "value", "short", "longer", "glued", "end"])
            values[name] = random_.choice(ODD[name]) if what == "value" else values[name]
            cells = list(values.values())
            cells = cells[: random_.randrange(1, len(cells))] if what == "short" else [*cells, "1"] if what == "longer" else cells
            end = "" if what == "glued" else random_.choice(["\r", "\n\n", "\r\n"]) if what == "end" else end
        else:
            cells = list(values.values())
        out.append(separator.join(cells) + end)
    return "".join(out).encode()


@pytest.mark.parametrize("share_odd", [0.0, 0.04, 0.4], ids=["plain", "few odd", "many odd"])
@pytest.mark.parametrize("kind", KINDS)
def test_plain_lines_and_odd_ones_among_them_are_read_as_the_reference_reads_them(tmp_path: Path, kind: str, share_odd: float) -> None:
    declaration, place = KINDS[kind], Place(tmp_path)
    contents = {f"part-{seed}.csv": lines_of(declaration, seed, share_odd) for seed in range(2)}
    done = place.ingest(declaration, contents, split_bytes=9_000, file_rows=300)
    wanted = expected(declaration, contents)
    assert len(wanted.rows) > 300 and (share_odd == 0.0 or len(wanted.rejects) > 5)
    assert_equals(place, done, wanted)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "a truth value is missing"])
def test_what_is_plain_is_not_left_to_the_long_way_round(kind: str) -> None:
    declaration = KINDS[kind]
    types = {c.name: t for c, t in zip(declaration.columns, (pa.string(), pa.int8(), pa.bool_(), pa.int32(), None, pa.string(), pa.int64(),
             pa.float64(), pa.bool_()), strict=True) if t is not None}  # fmt: skip
    at = {column.name: position for position, column in enumerate(declaration.columns) if column.type != "skip"}
    files = declaration.files[0]
    form = Delimited(len(declaration.columns), at, types, files.separator, files.quote, declaration.nulls, files.short_records)
    found = read_plain(form, Lines(lines_of(declaration, 0, 0.04), 0, 0))
    assert found is not None
    share = len(found[1]) / 400
    assert 0.9 < share < 1.0 if "" in declaration.nulls else 0.7 < share < 1.0  # an empty field that is no null is not plain


def numbers(texts: list[str], kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """The values of plain texts, and the lines that they stand in."""
    found = read_plain(Delimited(1, {"a": 0}, {"a": kind}), Lines("\n".join(texts).encode(), 0, 0))
    assert found is not None
    return found[0]["a"].combine_chunks(), found[1].tolist()


def test_decimal_numbers_are_the_nearest_doubles() -> None:
    random_ = random.Random(0)
    texts = [
        str(2**53),
        f"-{2**53}.0",
        str(2**53 + 1),
        "0.0",
        "-0",
        "-0.000",
        "00012.500",
        "0.1",
        "123456789.123456789",
        "9" * 18,
        "9" * 19,
    ]
    for _ in range(20_000):
        digits = str(random_.randrange(10 ** random_.randrange(1, 19)))
        point = random_.randrange(1, len(digits) + 1)
        texts.append(random_.choice(["", "-"]) + (digits[:point] + "." + digits[point:]).rstrip("."))
    values, lines = numbers(texts, pa.float64())
    assert values.to_numpy().tobytes() == np.array([float(texts[line]) for line in lines]).tobytes()  # the sign of a zero too
    # Left to Arrow is what has more digits than a double holds exactly.
    assert sorted(set(range(len(texts))) - set(lines)) == [
        i
        for i, text in enumerate(texts)
        if len(d := text.lstrip("-").replace(".", "")) > 18 or int(d) > 2**53 or len(text.lstrip("-")) > 18
    ]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_whole_numbers_end_where_their_type_does(bits: int) -> None:
    edge = 2 ** (bits - 1)
    texts = [str(edge - 1), str(edge), str(-edge), str(-edge - 1), "0", "-0", "007", "-", "+1", " 1", "1.0", "1e1", "0x1", "1_0", "٣"]
    values, lines = numbers(texts, pa.int64() if bits == 64 else getattr(pa, f"int{bits}")())
    plain = [0, 2, 4, 5, 6] if bits < 64 else [4, 5, 6]  # what has 19 digits is left to Arrow
    assert lines == plain and values.to_pylist() == [int(texts[line]) for line in plain]


def test_where_a_truth_value_stands_for_none_no_line_is_plain() -> None:
    assert not is_simple(Delimited(1, {"a": 0}, {"a": pa.bool_()}, nulls=["", "0"]))
    assert is_simple(Delimited(1, {"a": 0}, {"a": pa.int64()}, nulls=["", "0", "-99"]))
    assert not is_simple(Delimited(1, {"a": 0}, {"a": pa.float32()}))  # a double that is rounded again is not the nearest
