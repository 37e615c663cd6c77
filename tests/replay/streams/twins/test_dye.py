"""The dye tows: header, widths, patches and rails, measured on lines cut every eleven characters."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from replay.streams.twins import twin

BAD = "-9.990e-29"


@dataclass(frozen=True)
class Tow:
    header: list[str]
    lines: list[str]

    def column(self, number: int) -> list[str]:
        return [line[11 * number : 11 * number + 11].strip() for line in self.lines]

    def patches(self) -> list[tuple[int, int]]:
        """First scan and length of each run above 0.2."""
        found, start = [], -1
        values = [-1.0 if field == BAD else float(field) for field in self.column(3)]
        for scan, value in enumerate([*values, 0.0]):
            if value > 0.2 and start < 0:
                start = scan
            elif value <= 0.2 and start >= 0:
                found.append((start, scan - start))
                start = -1
        return found


def tows_of(tuples: int, **options: bool) -> dict[str, Tow]:
    made = twin("dye", tuples=tuples, **options)
    tows = {}
    for part in made.parts:
        header, data = b"".join(made.blocks(part)).decode("ascii").split("*END*\r\n")
        *lines, rest = data.split("\r\n")
        assert rest == ""
        tows[part.name] = Tow(header.split("\r\n"), lines)
    return tows


@pytest.fixture(scope="module")
def tows() -> dict[str, Tow]:
    return tows_of(800_000)


def test_the_two_tows_of_the_paper_have_400000_scans_each(tows: dict[str, Tow]) -> None:
    assert {name: len(tow.lines) for name, tow in tows.items()} == {"tow4.cnv": 400_000, "tow13.cnv": 400_000}


def test_fewer_tuples_are_shorter_tows_and_more_are_further_ones() -> None:
    def sizes(tuples: int) -> dict[str, int]:
        return {part.name: part.tuples for part in twin("dye", tuples=tuples).parts}

    assert sizes(50_001) == {"tow4.cnv": 25_001, "tow13.cnv": 25_000}
    assert sizes(1_300_000) == {"tow4.cnv": 400_000, "tow13.cnv": 400_000, "tow14.cnv": 400_000, "tow15.cnv": 100_000}


def test_the_header_names_columns_interval_and_start(tows: dict[str, Tow]) -> None:
    for name, start in (("tow4.cnv", "Jul 11 2012 02:22:32"), ("tow13.cnv", "Jul 14 2012 02:22:32")):
        header = tows[name].header
        assert all(line[:1] in ("*", "#", "") for line in header)
        names = [line.partition(" = ")[2] for line in header if line.startswith("# name ")]
        assert [name.partition(":")[0] for name in names] == ["scan", "timeS", "depSM", "flSP", "sal00", "t090C", "flag"]
        assert {f"# start_time = {start}", "# interval = seconds: 0.0416667", f"# bad_flag = {BAD}", "# nvalues = 400000"} <= set(header)


def test_columns_are_eleven_wide_and_right_aligned(tows: dict[str, Tow]) -> None:
    for line in tows["tow4.cnv"].lines[::97]:
        assert len(line) == 77
        cells = [line[at : at + 11] for at in range(0, 77, 11)]
        assert all(cell == cell.strip().rjust(11) for cell in cells)


def test_scans_count_up_24_times_a_second(tows: dict[str, Tow]) -> None:
    tow = tows["tow13.cnv"]
    assert tow.column(0) == [str(scan) for scan in range(1, 400_001)]
    assert all(abs(float(time) - scan / 24) <= 0.0006 for scan, time in enumerate(tow.column(1)))


@pytest.mark.parametrize("name", ["tow4.cnv", "tow13.cnv"])
def test_a_tow_has_about_100_patches_and_many_shorter_ones(tows: dict[str, Tow], name: str) -> None:
    #   0.2  ......./~~\......../~~~~~~~~~~\.........|.....
    #                short       20 or more          one scan
    lengths = [length for _, length in tows[name].patches()]
    long = [length for length in lengths if length >= 20]
    assert 90 <= len(long) <= 110
    assert 700 < max(long) < 1_000
    assert 250 < sum(long) / len(long) < 400  # 324 in the paper
    assert 200 < len(lengths) - len(long) < 400
    assert {1, 2, 10, 19} <= set(lengths)


def test_long_stretches_have_no_dye(tows: dict[str, Tow]) -> None:
    for tow in tows.values():
        found = tow.patches()
        clear = [b[0] - a[0] - a[1] for a, b in zip(found, found[1:], strict=False)]
        assert sum(length > 4_000 for length in clear) > 15
        assert max(clear) > 9_000
        assert sum(length for _, length in found) < 0.12 * 400_000


def test_rails_and_bad_values_do_not_cut_a_patch(tows: dict[str, Tow]) -> None:
    values = [field for tow in tows.values() for field in tow.column(3)]
    assert 10 < values.count("-1.8000") < 200
    assert 10 < values.count(BAD) < 200
    assert values.count("123.2000") > 10
    assert 100 < [field for tow in tows.values() for field in tow.column(4)].count(BAD) < 500


def test_depth_salinity_and_temperature_are_those_of_layered_water(tows: dict[str, Tow]) -> None:
    tow = tows["tow4.cnv"]
    scans = [
        [float(cell) for cell in cells]
        for cells in zip(*(tow.column(number)[::50] for number in (2, 4, 5)), strict=True)
        if BAD not in cells
    ]
    assert all(2 < depth < 32 and 32 < salinity < 37 and 10 < celsius < 18 for depth, salinity, celsius in scans)
    top = [scan for scan in scans if scan[0] < 8]
    deep = [scan for scan in scans if scan[0] > 25]
    assert min(scan[1] for scan in deep) > max(scan[1] for scan in top)
    assert max(scan[2] for scan in deep) < min(scan[2] for scan in top)


def test_on_request_there_is_a_tow_with_one_patch_of_151026_scans() -> None:
    tows = tows_of(310_000, long=True)
    assert {name: len(tow.lines) for name, tow in tows.items()} == {"tow4.cnv": 77_500, "tow13.cnv": 77_500, "tow13_long.cnv": 155_000}
    lengths = [length for _, length in tows["tow13_long.cnv"].patches()]
    assert max(lengths) == 151_026
    assert sorted(lengths)[:-1] == [length for length in sorted(lengths) if length < 1_000]
    assert max(length for _, length in tows["tow13.cnv"].patches()) < 1_000
