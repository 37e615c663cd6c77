"""What holds for every twin: exact counts, the same bytes in whatever order, constant memory, and options refused in a sentence."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engines.spec import SpecError
from replay.streams.twins import Part, twin, twins, write

HEADS = {"ss7": 1, "traffic": 1}


def records(name: str, text: bytes) -> int:
    """How many records a file has, glued ones each."""
    if name == "debs2012":
        return text.count(b"+00:00\t")
    if name == "dye":
        return text.split(b"*END*\r\n")[1].count(b"\r\n")
    assert text.endswith(b"\n")
    return text.count(b"\n") - HEADS.get(name, 0)


def whole(name: str, tuples: int, seed: int = 0, **options: Any) -> list[bytes]:
    made = twin(name, tuples=tuples, seed=seed, **options)
    return [b"".join(made.blocks(part)) for part in made.parts]


def test_the_six_streams_have_a_twin() -> None:
    assert sorted(twins()) == ["debs2012", "debs2013", "dye", "intel_lab", "ss7", "traffic"]


@pytest.mark.parametrize("name", twins())
@pytest.mark.parametrize("tuples", [1, 2, 1_000, 65_537])
def test_a_twin_has_exactly_as_many_records_as_asked_for(name: str, tuples: int) -> None:
    parts = twin(name, tuples=tuples).parts
    assert [records(name, text) for text in whole(name, tuples)] == [part.tuples for part in parts]
    assert sum(part.tuples for part in parts) == tuples


@pytest.mark.parametrize("name", twins())
def test_the_same_arguments_give_the_same_bytes_and_another_seed_others(name: str) -> None:
    assert whole(name, 20_000) == whole(name, 20_000)
    assert whole(name, 20_000, seed=1) != whole(name, 20_000)


@pytest.mark.parametrize("name", twins())
def test_files_made_in_any_order_by_other_objects_are_the_same(name: str) -> None:
    #   files     |--------- 1 ---------|-- 2
    #   made                2nd           1st, each by a twin of its own
    tuples = 1_010_000 if name != "dye" else 100_000
    forwards = twin(name, tuples=tuples)
    seen = [sum(map(hash, forwards.blocks(part))) for part in forwards.parts]
    backwards = [sum(map(hash, twin(name, tuples=tuples).blocks(part))) for part in reversed(forwards.parts)]
    assert seen == backwards[::-1]
    assert len(set(seen)) == len(forwards.parts) == 2


@pytest.mark.parametrize(
    ("name", "options"),
    [("debs2012", {}), ("debs2013", {"sensors": "all"}), ("ss7", {"events_a_minute": 60_000}), ("traffic", {"detectors": 1})],
)
def test_a_smaller_twin_is_the_beginning_of_a_larger_one(name: str, options: dict[str, Any]) -> None:
    (small,), (large,) = whole(name, 40_000, **options), whole(name, 100_000, **options)
    assert large.startswith(small)


@pytest.mark.parametrize("name", twins())
def test_files_sort_by_the_number_in_their_name_and_lie_end_to_end(name: str) -> None:
    parts: Sequence[Part] = twin(name, tuples=1_000_000_000).parts
    assert len(parts) == (2_500 if name == "dye" else 1_000)
    numbers = [int("".join(c for c in part.name.removeprefix("ss7").rpartition(".")[0] or part.name if c.isdigit())) for part in parts]
    assert numbers == sorted(set(numbers))
    assert [part.first for part in parts[1:]] == [part.first + part.tuples for part in parts[:-1]]
    assert parts[-1].first + parts[-1].tuples == 1_000_000_000
    assert parts[-1] == parts[len(parts) - 1] == parts[-1:][0]
    with pytest.raises(IndexError):
        parts[len(parts)]


@pytest.mark.parametrize("name", twins())
def test_the_last_file_of_a_billion_tuples_is_made_alone(name: str) -> None:
    made = twin(name, tuples=1_000_000_000)
    blocks = made.blocks(made.parts[-1])
    first, second = next(blocks), next(blocks)
    assert first != second
    assert first.isascii()


@pytest.mark.parametrize("name", ["debs2013", "traffic"])
def test_memory_does_not_grow_with_the_twin(name: str) -> None:
    def peak(tuples: int) -> int:
        made = twin(name, tuples=tuples)
        tracemalloc.start()
        try:
            for part in made.parts:
                for _ in made.blocks(part):
                    pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1_000)  # what is loaded once does not count
    small, large = peak(200_000), peak(2_000_000)
    # Blocks end where a detector does: whether two full ones ever follow each other differs between sizes.
    assert large < 1.25 * small
    assert large < 20_000_000


@pytest.mark.parametrize("name", twins())
def test_a_file_is_written_whole(tmp_path: Path, name: str) -> None:
    made, sizes = twin(name, tuples=70_000), list[int]()
    for part in made.parts:
        path = write(made, tmp_path / "raw", part, sizes.append)
        assert path.read_bytes() == b"".join(made.blocks(part))
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == sorted(part.name for part in made.parts)
    assert sum(sizes) == sum(path.stat().st_size for path in (tmp_path / "raw").iterdir())


def test_a_file_that_could_not_be_finished_is_not_there(tmp_path: Path) -> None:
    made = twin("traffic", tuples=100_000)

    def cancelled(size: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(made, tmp_path, made.parts[0], cancelled)
    assert [path.name for path in tmp_path.iterdir()] == ["traffic-0001.csv.part"]
    write(made, tmp_path, made.parts[0])
    assert [path.name for path in tmp_path.iterdir()] == ["traffic-0001.csv"]


def test_another_process_makes_the_same_bytes() -> None:
    code = (
        "import zlib; from replay.streams.twins import twin, twins\n"
        "for made in [twin(name, tuples=5000) for name in twins()]: print(zlib.crc32(b''.join(made.blocks(made.parts[0]))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[4])
    assert [int(line) for line in found.stdout.split()] == [zlib.crc32(whole(name, 5_000)[0]) for name in twins()]


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("taxi", {}, "stream: 'taxi' given; twins exist of ss7, intel_lab, debs2012, debs2013, traffic, dye."),
        ("debs2012", {"tuples": 0}, "tuples: 0 given; allowed is a whole number from 1 to 10000000000."),
        ("debs2012", {"tuples": 1e3}, "tuples: 1000.0 given; allowed is a whole number from 1 to 10000000000."),
        ("debs2012", {"seed": -1}, "seed: -1 given; allowed is a whole number from 0 to 4611686018427387904."),
        ("debs2012", {"fields": 3}, "fields: given as an option of the debs2012 twin; allowed are none."),
        ("debs2013", {"sensors": "ball"}, "sensors: 'ball' given; allowed are 'few' and 'all'."),
        ("debs2013", {"gaps": 5}, "gaps: 5 given; allowed are true and false."),
        ("traffic", {"form": "excel"}, "form: 'excel' given; allowed are 'portal' and 'spreadsheet'."),
        ("traffic", {"start": "15.9.2011"}, "start: '15.9.2011' given; allowed is a day such as '2011-09-15'."),
        ("traffic", {"detectors": 0}, "detectors: 0 given; allowed is a whole number from 1 to 1000."),
        ("traffic", {"tuples": 10**9, "detectors": 1}, "detectors: 1 given; allowed is a whole number from 8 to 100000."),
        ("intel_lab", {"motes": 55}, "motes: 55 given; allowed is a whole number from 1 to 54."),
        ("dye", {"long": True}, "tuples: 1000 given; with a long patch at least 310000 are needed."),
        ("dye", {"long": "yes"}, "long: 'yes' given; allowed are true and false."),
        ("ss7", {"fields": 120}, "fields: 120 given; allowed is a whole number from 2 to 119."),
        ("ss7", {"variant": "real"}, "variant: 'real' given; allowed are 'network' and 'synthetic'."),
        ("ss7", {"disordered": 1.5}, "disordered: 1.5 given; allowed is a share from 0 to 1."),
        (
            "ss7",
            {"variant": "synthetic", "events_a_minute": 5},
            "events_a_minute: 5 given; the synthetic variant has one event per chronon.",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_in_a_sentence(name: str, arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as refused:
        twin(name, **({"tuples": 1_000} | arguments))
    assert str(refused.value) == sentence
