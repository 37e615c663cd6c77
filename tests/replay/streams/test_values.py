"""Texts become values: a value is taken if, and only if, it would be taken alone, and finding out which does not take ages."""

from __future__ import annotations

import io
import math
import random
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from replay.log import LAST_US
from replay.streams.declaration import UNITS_PER_SECOND, Time
from replay.streams.times import FURTHEST_US, floats_to_us, read_times, to_us
from replay.streams.values import WHOLE, convert, typed
from tests.replay.streams.fuzz_values import REAL as REALS
from tests.replay.streams.fuzz_values import TIMES
from tests.replay.streams.fuzz_values import WHOLE as WHOLES
from tests.replay.streams.harness import Place, assert_equals, nothing_but, stream
from tests.replay.streams.reference import expected


def test_texts_that_are_no_numbers_are_set_aside_at_once_and_not_found_one_by_one() -> None:
    calls = 0

    def conversion(texts: pa.Array) -> pa.Array:
        nonlocal calls
        calls += 1
        return texts.cast(pa.int64())

    texts = pa.array([f"{n}.5" if n % 4 else str(n) for n in range(10_000)])
    values, taken = convert(texts, conversion, WHOLE)
    assert calls <= 2
    assert values.to_pylist() == [None if n % 4 else n for n in range(10_000)]
    assert taken.tolist() == [n % 4 == 0 for n in range(10_000)]


@pytest.mark.parametrize(("kind", "pool"), [(pa.int8(), WHOLES), (pa.int64(), WHOLES), (pa.float64(), REALS), (pa.float32(), REALS)])
def test_a_number_is_taken_if_and_only_if_it_is_taken_alone(kind: pa.DataType, pool: list[str]) -> None:
    alone = {text: typed(pa.array([text]), kind) for text in pool}
    random_ = random.Random(3)
    for _ in range(50):
        texts = [random_.choice([*pool, None]) for _ in range(random_.randrange(1, 30))]
        values, taken = typed(pa.array(texts, pa.string()), kind)
        assert taken.tolist() == [text is None or bool(alone[text][1][0]) for text in texts]
        assert repr(values.to_pylist()) == repr([None if text is None else alone[text][0][0].as_py() for text in texts])


@pytest.mark.parametrize("form", [["iso"], ["number", "iso"], ["iso", "%m/%d/%Y %H:%M:%S"], ["%m/%d/%Y %H:%M:%S", "number", "iso"]])
def test_a_time_is_read_as_it_is_read_alone(form: list[str]) -> None:
    time = Time(column="t", format=form, zone="America/Los_Angeles")
    alone = {text: read_times(pa.array([text]), time) for text in TIMES}
    random_ = random.Random(4)
    for _ in range(50):
        texts = [random_.choice(TIMES) for _ in range(random_.randrange(1, 30))]
        found = read_times(pa.array(texts), time)
        assert found.known.tolist() == [bool(alone[text].known[0]) for text in texts]
        assert found.us.tolist() == [int(alone[text].us[0]) for text in texts]
        assert found.original.tolist() == [int(alone[text].original[0]) for text in texts]


@pytest.mark.parametrize(
    ("pattern", "no_day"),
    [("%A, %d %B %Y", "Tuesday, 30 February 2016"), ("%a %b %d %H:%M:%S %Y", "Tue Feb 30 00:00:00 2016"), ("%Y %j", "2016 367"),
     ("%I:%M %p, %m/%d/%Y", "03:04 PM, 2/30/2016"), ("%d.%m.%Y %H:%M %z", "30.02.2016 00:00 +0000"), ("100%% %d.%m.%y", "100% 30.02.16")],
)  # fmt: skip
def test_every_day_of_a_year_is_read_by_a_pattern_and_no_other(pattern: str, no_day: str) -> None:
    texts = [(datetime(2016, 1, 1, 15, 4, tzinfo=UTC) + timedelta(days=n)).strftime(pattern) for n in range(366)]
    found = read_times(pa.array([*texts, no_day]), Time(column="t", format=pattern))
    assert found.known.tolist() == [True] * 366 + [False]
    assert found.us[:366].tolist() == [int(datetime.strptime(t, pattern).replace(tzinfo=UTC).timestamp()) * 10**6 for t in texts]


