"""Local times become instants as Python's zones tell them one by one, on every machine, and those that never were do not."""

from __future__ import annotations

import random
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from engines.spec import SpecError
from replay.streams.declaration import Time
from replay.streams.parsed import StreamError
from replay.streams.times import read_times
from tests.replay.streams.harness import Place, counts, nothing_but, stream, us
from tests.replay.streams.reference_times import placed

# Half an hour of summer time, one that pauses, a day that never was, offsets of minutes and of seconds, none, and the twin of one.
ZONES = ["Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu", "Africa/Monrovia", "America/Los_Angeles",
         "Europe/Amsterdam", "Etc/GMT+5", "Europe/London", "UTC"]  # fmt: skip


def around_changes(tz: ZoneInfo) -> list[datetime]:
    """Local times around each time that a zone's clocks were set from 1880 to 2050."""
    found, at, week = [], datetime(1880, 1, 1, tzinfo=UTC), timedelta(days=7)
    while at.year < 2050:
        low, high = at, at + week
        if low.astimezone(tz).utcoffset() != high.astimezone(tz).utcoffset():
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // timedelta(seconds=2) * timedelta(seconds=1)
                low, high = (middle, high) if middle.astimezone(tz).utcoffset() == low.astimezone(tz).utcoffset() else (low, middle)
            for before_or_after in (low, high):
                wall = before_or_after.astimezone(tz).replace(tzinfo=None)
                found += [wall + timedelta(seconds=n) for n in (-86_400, -3601, -3600, -1800, -1, 0, 1, 899, 1800, 3599, 3600, 43_200)]
        at += week
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_a_local_time_is_the_first_instant_at_which_clocks_showed_it_or_none(zone: str) -> None:
    random_ = random.Random(zone)
    walls = [datetime(1700, 1, 1) + timedelta(seconds=random_.randrange(550 * 365 * 86_400)) for _ in range(300)]
    walls += around_changes(ZoneInfo(zone))
    random_.shuffle(walls)
    declaration = stream(files={"pattern": "*"}, columns=[{"name": "t", "type": "time"}], time={"column": "t", "zone": zone})
    wanted = [placed(wall.replace(fold=0), 0, declaration) for wall in walls]
    assert any(found is None for found in wanted) or zone in ("Asia/Kathmandu", "Etc/GMT+5", "UTC", "Europe/Amsterdam", "Africa/Monrovia")
    for values in (pa.array([str(wall) for wall in walls]), pa.array(walls, pa.timestamp("us")), pa.array(walls, pa.timestamp("s"))):
        found = read_times(values, declaration.time)
        assert found.known.tolist() == [time is not None for time in wanted]
        assert found.us.tolist() == [time[0] if time else 0 for time in wanted]


def test_a_zone_need_not_be_among_those_of_the_machine(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(zoneinfo.reset_tzpath)
    (tmp_path / "zones" / "Lost").mkdir(parents=True)
    (tmp_path / "zones" / "Lost" / "Angeles").write_bytes(files("tzdata.zoneinfo.America").joinpath("Los_Angeles").read_bytes())
    zoneinfo.reset_tzpath(to=[*zoneinfo.TZPATH, str(tmp_path / "zones")])
    time = {"column": "t", "zone": "Lost/Angeles", "format": ["iso", "%m/%d/%Y %H:%M"]}
    declaration = stream(files={"pattern": "*.csv"}, columns=[{"name": "t", "type": "time"}], time=time)
    place = Place(tmp_path)
    done = place.ingest(declaration, {"a.csv": "2011-09-15 00:00:00\n11/6/2011 1:30\n2011-03-13 02:30\n2050-07-01\n2050-12-01\n"})
    assert nothing_but(place.rows(), "ts") == [
        (us(f"{time}:00"),) for time in ("2011-09-15 07:00", "2011-11-06 08:30", "2050-07-01 07:00", "2050-12-01 08:00")
    ]
    assert counts(done) == {"a.csv": (5, 5, 4, 1)}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_local_times_of_any_size_are_instants_or_none(unit: str, zone: str) -> None:
    sizes = [-(2**63), -(2**63) + 1, -62_135_596_800, 0, 253_402_300_799, 2**62, 2**63 - 1]
    found = read_times(pa.array(sizes).view(pa.timestamp(unit)), Time(column="t", zone=zone))
    west = zone == "America/Los_Angeles"
    assert found.us[3] == (8 if west else -9) * 3_600 * 10**6
    #                                                 year 1                  year 9999
    #   as UTC they are later in the west: the last is behind 9999, or what nanoseconds reach; in the east the first is before
    wanted = {"s": [False, False, west, True, not west, False, False], "ns": [west, west, True, True, True, True, not west]}
    assert found.known.tolist() == wanted.get(unit, [False, False, True, True, True, False, False])


@pytest.mark.parametrize(("zone", "hours"), [("UTC", 0), ("America/Los_Angeles", 7), ("Asia/Kathmandu", -5.75)])
def test_the_start_of_a_tow_is_a_local_time_and_so_is_what_numbers_count_from(tmp_path: Path, zone: str, hours: float) -> None:
    columns, time = [{"name": "t", "from": "timeS", "type": "time"}], {"column": "t", "format": "number", "zone": zone}
    tow = "# name 0 = timeS: Time [s]\r\n# start_time = Jul 11 2012 02:22:32.5\r\n*END*\r\n      0.250\r\n"
    later = timedelta(hours=hours) // timedelta(microseconds=1)
    from_file = stream(files={"pattern": "*.cnv", "format": "cnv"}, columns=columns, time=time)
    Place(tmp_path).ingest(from_file, {"tow4.cnv": tow})
    assert nothing_but(Place(tmp_path).rows(), "ts") == [(us("2012-07-11 02:22:32.75") + later,)]
    for n, (origin, shift) in enumerate([("2012-07-11", later), (date(2012, 7, 11), later), ("2012-07-11T00:00:00Z", 0)]):
        declared = stream(files={"pattern": "*.csv"}, columns=columns, time={**time, "origin": origin})
        assert stream(**declared.model_dump(mode="json", by_alias=True, exclude={"name"})) == declared
        place = Place(tmp_path / str(n))
        place.ingest(declared, {"a.csv": "0.25\n"})
        assert nothing_but(place.rows(), "ts") == [(us("2012-07-11 00:00:00.25") + shift,)]


def test_a_start_that_clocks_never_showed_is_refused(tmp_path: Path) -> None:
    settings = {"columns": [{"name": "t", "from": "timeS", "type": "time"}], "files": {"pattern": "*.cnv", "format": "cnv"}}
    time = {"column": "t", "format": "number", "zone": "America/Los_Angeles"}
    with pytest.raises(
        SpecError, match=r"time.origin: '2011-03-13 02:30' given; allowed is a time that clocks show in America/Los_Angeles"
    ):
        stream(**settings, time={**time, "origin": "2011-03-13 02:30"})
    tow = "# name 0 = timeS: Time [s]\r\n# start_time = Mar 13 2011 02:30:00\r\n*END*\r\n      0.250\r\n"
    with pytest.raises(StreamError, match="its header has start_time 'Mar 13 2011 02:30:00', which is not"):
        Place(tmp_path).ingest(stream(**settings, time=time), {"tow4.cnv": tow})
