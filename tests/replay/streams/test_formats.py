"""The formats of the six streams: a few lines of each with everything that is odd about it, value by value."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from replay.streams.declaration import declaration
from tests.replay.streams.harness import Place, counts, nothing_but, us


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ---- intel_lab: one space between fields, so two in a row are an empty field -----------------------------------------------

MOTES = """\
2004-02-28 00:59:16.02785 3 1 19.9884 37.0933 45.08 2.69964
2004-02-28 00:58:46.002832 65333 2 18.4498  43.24 2.67532
2004-02-28 01:00:16 7 1   45.08
2004-02-28 01:01:16.5 9 1 122.153 -3.91901

2004-02-28 01:02:00.1 10 65407 19.9 37.1 45.08 2.7
2004-02-28 01:02:00.1 10 19.9 37.1 45.08 2.7
2004-02-28 01:03:00.1 11 1 19.9 damp 45.08 2.7
2004-02-28 01:03:30 12 1 19.9 nan 45.08 2.7
2004-02-30 01:04:00.1 13 1 19.9 37.1 45.08 2.7
2004-02-28 01:05:00.1
2004-02-28 01:06:00.1 15 1 19.9 37.1 45.08 2.7 9
2004-04-04 02:30:00.5 16 1 19.9 37.1 45.08 2.7
2004-10-31 01:30:00.25 17 1 20.0 37.1 45.08 2.7
1999-06-01 01:06:00.1 18 1 19.9 37.1 45.08 2.7
2004-03-29 00:59:16.123456 19 54 19.9 37.1 45.08
"""


def test_an_empty_field_of_a_mote_is_missing_and_does_not_shift_the_others(place: Place) -> None:
    place.ingest(declaration("intel_lab"), {"data.txt": MOTES})
    #   the file is grouped by mote; the log is in order of time, the lab's clock being 8 hours behind UTC, 7 from April to October
    assert nothing_but(place.rows("intel_lab"), "ts", "key", "epoch", "temperature", "humidity", "light", "voltage") == [
        (us("2004-02-28 08:58:46.002832"), 2, 65333, 18.4498, None, 43.24, 2.67532),
        (us("2004-02-28 08:59:16.027850"), 1, 3, 19.9884, 37.0933, 45.08, 2.69964),
        (us("2004-02-28 09:00:16"), 1, 7, None, None, 45.08, None),  # cut short behind light
        (us("2004-02-28 09:01:16.5"), 1, 9, 122.153, -3.91901, None, None),  # cut short, and a dying battery
        (us("2004-03-29 08:59:16.123456"), 54, 19, 19.9, 37.1, 45.08, None),  # a clock a month off
        (us("2004-10-31 08:30:00.25"), 1, 17, 20.0, 37.1, 45.08, 2.7),  # the hour that occurs twice: the first
    ]


def test_each_line_of_a_mote_that_cannot_be_read_is_rejected_with_its_reason(place: Place) -> None:
    done = place.ingest(declaration("intel_lab"), {"data.txt": MOTES})
    lines = MOTES.splitlines()
    assert place.rejects("intel_lab") == [
        ("data.txt", line, lines[line - 1], reason)
        for line, reason in [
            (6, "out of range: mote"),
            (7, "not a whole number: mote"),  # a missing id puts the temperature in its place
            (8, "not a number: humidity"),
            (9, "not a finite number: humidity"),
            (10, "not a time: date time"),
            (11, "missing: mote"),
            (12, "9 fields, 8 expected"),
            (13, "not a time: date time"),  # the hour that does not exist
            (15, "outside the stream's range of time"),
        ]
    ]
    assert counts(done) == {"data.txt": (16, 15, 6, 9)}


# ---- debs2012: tabs, CRLF, 100 ns, glued lines ---------------------------------------------------------------------------


def machine(time: str, index: int | str, power: str = "13056", last: str = "0") -> str:
    return "\t".join([time, str(index), power, "14406", "8119", "0071", "0193", "0150", "0000", "0000", "0000", "0085",
                      "0", "1", *["0"] * 21, "1", *["0"] * 19, last])  # fmt: skip


def test_a_record_of_the_machine_keeps_its_hundred_nanoseconds_and_its_padded_numbers(place: Place) -> None:
    assert machine("t", 1).count("\t") == 55
    text = (
        machine("2012-02-22T16:46:28.9670329+00:00", 2556001)
        + "\r\n"
        + machine("2012-02-22T17:46:28.9770284+01:00", 2556002, last="1")
        + "\r\n"
    )
    place.ingest(declaration("debs2012"), {"allData.txt": text})
    first, second = place.rows("debs2012")
    assert (first["ts"], first["ts_ns"]) == (us("2012-02-22 16:46:28.967032"), 1329929188967032900)
    assert (second["ts"], second["ts_ns"]) == (us("2012-02-22 16:46:28.977028"), 1329929188977028400)
    assert [first[c] for c in ("index", "mf01", "mf02", "mf03", "pc13", "pc14", "pc15", "pc25", "res")] == [
        2556001, 13056, 14406, 8119, 71, 193, 150, 0, 85,
    ]  # fmt: skip
    assert [first[c] for c in ("bm05", "bm06", "bm07", "b34", "b35", "b36", "b55")] == [False, True, False, False, True, False, False]
    assert second["b55"] is True
    assert "key" not in first


def test_two_records_glued_to_one_line_are_two_and_each_may_be_rejected_alone(place: Place) -> None:
    a, b, c, d = (machine(f"2012-02-22T16:46:28.9{n}70320+00:00", n, last=str(n % 2)) for n in range(4))
    broken = machine("2012-02-22T16:46:29", "x")
    text = a + b + "\r\n" + c + broken + "\r\n" + broken + d + "\r\n" + a[:40] + "\r\n" + a + "\t7\r\n" + a + b + c + "\r\n"
    done = place.ingest(declaration("debs2012"), {"allData.txt": text})
    assert nothing_but(place.rows("debs2012"), "index", "b55") == [
        (0, False), (1, True), (2, False), (3, True), (0, False), (1, True), (2, False),
    ]  # fmt: skip
    assert place.rejects("debs2012") == [
        ("allData.txt", 2, broken, "not a whole number: index"),
        ("allData.txt", 3, broken, "not a whole number: index"),
        ("allData.txt", 4, a[:40], "3 fields, 56 expected"),
        ("allData.txt", 5, a + "\t7", "57 fields, 56 expected"),
    ]
    assert counts(done) == {"allData.txt": (6, 11, 7, 4)}


def test_a_machine_time_that_jumps_ahead_alone_is_rejected_and_one_that_goes_back_is_late(place: Place) -> None:
    #   index       0        1         2        3        4        5 ...
    #   time     10:00    10:00:01   18:00   10:00:02  10:00:00   11:30   11:30:01
    #   clock    10:00    10:00:01     -     10:00:02  10:00:02   11:30   11:30:01      index 2 is a spike; 5 starts a new cluster
    times = ["10:00:00", "10:00:01", "18:00:00", "10:00:02", "10:00:00", "11:30:00", "11:30:01"]
    lines = [machine(f"2012-02-22T{time}.0000000+00:00", n) for n, time in enumerate(times)]
    place.ingest(declaration("debs2012"), {"allData.txt": "\r\n".join(lines)})
    assert nothing_but(place.rows("debs2012"), "index", "clock") == [
        (n, us(f"2012-02-22 {clock}"))
        for n, clock in [(0, "10:00:00"), (1, "10:00:01"), (3, "10:00:02"), (4, "10:00:02"), (5, "11:30:00"), (6, "11:30:01")]
    ]
    assert place.rejects("debs2012") == [("allData.txt", 3, lines[2], "more than 1h ahead of its neighbours")]


# ---- debs2013: picoseconds -----------------------------------------------------------------------------------------------


def test_picoseconds_beyond_what_a_double_holds_are_kept_to_the_last_digit_and_cut_to_microseconds(place: Place) -> None:
    text = (
        "52,10753295627242564,23353,-15050,-108,1001114,6741407,4661,2298,8543,4779,4892,7294\n"
        "52,10753295627242565,0,0,0,0,0,0,0,0,0,0,0\n"
        "4,10753295627999999,0,0,0,0,0,0,0,0,0,0,0\n"
        "4,10753295627242564.5,0,0,0,0,0,0,0,0,0,0,0\n"
        "4,1.0753295627242564e16,0,0,0,0,0,0,0,0,0,0,0\n"
        "4,10753295628000000,0,0,0,0,0,0,0,0,0,0\n"
        "4,10753295628000000,2147483648,0,0,0,0,0,0,0,0,0,0\n"
        "4,10753295628000000,0,0,0,0,0,0,0,0,0,0,-2147483648"
    )
    place.ingest(declaration("debs2013"), {"full-game": text})
    lines = text.split("\n")
    rows = place.rows("debs2013")
    assert nothing_but(rows, "arrival", "ts", "ts_ps", "key", "clock") == [
        (0, 10753295627, 10753295627242564, 52, 10753295627),
        (1, 10753295627, 10753295627242565, 52, 10753295627),
        (2, 10753295627, 10753295627999999, 4, 10753295627),
        (3, 10753295628, 10753295628000000, 4, 10753295628),
    ]
    assert [rows[0][c] for c in ("x", "y", "z", "speed", "acceleration", "vx", "vy", "vz", "ax", "ay", "az")] == [
        23353, -15050, -108, 1001114, 6741407, 4661, 2298, 8543, 4779, 4892, 7294,
    ]  # fmt: skip
    assert rows[3]["az"] == -(2**31)
    assert place.rejects("debs2013") == [
        ("full-game", 4, lines[3], "not a whole number: ts_ps"),
        ("full-game", 5, lines[4], "not a whole number: ts_ps"),
        ("full-game", 6, lines[5], "12 fields, 13 expected"),
        ("full-game", 7, lines[6], "not a whole number: x"),
    ]


# ---- traffic: two formats of time, and the hours of November and March ----------------------------------------------------

TRAFFIC = """\
detectorid,starttime,volume,speed,occupancy,status,dqflags
1345,2011-09-15 00:00:00-07,0,,0,2,0
1345,2011-09-15 00:00:20-07,,,,0,0
1345,9/15/2011 0:00:40,3,54.5,2.25,2,0
1345,11/6/2011 1:30:00,1,50,1,2,0
1345,2011-11-06 01:30:00-07,2,50,1,2,0
1345,2011-11-06 01:30:00-08,3,50,1,2,0
1345,2011-11-06 01:30:00,4,50,1,2,0
1345,3/13/2011 2:30:00,1,50,1,2,0
1345,2011-03-13 02:00:00,1,50,1,2,0
1345,3/13/2011 3:00:00,5,50,1,2,0

