"""Keys: text beside integers, and a million beside sixteen.

With a million keys windows slide by ten seconds: with every second each tuple would have twenty rows of results of its own, and
writing them would be all that is measured. Both streams have a hundred thousand tuples per second of event time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from orchestration.bench import duck, spark_own
from orchestration.bench.replays import Timed, batch_speed, replayed, sliding_spec, warm
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.sliding import compare, in_microseconds
from orchestration.bench.streams import DISORDERED, FEW_KEYS, MANY_KEYS, TEXT_KEYS, names
from orchestration.bench.timing import in_turn, told, typical
from replay.log import Log

ABOUT = "sliding windows by text keys beside integers, and by a million keys beside sixteen, with Spark's own on the same tuples"


def run(bench: Bench) -> Outcome:
    """Measure text keys, then many keys."""
    texts, many = _texts(bench), _many(bench)
    return Outcome([*texts.measures, *many.measures], {"text_keys": texts.details, "many_keys": many.details})


def _texts(bench: Bench) -> Outcome:
    """The same tuples with keys of both kinds."""
    logs = {name: bench.log(stream, bench.scale.tuples) for name, stream in (("integers", DISORDERED), ("texts", TEXT_KEYS))}
    warm(bench, sliding_spec(), TEXT_KEYS)
    runs = _runs(bench, sliding_spec(), logs, bench.scale.batch_tuples)
    integers, texts = typical(runs).values()
    found, expected = in_microseconds(texts.results()), in_microseconds(integers.results())
    expected = expected.set_column(expected.schema.get_field_index("key"), "key", names(DISORDERED.keys).take(expected["key"]))
    return Outcome(
        [Measure("speed of batches with text keys beside integers", _ratio(runs, "texts", "integers"), at_least=0.5)],
        {**told(runs), "rows_equal": compare("windows by text and by integer keys", found, expected)},
    )


def _many(bench: Bench) -> Outcome:
    """The same query over streams of a million keys and of sixteen, ours and Spark's own."""
    spec, tuples = sliding_spec("20s", "10s"), max(bench.scale.tuples // 20, 1)
    # Several batches: in a single one Spark's own would hold every window of the stream until the next, and its state be no measure.
    batch = max(tuples // 5, 1)
    logs = {name: bench.log(stream, tuples) for name, stream in (("16 keys", FEW_KEYS), ("a million keys", MANY_KEYS))}
    warm(bench, spec, MANY_KEYS)
    runs = _runs(bench, spec, logs, batch)
    owns = {name: spark_own.sliding(bench, log, tuples, name, slide="10 seconds", batch_tuples=batch) for name, log in logs.items()}
    for name, timed in typical(runs).items():
        expected = duck.sliding(bench, logs[name], name, slide_us=10_000_000).results()
        compare(f"windows by {name}, ours and DuckDB's", in_microseconds(timed.results()), expected)
    many = typical(runs)["a million keys"]
    own = owns["a million keys"]
    return Outcome(
        [
            Measure("speed of batches with a million keys beside sixteen", _ratio(runs, "a million keys", "16 keys")),
            Measure("speed with a million keys beside Spark's own", many.speed / own.speed),
            Measure("state with a million keys beside Spark's own", many.state_bytes / max(own.state_bytes, 1)),
        ],
        {"reprise": told(runs), "spark": told({name: [taken] for name, taken in owns.items()})},
    )


def _runs(bench: Bench, spec: Mapping[str, Any], logs: Mapping[str, Log], batch_tuples: int) -> dict[str, list[Timed]]:
    """Replays of some logs, in turn."""
    actions = {name: partial(replayed, bench, spec, log, name, batch_tuples=batch_tuples) for name, log in logs.items()}
    return in_turn(bench.scale.repeats, actions)


def _ratio(runs: Mapping[str, list[Timed]], one: str, other: str) -> float:
    return batch_speed(runs[one]) / batch_speed(runs[other])
