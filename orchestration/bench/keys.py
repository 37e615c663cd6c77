"""Keys: text beside integers, and a million beside sixteen.

With a million keys windows slide by ten seconds: with every second each tuple would have twenty rows of results of its own, and
writing them would be all that is measured. Both streams have a hundred thousand tuples per second of event time.
"""

from __future__ import annotations

from orchestration.bench import duck, spark_own
from orchestration.bench.replays import Timed, processor_seconds, replayed, sliding_spec, typical, warm
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.sliding import compare, in_microseconds
from orchestration.bench.streams import DISORDERED, FEW_KEYS, MANY_KEYS, TEXT_KEYS, names

ABOUT = "sliding windows by text keys beside integers, and by a million keys beside sixteen, with Spark's own on the same tuples"


def run(bench: Bench) -> Outcome:
    """Measure text keys, then many keys."""
    texts, many = _texts(bench), _many(bench)
    return Outcome([*texts.measures, *many.measures], {"text_keys": texts.details, "many_keys": many.details})


def _texts(bench: Bench) -> Outcome:
    """The same tuples with keys of both kinds."""
    times: dict[str, Timed] = {}
    for name, stream in (("integers", DISORDERED), ("texts", TEXT_KEYS)):
        warm(bench, sliding_spec(), stream)
        log = bench.log(stream, max(bench.scale.tuples // 4, 1))
        times[name] = typical([replayed(bench, sliding_spec(), log, f"{name} as keys") for _ in range(bench.scale.repeats)])
    texts, integers = (in_microseconds(times[name].results()) for name in ("texts", "integers"))
    as_texts = integers.set_column(integers.schema.get_field_index("key"), "key", names(DISORDERED.keys).take(integers["key"]))
    return Outcome(
        [Measure("speed with text keys beside integers", times["texts"].speed / times["integers"].speed, at_least=0.5)],
        {
            "million_tuples_per_second": {name: timed.speed / 1e6 for name, timed in times.items()},
            "processor_seconds_per_million_tuples": processor_seconds(**times),
            "where_the_time_goes": {name: timed.phases() for name, timed in times.items()},
            "rows_equal": compare("windows by text and by integer keys", texts, as_texts),
        },
    )


def _many(bench: Bench) -> Outcome:
    """The same query over streams of a million keys and of sixteen, ours and Spark's own."""
    spec, tuples = sliding_spec("20s", "10s"), max(bench.scale.tuples // 10, 1)
    times, owns = dict[str, Timed](), dict[str, spark_own.Own]()
    for name, stream in (("16 keys", FEW_KEYS), ("a million keys", MANY_KEYS)):
        warm(bench, spec, stream)
        log = bench.log(stream, tuples)
        times[name] = typical([replayed(bench, spec, log, name) for _ in range(bench.scale.repeats)])
        owns[name] = spark_own.sliding(bench, log, tuples, name, slide="10 seconds")
        expected = duck.sliding(bench, log, name, slide_us=10_000_000).results()
        compare(f"windows by {name}, ours and DuckDB's", in_microseconds(times[name].results()), expected)
    few, many = times.values()
    own = owns["a million keys"]
    return Outcome(
        [
            Measure("speed with a million keys beside sixteen", many.speed / few.speed),
            Measure("speed with a million keys beside Spark's own", many.speed / own.speed),
            Measure("state with a million keys beside Spark's own", many.state_bytes / max(own.state_bytes, 1)),
        ],
        {
            "million_tuples_per_second": {name: {"reprise": times[name].speed / 1e6, "spark": owns[name].speed / 1e6} for name in times},
            "processor_seconds_per_million_tuples": {name: processor_seconds(reprise=times[name], spark=owns[name]) for name in times},
            "state_bytes": {name: {"reprise": times[name].state_bytes, "spark": owns[name].state_bytes} for name in times},
            "results_per_tuple": {name: timed.replayed.progress.results / timed.tuples for name, timed in times.items()},
            "where_the_time_goes": {name: timed.phases() for name, timed in times.items()},
        },
    )