1346,2011-09-15 00:00:00-07,17,101,95.5,3,4
,2011-09-15 00:00:00-07,1,50,1,2,0
1346,,1,50,1,2,0
1346,15/9/2011 0:00:00,1,50,1,2,0
1346,2011-09-15 00:00:00-07,1.5,50,1,2,0
1346,2011-09-15 00:00:00-07,1,50,1,2
1346,1985-09-15 00:00:00-07,1,50,1,2,0
"""


def test_both_formats_of_a_detectors_time_are_read_and_the_hour_that_occurs_twice_is_the_first(place: Place) -> None:
    place.ingest(declaration("traffic"), {"i5.csv": TRAFFIC})
    #                    00:30    01:30-07   01:30-08   02:30          (local)
    #   6 November   ------|---------x----------x---------|-----
    #                    07:30    08:30      09:30      10:30          (UTC)
    assert nothing_but(place.rows("traffic"), "ts", "key", "volume", "speed", "occupancy", "status", "dqflags") == [
        (us("2011-03-13 10:00:00"), 1345, 5, 50.0, 1.0, 2, 0),  # the first instant after the gap
        (us("2011-09-15 07:00:00"), 1345, 0, None, 0.0, 2, 0),
        (us("2011-09-15 07:00:00"), 1346, 17, 101.0, 95.5, 3, 4),
        (us("2011-09-15 07:00:20"), 1345, None, None, None, 0, 0),
        (us("2011-09-15 07:00:40"), 1345, 3, 54.5, 2.25, 2, 0),
        (us("2011-11-06 08:30:00"), 1345, 1, 50.0, 1.0, 2, 0),
        (us("2011-11-06 08:30:00"), 1345, 2, 50.0, 1.0, 2, 0),
        (us("2011-11-06 08:30:00"), 1345, 4, 50.0, 1.0, 2, 0),
        (us("2011-11-06 09:30:00"), 1345, 3, 50.0, 1.0, 2, 0),
    ]


def test_each_line_of_a_detector_that_cannot_be_read_is_rejected_with_its_reason(place: Place) -> None:
    done = place.ingest(declaration("traffic"), {"i5.csv": TRAFFIC})
    lines = TRAFFIC.splitlines()
    assert place.rejects("traffic") == [
        ("i5.csv", line, lines[line - 1], reason)
        for line, reason in [
            (9, "not a time: starttime"),  # the hour that does not exist, re-saved by a spreadsheet
            (10, "not a time: starttime"),  # and as it was
            (14, "missing: detector"),
            (15, "missing: starttime"),
            (16, "not a time: starttime"),
            (17, "not a whole number: volume"),
            (18, "6 fields, 7 expected"),
            (19, "outside the stream's range of time"),
        ]
    ]
    assert counts(done) == {"i5.csv": (19, 17, 9, 8)}


def test_a_local_time_after_2037_still_knows_summer_time(place: Place) -> None:
    #   the zone's tables end in 2037; from then on its rule holds
    text = "detectorid,starttime,volume,speed,occupancy,status,dqflags\n" + "".join(
        f"1,{time},1,50,1,2,0\n" for time in ("2037-07-01 00:00:00", "2037-12-01 00:00:00", "2050-07-01 00:00:00", "2050-12-01 00:00:00")
    )
    place.ingest(declaration("traffic"), {"i5.csv": text})
    assert nothing_but(place.rows("traffic"), "ts") == [
        (us("2037-07-01 07:00:00"),), (us("2037-12-01 08:00:00"),), (us("2050-07-01 07:00:00"),), (us("2050-12-01 08:00:00"),),
    ]  # fmt: skip


def test_columns_are_found_by_the_header_whatever_their_order_and_others_are_not_read(place: Place) -> None:
    text = 'dqflags,"status",lane,volume, speed ,occupancy,starttime,detectorid\r\n4,2,"a,b",17,60.5,9,2011-09-15 00:00:00-07,1345\r\n'
    place.ingest(declaration("traffic"), {"i5.csv": text})
    (row,) = place.rows("traffic")
    assert {name: row[name] for name in row if name not in ("arrival", "arrived", "clock")} == {
        "ts": us("2011-09-15 07:00:00"), "key": 1345, "volume": 17, "speed": 60.5, "occupancy": 9.0, "status": 2, "dqflags": 4,
    }  # fmt: skip


# ---- dye: fixed width, or CSV --------------------------------------------------------------------------------------------

CNV_HEADER = [
    "* Sea-Bird SBE 9 Data File:",
    "* FileName = D:\\CTD DATA\\tow4.hex",
    "# nquan = 6",
    "# name 0 = depSM: Depth [salt water, m]",
    "# name 1 = wetCDOM: Fluorescence, WET Labs CDOM [mg/m^3]",
    "# name 2 = scan: Scan Count",
    "# name 3 = t090C: Temperature [ITS-90, deg C]",
    "# name 4 = timeS: Time, Elapsed [seconds]",
    "# name 5 = flag:  0.000e+00",
    "# interval = seconds: 0.0416667",
    "# start_time = Jul 11 2012 02:22:32 [NMEA time, header]",
    "# bad_flag = -9.990e-29",
    "*END*",
]


def scan(*cells: object) -> str:
    return "".join(f"{cell:>11}" for cell in cells)


def test_scans_of_a_tow_are_cut_by_width_where_their_columns_touch(place: Place) -> None:
    lines = [
        *CNV_HEADER,
        scan("1.500", "123.2000", 1, "27.8954", "0.000", "0.000e+00"),
        scan("-1.8", "-9.990e-29", 2, "-9.990e-29", "0.042", "0.000e+00"),
        scan("-1234567.89", "-1234567.89", 12345678901, "-1.8000e+00", "0.0833339", "0.000e+00"),
    ]
    done = place.ingest(declaration("dye"), {"tow4.cnv": "\r\n".join(lines) + "\r\n"})
    assert place.rejects("dye") == []
    assert nothing_but(place.rows("dye"), "ts", "key", "scan", "depth", "fluorescence", "salinity", "temperature") == [
        (us("2012-07-11 02:22:32"), "tow4", 1, 1.5, 123.2, None, 27.8954),
        (us("2012-07-11 02:22:32.042"), "tow4", 2, -1.8, None, None, None),  # the bad flag is no value
        (us("2012-07-11 02:22:32.083333"), "tow4", 12345678901, -1234567.89, -1234567.89, None, -1.8),
    ]
    assert counts(done) == {"tow4.cnv": (16, 3, 3, 0)}


def test_the_start_of_a_tow_keeps_its_fraction(place: Place) -> None:
    for name, start in (("tow4", "32"), ("tow5", "32.5 [Instrument's time stamp, header]"), ("tow6", "32.1234567")):
        header = [line.replace("02:22:32 [NMEA time, header]", f"02:22:{start}") for line in CNV_HEADER]
        place.write({f"{name}.cnv": "\r\n".join([*header, scan("1.5", "2.5", 1, "27.8", "0.250", "0")])})
    place.ingest(declaration("dye"))
    assert {row["key"]: row["ts"] for row in place.rows("dye")} == {
        "tow4": us("2012-07-11 02:22:32.25"), "tow5": us("2012-07-11 02:22:32.75"), "tow6": us("2012-07-11 02:22:32.373456"),
    }  # fmt: skip


def test_scans_that_are_no_whole_row_of_columns_are_rejected(place: Place) -> None:
    good = scan("1.5", "2.5", 1, "27.8", "0.000", "0.000e+00")
    bad = [
        (good[:-11], "55 characters, 66 expected"),
        (good + " ", "67 characters, 66 expected"),
        (scan("1.5", "2.5", "1.5", "27.8", "0.000", "0"), "not a whole number: scan"),
        (scan("1.5", "abc", "1", "27.8", "0.000", "0"), "not a number: fluorescence"),
        (scan("1.5", "nan", "1", "27.8", "0.000", "0"), "not a finite number: fluorescence"),
        (scan("1.5", "2.5", "1", "27.8", "soon", "0"), "not a time: time"),
        (scan("1.5", "2.5", "1", "27.8", "-9.990e-29", "0"), "missing: time"),
    ]
    text = "\r\n".join([*CNV_HEADER, good, "", *(line for line, _ in bad)])
    place.ingest(declaration("dye"), {"tow4.cnv": text})
    assert place.rejects("dye") == [("tow4.cnv", 16 + n, line, reason) for n, (line, reason) in enumerate(bad)]
    assert len(place.rows("dye")) == 1


def test_a_tow_as_csv_may_count_seconds_or_name_times_and_is_told_by_its_file(place: Place) -> None:
    done = place.ingest(
        declaration("dye"),
        {
            "cruise/tow13.csv": "scan,time,depth,fluorescence\n1,0.5,2,0.25\n2,0.5416667,,\n3,x,2,0.25\n",
            "tow4.part2.csv.gz": gzip.compress(b"fluorescence,time,scan,salinity,note\n0.75,1970-01-01T00:00:00.25Z,7,35.5,ok\n"),
        },
    )
    #   tow4     0.25
    #   tow13         0.5   0.54
    assert nothing_but(place.rows("dye"), "ts", "key", "scan", "depth", "fluorescence", "salinity", "temperature") == [
        (250_000, "tow4", 7, None, 0.75, 35.5, None),
        (500_000, "tow13", 1, 2.0, 0.25, None, None),
        (541_666, "tow13", 2, None, None, None, None),
    ]
    assert place.rejects("dye") == [("cruise/tow13.csv", 4, "3,x,2,0.25", "not a time: time")]
    assert counts(done) == {"cruise/tow13.csv": (4, 3, 2, 1), "tow4.part2.csv.gz": (2, 1, 1, 0)}


def test_of_a_file_without_a_depth_it_is_the_pressure_which_the_declaration_says(place: Place) -> None:
    header = ["# name 0 = scan: Scan Count", "# name 1 = timeS: Time", "# name 2 = prDM: Pressure, Digiquartz [db]", "# name 3 = flSP: F",
              "# start_time = Jul 11 2012 02:22:32"]  # fmt: skip
    both = [*header, "# name 4 = depSM: Depth [salt water, m]", "*END*", scan(2, "1.000", "12.100", "0.5", "12.000")]
    pressure = [*header, "*END*", scan(1, "0.000", "12.100", "0.5")]
    place.ingest(declaration("dye"), {"tow4.cnv": "\r\n".join(pressure), "tow5.cnv": "\r\n".join(both)})
    assert nothing_but(place.rows("dye"), "scan", "depth") == [(1, 12.1), (2, 12.0)]
    depth = declaration("dye").by_name["depth"]
    assert depth.unit == "m or db" and "pressure in db (prDM)" in str(depth.description)


@pytest.mark.parametrize("odd", ["\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_a_header_has_no_other_lines_than_the_scans_and_ends_where_a_line_says_so(place: Place, odd: str) -> None:
    header = [f"* made{odd}by hand", "* the header ends with *END*", *CNV_HEADER]
    bad = scan("1.5", "abc", 1, "27.8", "0.000", "0")
    text = "\r\n".join([*header, bad, scan("1.5", "2.5", 2, "27.8", "0.000", "0")])
    done = place.ingest(declaration("dye"), {"tow4.cnv": text.encode("latin-1")})
    assert place.rejects("dye") == [("tow4.cnv", len(header) + 1, bad, "not a number: fluorescence")]
    assert counts(done) == {"tow4.cnv": (len(header) + 2, 2, 1, 1)}


# ---- ss7: events from a start to a stop ----------------------------------------------------------------------------------


def test_an_event_arrives_when_it_stops_and_one_that_stops_before_it_starts_is_rejected(place: Place) -> None:
    ss7 = declaration("ss7")
    (start, stop) = (next(c.sources[0] for c in ss7.columns if c.name == name) for name in (*ss7.time.start, *ss7.time.end))
    others = [c.sources[0] for c in ss7.columns if c.name not in ss7.time.columns and c.type != "skip" and c.from_file is None]
    events = [
        ("2008-03-01T10:00:00", "2008-03-01T10:00:16.25"),
        ("2008-03-01T10:00:05", "2008-03-01T10:00:05"),
        ("2008-03-01T10:00:20", "2008-03-01T10:00:19.999999"),
        ("", "2008-03-01T10:00:19"),
        ("2008-03-01T10:00:20", ""),
        ("2008-03-01T10:00:20", "later"),
        ("2008-03-01T07:30:00.5Z", "2008-03-01T12:00:00+02:00"),
    ]
    #   arrival 0   |======== 16 s ========|
    #   arrival 1        x (no time at all)         the clock stays at the stop before
    #   arrival 2   ... 2.5 h ...|                  and at 10:00:16.25
    lines = [",".join([start, stop, *others]), *(",".join([a, b, *[""] * len(others)]) for a, b in events)]
    done = place.ingest(ss7, {"events.csv": "\n".join(lines) + "\n"})
    assert nothing_but(place.rows("ss7"), "start", "end", "clock", "arrived") == [
        (us(f"2008-03-01 {a}"), us(f"2008-03-01 {b}"), us("2008-03-01 10:00:16.25"), us("2008-03-01 10:00:16.25"))
        for a, b in [("10:00:00", "10:00:16.25"), ("10:00:05", "10:00:05"), ("07:30:00.5", "10:00:00")]
    ]
    names = (*ss7.time.start, *ss7.time.end)
    assert place.rejects("ss7") == [
        ("events.csv", line, lines[line - 1], reason)
        for line, reason in [
            (4, "event ends before it starts"),
            (5, f"missing: {names[0]}"),
            (6, f"missing: {names[1]}"),
            (7, f"not a time: {names[1]}"),
        ]
    ]
    assert counts(done) == {"events.csv": (8, 7, 3, 4)}
