"""The plan: what is decided from a specification, and how it is told."""

from __future__ import annotations

import pytest

from engines import build
from engines.slicing.engine import Engine
from engines.slicing.spec import Spec
from engines.spec import validate
from tests.engines.slicing.driving import spec

WINDOW = {"kind": "sliding", "length": "20s", "slide": "1s"}


@pytest.mark.parametrize(("settings", "order"), [({}, "in order"), ({"delay": "2s"}, "disorder"), ({"lateness": "2s"}, "disorder")])
def test_disorder_is_what_delay_and_lateness_allow(settings: dict[str, str], order: str) -> None:
    plan = Engine(validate(Spec, spec(WINDOW, **settings))).plan
    assert plan.order.value == order
    assert (plan.keep_tuples.value, plan.splits.value, plan.removal.value, plan.store.value) == ("no", "never", "never", "lazy")


def test_an_engine_explains_its_plan_and_its_queries() -> None:
    text = build(spec(WINDOW, "sum", "count", delay="2s")).explain()
    assert "order: disorder, as tuples up to 2s behind are accepted." in text
    assert "query q: sliding (length 20s, slide 1s, offset 0s): sum_v, count." in text


def test_an_engine_tells_the_algebra_of_its_aggregates() -> None:
    lines = build(spec(WINDOW, "sum", "count", "mean", "first")).explain().splitlines()
    assert lines[-4:] == [
        "- count: distributive, invertible, cumulative, commutative.",
        "- first: algebraic, selective, commutative.",
        "- mean: algebraic, invertible, cumulative, commutative.",
        "- sum: distributive, invertible, cumulative, commutative.",
    ]