@pytest.mark.parametrize(
    ("pattern", "written", "hours"),
    [("%m/%d/%Y %H:%M:%S%z", "{0.month}/{0.day}/2011 15:04:00-07", 7), ("%m/%d/%Y %H:%M %z", "{0:%m/%d/%Y} 15:04 +14:00", -14),
     ("%d %b %Y %H:%M", "{0:%d %B %Y} 15:04", 0), ("%d %B %Y %H:%M", "{0.day} {0:%b %Y} 15:04", 0),
     ("%d%m%Y,%H%M", "{0:%d%m%Y},1504", 0), ("%c", "{0:%a} {0:%b} {0.day:2} 15:04:00 2011", 0),
     ("%x %I:%M %p", "{0.month}/{0.day}/11 3:04 pm", 0), ("%Y-%j %X", "2011-{0:%j} 15:04:00", 0),
     ("%H:%M %y %U %a", "15:04 {0:%y %U %A}", 0), ("%H:%M %Y %W %w", "15:04 {0:%Y %W %w}", 0)],
)  # fmt: skip
def test_a_day_is_read_however_it_is_written(pattern: str, written: str, hours: int) -> None:
    moments = [datetime(2011, 1, 1, 15, 4, tzinfo=UTC) + timedelta(days=n) for n in range(365)]
    found = read_times(pa.array([written.format(moment) for moment in moments]), Time(column="t", format=pattern))
    assert found.known.all()
    assert found.us.tolist() == [int((moment + timedelta(hours=hours)).timestamp()) * 10**6 for moment in moments]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [("%Y %j", ["2011 366", "2012 367", "2011 0"]), ("%Y %U %w", ["2011 53 0", "2011 0 0", "2011 53 6"]),
     ("%y %W %a", ["12 0 Sat", "12 0 Mon", "12 53 Tue"]), ("%c", ["Tue Feb 30 00:00:00 2011"]),
     ("%Y-%m-%d %H:%M%z", ["2011-02-29 23:30-14", "2011-04-31 00:30+14:00", "2012-02-30 12:00Z"]),
     ("%d %B %Y %X", ["31 Jun 2011 00:00:00", "30 Jun 2011 23:59:60", "3 Jun 2011 23:59:61"])],
)  # fmt: skip
def test_a_day_or_a_second_that_there_is_not_is_no_time(pattern: str, texts: list[str]) -> None:
    assert read_times(pa.array(texts), Time(column="t", format=pattern)).known.tolist() == [False] * len(texts)


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_an_iso_time_may_have_a_comma_and_a_space_in_front_of_its_zone(zone: str) -> None:
    local = [datetime(2011, 9, 15, 1, 2, 3, 250_000), datetime(2011, 11, 6, 1, 30, 0, 125_000)]
    for zoned, tz in {"": ZoneInfo(zone), " UTC": UTC, "UTC": UTC, " Z": UTC, " +05:30": timezone(timedelta(hours=5.5)),
                      "  -0800": timezone(-timedelta(hours=8)), " +02": timezone(timedelta(hours=2))}.items():  # fmt: skip
        for mark in (".", ","):
            texts = [f"{wall:%Y-%m-%d %H:%M:%S}{mark}{wall:%f}{digits}{zoned}" for wall in local for digits in ("", "999", "9999999")]
            found = read_times(pa.array([*texts, f"2011-09-15 01:02{mark}5{zoned}", "2011-09-15"]), Time(column="t", zone=zone))
            wanted = [round(wall.replace(tzinfo=tz).timestamp() * 10**6) for wall in local for _ in range(3)]
            assert found.us[:6].tolist() == wanted
            assert (found.original[:6] - found.us[:6] * 1000).tolist() == [0, 999, 999] * 2
            assert found.known.tolist() == [True] * 6 + [False, True]


