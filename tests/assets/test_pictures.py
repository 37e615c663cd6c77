"""Pictures: PNGs of a size that metadata can hold, of streams and results with everything and with nothing to show."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from assets.pictures import picture_of_batches, picture_of_comparison, picture_of_episodes, picture_of_windows
from assets.profile_pictures import picture_of_profile
from assets.shown import MOST_KEYS, MOST_ROWS, Shown, counted, shown_results
from assets.signals import MOST_READ, most_frequent, signal_of
from assets.workplace import Workplace
from engines.contract import TIMESTAMP
from quality.joining import compared
from replay.lake import Lake
from replay.log import FIRST_US, LAST_US, Log
from replay.log_writer import append
from replay.metrics import metrics_table
from replay.streams.profile import profile
from replay.streams.tasks import InProcess


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize(
    "tuples",
    [
        {"ts": [5]},
        {"ts": list(range(0, 10**9, 10**6)), "v": [None, 1.0] * 500},
        {"ts": [7, 3, 9, 9, 1], "key": ["a", "b", "a", None, "b"]},
        {"ts": [FIRST_US, LAST_US]},
        {"ts": [LAST_US]},
    ],
    ids=["one tuple", "half of it missing", "disorder, ties, keys", "all times", "the last of all times"],
)
def test_any_stream_can_be_drawn(tuples: dict[str, list[object]], lake: Lake) -> None:
    append(
        lake, "s", pa.table({name: pa.array(column, TIMESTAMP) if name == "ts" else pa.array(column) for name, column in tuples.items()})
    )
    found = profile(lake, "s", InProcess())
    assert found.document()["begin"] <= found.document()["end"]
    png = picture_of_profile(found)
    width, height = size(png)
    assert 800 <= width <= 1200
    assert 500 <= height <= 800
    assert len(png) < 100_000


HOUR = 3_600_000_000
QUERIES = [
    {"name": "hourly", "aggregates": [{"kind": "count"}, {"kind": "mean", "column": "speed"}]},
    {"name": "named", "aggregates": [{"kind": "max", "column": "speed", "as": "fastest"}]},
]


def times(hours: list[int] | np.ndarray) -> pa.Array:  # type: ignore[type-arg]
    return pa.array(np.asarray(hours, np.int64) * HOUR).view(TIMESTAMP)


def tuples(n: int, keys: list[str | None]) -> pa.Table:
    """A signal with noise and holes, and its unit."""
    speed = np.random.default_rng(0).normal(60, 10, n)
    known = pa.array(np.where(np.arange(n) % 5 == 0, np.nan, speed), from_pandas=True)
    table = pa.table({"ts": times(np.arange(n)), "key": [keys[i % len(keys)] for i in range(n)], "speed": known})
    return table.cast(pa.schema([field.with_metadata({"unit": "mph"}) if field.name == "speed" else field for field in table.schema]))


def windows(n: int, keys: list[str | None]) -> pa.Table:
    key = pa.array([keys[i % len(keys)] for i in range(n)], pa.string())
    value = pa.array(np.arange(n) * 1e5, from_pandas=True)
    parts = [
        pa.table({"query": [q] * n, "key": key, "window_end": times(np.arange(n)), "mean_speed": value, "fastest": value})
        for q in ("hourly", "named")
    ]
    return pa.concat_tables(parts)


def shown(rows: pa.Table) -> Shown:
    return Shown(rows, counted(pl.from_arrow(rows).lazy()))  # type: ignore[union-attr]


def frames(n: int, keys: list[str | None]) -> pa.Table:
    key = pa.array([keys[i % len(keys)] for i in range(n)], pa.string())
    return pa.table({"key": key, "start": times(10 * np.arange(n)), "end": times(10 * np.arange(n) + 3)})


@pytest.mark.parametrize(
    "keys", [["a"], ["a", "b", None], [f"k{i}" for i in range(12)]], ids=["one key", "a key that is null", "many keys"]
)
@pytest.mark.parametrize("n", [0, 1, 20_000], ids=["nothing", "one", "many"])
def test_results_can_be_drawn_whatever_there_is_of_them(n: int, keys: list[str | None]) -> None:
    signal, one = tuples(n, keys), frames(1, ["a"])
    drawn = [
        picture_of_windows(shown(windows(n, keys)), signal, QUERIES),
        picture_of_episodes(shown(frames(n // 20, keys)), signal, "speed < 40"),
        picture_of_episodes(shown(one), signal, "speed < 40 and key is not null"),
        picture_of_batches(
            metrics_table({"batch": i, "tuples": 3, "clock": i, "due": i, "final": i, "lift_seconds": 0.1} for i in range(n // 100))
        ),
    ]
    for png in drawn:
        assert size(png)[0] in (990, 792)
        assert 1_000 < len(png) < 100_000


def test_a_signal_of_texts_is_drawn_by_their_names_and_windows_without_numbers_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """state == 'open' is a predicate as good as any; of times there is a maximum, which is no number."""
    doors = pa.table({"ts": times(np.arange(40)), "key": ["a"] * 40, "state": ["open", "shut", None, "ajar"] * 10})
    told = texts(monkeypatch, lambda: picture_of_episodes(shown(frames(4, ["a"])), doors, "state == 'open'"))
    assert {
        "ajar",
        "open",
        "shut",
        "key a: 4 episodes of state == 'open'; one that is decided on a later day is shaded on that day",
    } <= set(told)
    found = windows(5, ["a"])
    found = found.append_column("max_seen", found["window_end"])
    latest = {"kind": "max", "column": "seen"}
    for aggregates, sentence in [
        ([latest], "hourly: 5 windows, and no numbers to show"),
        ([latest, *QUERIES[0]["aggregates"]], "mean of speed"),
    ]:
        told = texts(monkeypatch, lambda: picture_of_windows(shown(found), doors, [{"name": "hourly", "aggregates": aggregates}]))  # noqa: B023
        assert sentence in told


def test_the_episodes_of_a_thousand_days_are_drawn_at_once() -> None:
    """One after the other they took half a minute."""
    signal, many = tuples(2_000, ["a"]), shown(frames(20_000, ["a"]))
    begun = time.process_time()
    assert len(picture_of_episodes(many, signal, "speed < 40")) > 1_000
    assert time.process_time() - begun < 5


def test_a_value_that_differs_changes_the_picture() -> None:
    """Equal, one apart, and without numbers; a row of one side only is told as well."""
    engine = pl.DataFrame({"key": ["a", "b", "c"], "n": [1, 2, 3], "mean_v": [1.5, 2.5, 3.5]})
    other = engine.with_columns(mean_v=pl.Series([1.5, 2.5, 9.5]))
    drawn = [picture_of_comparison(compared(engine, expected, ["key"], [])) for expected in (engine, other, engine.head(2))]
    assert len({bytes(png) for png in drawn}) == 3
    assert size(picture_of_comparison(compared(engine.select("key"), engine.select("key"), ["key"], [])))[0] == 990


def test_what_differs_is_drawn_wherever_its_column_stands_and_what_is_not_drawn_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth number is wrong twice, the count once; so are times, which are no numbers."""
    right = pl.DataFrame({"key": range(9), "count": 1, "a": 1.0, "b": 2.0, "c": 3.0, "sum_v": 4.0}).with_columns(
        at=pl.col("key").cast(pl.Date)
    )
    last, fault = pl.col("key") > 6, pl.col("key") == 5
    engine = right.with_columns(
        sum_v=pl.when(last).then(9.0).otherwise("sum_v"), count=pl.when(fault).then(2).otherwise("count"),
        at=pl.when(fault).then(None).otherwise("at"),
    )  # fmt: skip
    told = texts(monkeypatch, lambda: picture_of_comparison(compared(engine, right, ["key"], [])))
    assert [text for text in told if "differ" in text] == [
        "sum_v: 9 compared, 2 differ", "count: 9 compared, 1 differ", "a: 9 compared, 0 differ", "not drawn, and differ: at (1)"
    ]  # fmt: skip