@pytest.mark.parametrize("unit", UNITS_PER_SECOND)
def test_the_largest_and_the_smallest_numbers_are_no_times(unit: str) -> None:
    extremes = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]
    us, near = to_us(np.array(extremes), unit)
    wanted = [number * 10**6 // UNITS_PER_SECOND[unit] for number in extremes]
    assert near.tolist() == [abs(number) < FURTHEST_US for number in wanted]
    assert us[near].tolist() == [number for number in wanted if abs(number) < FURTHEST_US]


# ---- numbers that stand for times ----------------------------------------------------------------------------------------


def decimal_us(text: str, unit: str) -> int:
    return math.floor(Decimal(text) * 10**6 / UNITS_PER_SECOND[unit])


@pytest.mark.parametrize("unit", UNITS_PER_SECOND)
def test_finer_digits_of_a_double_are_cut_as_those_of_its_decimal_number_are(unit: str) -> None:
    random_ = random.Random(2)
    texts = ["1.9999999", "-1e-7", "0.29", "1316070000.999999", "-0.5", "0.1", "-0.0", "4.35", "1e-300", "1e9"]
    texts += [f"{random_.choice(['', '-'])}{random_.randrange(2 * 10**9)}.{random_.randrange(10**6):06d}" for _ in range(20_000)]
    texts += [f"{random_.randrange(10**3)}.{random_.randrange(10**9):09d}" for _ in range(20_000)]
    us, near = floats_to_us(np.array([float(text) for text in texts]), unit)
    assert near.all()
    assert us.tolist() == [decimal_us(text, unit) for text in texts]


@pytest.mark.parametrize("unit", UNITS_PER_SECOND)
def test_a_number_may_be_written_with_any_digits_and_an_exponent(unit: str) -> None:
    random_ = random.Random(6)
    texts = ["4.166666666666666435e-02", "1.234567890123456e1", "1e-13", "-1e-13", "-1.0000000000001", "1e-400", "-1E-400", "0e0", "0e17"]
    texts += [".5e1", "5.e+01", "+1.5E3", "-0.5e0", "1e3", "123456789012.345678901234567890e-3", "-2.0000000000010", "-1.00000000000000"]
    saved = io.StringIO()
    np.savetxt(saved, np.r_[np.arange(-24, 100) / 24, 1316070000 + np.arange(100) / 7, 10.0 ** np.arange(-30, 9)])
    texts += [*saved.getvalue().split()]
    texts += [f"{random_.choice(['', '-'])}{random_.random():.{random_.randrange(25)}e}" for _ in range(2_000)]
    found = read_times(pa.array(texts), Time(column="t", format="number", unit=unit))
    assert found.known.all()
    assert found.us.tolist() == [decimal_us(text, unit) for text in texts]
    assert found.original.tolist() == [math.floor(Decimal(text)) for text in texts]
    none = read_times(
        pa.array(["1e400", "-1e30", "e5", "1e", "1e5.5", ".e1", "1e99999999999999999999", "0x1e5"]), Time(column="t", format="number")
    )
    assert not none.known.any()


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_a_double_stands_for_the_decimal_number_of_fifteen_digits_that_it_is_the_nearest_to(unit: str) -> None:
    random_ = random.Random(5)
    last = Decimal(LAST_US) * UNITS_PER_SECOND[unit] / 10**6
    numbers = [Decimal(random_.randrange(10**14, 10**15)).scaleb(random_.randrange(-15, 3)) for _ in range(40_000)]
    # Microseconds of 2106 and later: two of them are hardly a double apart, and of 2242 and later not even that.
    seconds = [(2**32, 10**6), (44 * 10**8, 10**6), (10**10, 10**5)]
    numbers += [
        (Decimal(first) + Decimal(random_.randrange(10**11)) / part) * UNITS_PER_SECOND[unit]
        for first, part in seconds
        for _ in range(9_000)
    ]
    texts = [str(number) for number in numbers if number < last]
    us, near = floats_to_us(np.array([float(text) for text in texts]), unit)
    assert near.all() and len(texts) > 40_000
    assert us.tolist() == [decimal_us(text, unit) for text in texts]


def test_a_small_float_is_the_decimal_number_that_it_is_the_nearest_to(tmp_path: Path) -> None:
    columns = [{"name": "t", "type": "time"}, {"name": "d", "type": "float32"}]
    declaration = stream(files={"pattern": "*.csv"}, columns=columns, time={"start": "t", "duration": "d", "format": "number"})
    place = Place(tmp_path)
    place.ingest(declaration, {"a.csv": b"1,0.29\n2,1.1\n3,\n"})
    assert nothing_but(place.rows(), "start", "end") == [(10**6, 1_290_000), (2 * 10**6, 3_100_000)]
    assert [reason for *_, reason in place.rejects()] == ["missing: d"]
    assert read_times(pa.array([0.29, None], pa.float32()), Time(column="t", format="number")).us.tolist() == [290_000, 0]


def test_doubles_that_are_no_times_are_told() -> None:
    assert floats_to_us(np.array([np.nan, np.inf, -np.inf, 1e300, 1.0]), "s")[1].tolist() == [False, False, False, False, True]


def test_an_event_that_ends_less_than_a_microsecond_before_it_starts_is_rejected(tmp_path: Path) -> None:
    columns = [{"name": "t", "type": "float64"}, {"name": "d", "type": "float64"}]
    declaration = stream(files={"pattern": "*.csv"}, columns=columns, time={"start": "t", "duration": "d", "format": "number"})
    contents = {"a.csv": b"1.9999999,0.29\n1,-0.0000001\n1,1.9999999\n1,-0\n"}
    place = Place(tmp_path)
    assert_equals(place, place.ingest(declaration, contents), expected(declaration, contents))
    assert nothing_but(place.rows(), "start", "end") == [(1_999_999, 2_289_999), (10**6, 2_999_999), (10**6, 10**6)]
    assert [reason for *_, reason in place.rejects()] == ["event ends before it starts"]


@pytest.mark.parametrize(
    ("kind", "form", "texts", "kept"),
    [
        ("time", "number", ["1316070000.123456789", "-0.5", " 7"], ["1316070000.123456789", "-0.5", " 7"]),
        ("time", ["iso", "number"], ["2020-01-01", "1.25"], ["2020-01-01", "1.25"]),
        ("string", "number", ["1e3"], ["1e3"]),
        ("float64", "number", ["1.9999999", "-0.5"], [1.9999999, -0.5]),
        ("int64", "number", ["-5"], [-5]),
        ("time", "iso", ["1970-01-01T00:00:00.123456789"], [123456789]),
    ],
)
def test_a_time_is_kept_to_its_last_digit(tmp_path: Path, kind: str, form: object, texts: list[str], kept: list[object]) -> None:
    time = {"column": "t", "format": form, "keep": "was"}
    declaration = stream(files={"pattern": "*.csv"}, columns=[{"name": "t", "type": kind}, {"name": "v"}], time=time)
    contents = {"a.csv": "".join(f"{text},1\n" for text in texts).encode()}
    place = Place(tmp_path)
    assert_equals(place, place.ingest(declaration, contents), expected(declaration, contents))
    assert [row["was"] for row in place.rows()] == kept


# ---- ranges, keys and nulls ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int8", "int64", "float64"])
@pytest.mark.parametrize(
    "bounds",
    [[0.5, None], [None, 0.5], [-(10**30), 10**30], [10**19, None], [None, -(10**400)], [10**400, None], [2**53 + 1, None],
     [None, 2**63 - 1], [2**63 - 1, 2**63]],
)  # fmt: skip
def test_a_range_holds_for_any_bounds_and_any_number(tmp_path: Path, kind: str, bounds: list[float | None]) -> None:
    columns = [{"name": "t", "type": "time"}, {"name": "v", "type": kind, "range": bounds}]
    declaration = stream(files={"pattern": "*.csv"}, columns=columns, time={"column": "t", "format": "number"})
    large = [2**53, 2**53 + 2, 2**53 + 3, 2**63 - 1, -(2**63), -(2**53) - 3]
    numbers = [0, 1, -1, 3, 4, 127, -128, *([] if kind == "int8" else large if kind == "int64" else [0.5, 0.25, 2**60])]
    contents = {"a.csv": "".join(f"1,{number}\n" for number in [*numbers, ""]).encode()}
    place = Place(tmp_path)
    assert_equals(place, place.ingest(declaration, contents), expected(declaration, contents))


def test_keys_of_several_parts_never_become_one(tmp_path: Path) -> None:
    columns = [
        {"name": "t", "type": "time"},
        {"name": "a", "type": "string"},
        {"name": "b", "type": "string"},
        {"name": "n", "type": "int8"},
    ]
    declaration = stream(files={"pattern": "*.csv"}, columns=columns, time={"column": "t", "format": "number"}, key=["a", "b", "n"])
    contents = {"a.csv": b"1,x|y,z,1\n2,x,y|z,1\n3,x,y,1\n4,,|,1\n"}
    place = Place(tmp_path)
    assert_equals(place, place.ingest(declaration, contents), expected(declaration, contents))
    assert [row["key"] for row in place.rows()] == ["x|y|1"]
    assert [reason for *_, reason in place.rejects()] == ["'|' in a part of the key: a", "'|' in a part of the key: b", "missing: a"]
    alone = stream(files={"pattern": "*.csv"}, columns=columns, time={"column": "t", "format": "number"}, key="a")
    other = Place(tmp_path / "alone")
    other.ingest(alone, {"a.csv": b"1,x|y,z,1\n"})
    assert [row["key"] for row in other.rows()] == ["x|y"]


def test_what_stands_for_no_value_does_so_between_quotes_too_unless_it_is_a_text(tmp_path: Path) -> None:
    columns = [{"name": "t", "type": "time"}, {"name": "i", "type": "int32"}, {"name": "f"}, {"name": "b", "type": "bool"},
               {"name": "s", "type": "string"}]  # fmt: skip
    declaration = stream(files={"pattern": "*.csv"}, columns=columns, time={"column": "t", "format": "number"}, nulls=["", "NA", "-999"])
    contents = {
        "a.csv": b'"2","","","",""\n"3","-999","-999","NA","NA"\n4,-999,-999,NA,NA\n"",1,1,1,a\n5,"1","1","1","a ""b"""\n6,x,"",1,""\n'
    }
    place = Place(tmp_path)
    assert_equals(place, place.ingest(declaration, contents), expected(declaration, contents))
    assert nothing_but(place.rows(), "i", "f", "b", "s") == [
        (None, None, None, ""), (None, None, None, "NA"), (None, None, None, None), (1, 1.0, True, 'a "b"'),
    ]  # fmt: skip
    assert [reason for *_, reason in place.rejects()] == ["missing: t", "not a whole number: i"]


def test_the_smallest_of_all_whole_numbers_is_neither_a_time_nor_a_duration(tmp_path: Path) -> None:
    calls = stream(
        files={"pattern": "*.csv"}, columns=[{"name": "t", "type": "time"}, {"name": "d", "type": "int64"}],
        time={"start": "t", "duration": "d", "format": "number"},
    )  # fmt: skip
    place = Place(tmp_path)
    place.ingest(calls, {"a.csv": f"{-(2**63)},1\n5,{-(2**63)}\n5,{2**63 - 1}\n5,1\n"})
    assert nothing_but(place.rows(), "start", "end") == [(5_000_000, 6_000_000)]
    assert [reason for *_, reason in place.rejects()] == ["not a time: t", "not a time: d", "not a time: d"]


@pytest.mark.parametrize(
    "content", [b"1.5,2\n2.25,\n", b'"1.5",""\n 2.25 ,\n', b'1.5,2\n"2.25",x\nx,1\n'], ids=["plain", "quoted", "wrong"]
)
def test_a_field_may_be_two_columns(tmp_path: Path, content: bytes) -> None:
    columns = [{"name": "t", "from": "time", "type": "time"}, {"name": "seconds", "from": "time"}, {"name": "v", "type": "int32"},
               {"name": "text", "from": "v", "type": "string"}]  # fmt: skip
    declaration = stream(files={"pattern": "*.csv", "header": True}, columns=columns, time={"column": "t", "format": "number"})
    place = Place(tmp_path)
    place.ingest(declaration, {"a.csv": b"time,v\n" + content})
    quoted, wrong = content.startswith(b'"'), b"x" in content
    first, second = (1_500_000, 1.5, None if quoted else 2, "" if quoted else "2"), (2_250_000, 2.25, None, None)
    assert nothing_but(place.rows(), "ts", "seconds", "v", "text") == ([first] if wrong else [first, second])
    assert [reason for *_, reason in place.rejects()] == (["not a whole number: v", "not a number: seconds"] if wrong else [])