def test_the_signal_is_of_the_key_with_most_results_and_knows_its_units(lake: Lake) -> None:
    """Two days at two detectors of a declared stream; of the log's columns only those that are asked for."""
    n = 4_000
    minutes = 1_315_872_000_000_000 + np.arange(n) * 60_000_000
    table = pa.table(
        {"ts": pa.array(minutes).view(TIMESTAMP), "key": pa.array(np.arange(n) % 2), "speed": np.arange(n) * 1.0, "volume": np.arange(n)}
    )
    append(lake, "traffic", table)
    log = Log.open(lake, lake.address("streams", "traffic"))
    results, spec = pa.table({"key": pa.array([0, 1, 1], pa.int64())}), {"technique": "frames", "frame": {"where": "speed < 40"}}
    found = signal_of(Workplace(lake=lake.root), log, spec, results, log.days()[:1])
    assert most_frequent(results).as_py() == 1  # type: ignore[union-attr]
    assert found.schema.names == ["ts", "key", "speed"]
    assert found.schema.field("speed").metadata == {b"unit": b"mph"}
    first = minutes < (minutes[0] // (24 * HOUR) + 1) * 24 * HOUR
    assert found["speed"].to_pylist() == [float(i) for i in range(n) if first[i] and i % 2 == 1]
    assert n < MOST_READ
    assert signal_of(Workplace(lake=lake.root), log, spec, results.slice(0, 0), log.days()).num_rows == n


def texts(monkeypatch: pytest.MonkeyPatch, draw: Callable[[], bytes]) -> list[str]:
    """All that is written in a picture: titles, labels of axes, legends, ticks."""
    found: list[str] = []
    real = FigureCanvasAgg.print_png

    def read(canvas: FigureCanvasAgg, out: Any) -> None:
        real(canvas, out)
        found[:] = [text.get_text() for text in canvas.figure.findobj(Text) if text.get_text() and text.get_visible()]

    with monkeypatch.context() as patch:
        patch.setattr(FigureCanvasAgg, "print_png", read)
        draw()
    return found


def test_all_results_are_counted_and_rows_are_read_of_every_key_that_is_drawn(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A published table is clustered by key: its first rows are those of one key. Keys with more windows come first.

    key    k00      k01      ...  k06                 on one day; another day is not asked for
    rows   |30,000| |29,999| ...  |29,994|
    """
    day, counts = date(2024, 1, 1), [30_000 - i for i in range(7)]
    key = np.repeat([f"k{i:02d}" for i in range(7)], counts)
    at = pl.Series(np.concatenate([np.arange(n) for n in counts])).cast(pl.Datetime("us", "UTC"))
    rows = pl.DataFrame({"query": "hourly", "key": key, "window_end": at, "decided": at, "mean_speed": 1.0, "day": day})
    other = rows.head(5).with_columns(day=pl.lit(date(2024, 1, 2)), key=pl.lit("k99"))
    pl.concat([rows, other]).write_delta(lake.address("results", "mine"), delta_write_options={"partition_by": ["day"]})
    found = shown_results(lake, "mine", {day})
    assert (found.total("hourly"), found.keys("hourly")) == (sum(counts), [f"k{i:02d}" for i in range(7)])
    parts = dict(found.by_key("hourly"))
    assert list(parts) == [f"k{i:02d}" for i in range(MOST_KEYS)]
    assert found.rows.num_rows < 1.1 * MOST_ROWS
    for part in parts.values():
        assert part.num_rows > 0.9 * MOST_ROWS / MOST_KEYS
        reached = part["window_end"].cast(pa.int64()).to_numpy()
        assert reached.min() < 100 and reached.max() > 29_800
    told = texts(monkeypatch, lambda: picture_of_windows(found, tuples(10, ["k00"]), QUERIES))
    assert f"hourly: {sum(counts):,} windows, by their end" in told
    assert "key (2 more)" in told
    assert shown_results(lake, "nothing", {day}).total() == 0


def test_axes_have_units_that_people_use_and_no_marks_for_what_is_not_there(monkeypatch: pytest.MonkeyPatch, lake: Lake) -> None:
    """12,000,000 um/s are 12 m/s; of two micro-batches two are marked; durations are round, and every axis says what it counts."""
    field = pa.field("speed", pa.float64(), metadata={"unit": "um/s"})
    signal = pa.table({"speed": [1.0]}).cast(pa.schema([field]))
    found = windows(20, ["a"]).set_column(3, "mean_speed", pa.array(np.linspace(0, 24e6, 40)))
    told = texts(monkeypatch, lambda: picture_of_windows(shown(found), signal, QUERIES[:1]))
    assert "mean of speed, m/s" in told
    assert {"0", "3", "6", "9", "12"} <= set(told)

    metrics = metrics_table({"batch": i, "tuples": 3, "clock": i, "due": i, "final": i, "lift_seconds": 0.1} for i in range(2))
    told = texts(monkeypatch, lambda: picture_of_batches(metrics))
    assert [told.count(number) for number in ("1", "2", "3")] == [2, 0, 0]

    append(lake, "s", pa.table({"ts": pa.array(np.arange(50) * 20_000_000, TIMESTAMP)}))
    told = texts(monkeypatch, lambda: picture_of_profile(profile(lake, "s", InProcess())))
    assert {"pairs of tuples", "tuples a second", "10 s", "20 s", "30 s"} <= set(told)
    assert "0.00% out of order, inversion rate 0" in told
