"""Expressions: what is read, what is refused with which sentence, and what a predicate says about a row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.expressions.evaluate import Formula, Predicate
from engines.expressions.tree import (
    COMPARISONS,
    DEEPEST,
    FUNCTIONS,
    LONGEST,
    Column,
    Comparison,
    Node,
    Number,
    Operation,
    Text,
    Truth,
    canonical,
    columns,
    parse,
    write,
)
from engines.spec import SpecError

A, B, C = Column("a"), Column("b"), Column("c")
ROW = {
    "a": 1.0, "b": 2.0, "zero": 0.0, "none": None, "nan": math.nan, "inf": math.inf, "n": 3, "big": 2**62, "s": "jam",
    "ok": True, "off": False,
}  # fmt: skip
SCHEMA = pa.schema({
    **dict.fromkeys(("a", "b", "zero", "none", "nan", "inf"), pa.float64()), "n": pa.int32(), "big": pa.int64(), "s": pa.string(),
    "ok": pa.bool_(), "off": pa.bool_(), "nobody": pa.string(), "unsure": pa.bool_(), "ts": pa.timestamp("us", "UTC"),
})  # fmt: skip


def truth(text: str, rows: pa.RecordBatch | None = None) -> list[int]:
    rows = pa.RecordBatch.from_pylist([ROW], schema=SCHEMA) if rows is None else rows
    return Predicate(parse(text), rows.schema, setting="where")(rows).tolist()


def number(text: str) -> float:
    return float(Formula(parse(text), SCHEMA)(pa.RecordBatch.from_pylist([ROW], schema=SCHEMA))[0])


@pytest.mark.parametrize(("text", "tree"), [
    ("a", A),
    ("left.x", Column("left.x")),
    ("'it''s'", Text("it's")),
    ("1.5e3", Number(1500)),
    ("-2", Number(-2)),
    ("a - -2", Operation("-", (A, Number(-2)))),
    ("-a ** 2", Operation("-", (Operation("**", (A, Number(2))),))),
    ("a ** b ** c", Operation("**", (A, Operation("**", (B, C))))),
    ("2 ** -a", Operation("**", (Number(2), Operation("-", (A,))))),
    ("a - b - c", Operation("-", (Operation("-", (A, B)), C))),
    ("a + b * c", Operation("+", (A, Operation("*", (B, C))))),
    ("(a + b) * c", Operation("*", (Operation("+", (A, B)), C))),
    ("a < b <= c", Comparison(("<", "<="), (A, B, C))),
    ("a or b and c", Operation("or", (A, Operation("and", (B, C))))),
    ("(a and b) and c", Operation("and", (A, B, C))),
    ("not a and b", Operation("and", (Operation("not", (A,)), B))),
    ("not a == b", Operation("not", (Comparison(("==",), (A, B)),))),
    ("a + b is not null", Operation("not", (Operation("is null", (Operation("+", (A, B)),)),))),
    ("max(a, b, c)", Operation("max", (A, B, C))),
    ("max > true", Comparison((">",), (Column("max"), Truth(True)))),
])  # fmt: skip
def test_operators_bind_as_in_python(text: str, tree: Node) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(("text", "problem"), [
    ("speed <", "does not parse at character 8: a value is missing"),
    ("", "does not parse at character 1: a value is missing"),
    ("a < < b", "does not parse at character 5: a value is missing"),
    ("a = 1", "does not parse at character 3: '=' is no comparison; equal is '=='"),
    ("a b", "does not parse at character 3: 'b' is not expected here"),
    ("(a", "does not parse at character 3: a closing parenthesis is missing"),
    ("a)", "does not parse at character 2: ')' is not expected here"),
    ("s == 'jam", "does not parse at character 6: the text is not closed"),
    ("a ; b", "does not parse at character 3: ';' is not known"),
    ("a is 3", "does not parse at character 6: 'null' is missing"),
    ("a < b is null", "does not parse at character 7: 'is' cannot follow or begin a chain of comparisons; parentheses are missing"),
    ("1 + not a", "does not parse at character 5: 'not' needs parentheses around it here"),
    ("1e999", "does not parse at character 1: the number is too large"),
    ("abs(a, b)", "does not parse at character 9: abs takes one value, not 2"),
    ("min(a)", "does not parse at character 6: min takes two or more values, not 1"),
    ("null", "does not parse at character 1: a value is missing"),
    ("x + __import__('os')", "does not parse at character 5: there is no function '__import__'; there are "
     "abs, ceil, exp, floor, log, max, min, round, sign, sqrt"),
])  # fmt: skip
def test_a_text_that_does_not_parse_is_refused_with_the_place(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as error:
        parse(text, setting="where")
    assert str(error.value) == f"where: {text!r} {problem}."


@pytest.mark.parametrize("text", [
    "(" * 5_000, "-" * 5_000 + "a", "not " * 2_000 + "a", "a" + "+a" * 4_000, "a" + "**a" * 3_000, "a" * (LONGEST + 1)
])  # fmt: skip
def test_size_is_bounded_by_a_sentence(text: str) -> None:
    with pytest.raises(SpecError, match=r"^where: .* has (more than 100|10001) .*\.$"):
        parse(text, setting="where")


def test_a_long_list_of_alternatives_is_not_deep() -> None:
    tree = parse(" or ".join(f"a == {i}" for i in range(5 * DEEPEST)))
    assert isinstance(tree, Operation)
    assert len(tree.operands) == 5 * DEEPEST


def trees() -> st.SearchStrategy[Node]:
    leaf = (
        st.sampled_from([A, B, Column("left.x"), Truth(True), Truth(False)])
        | st.floats(allow_nan=False, allow_infinity=False).map(Number)
        | st.text(max_size=3).map(Text)
    )

    def above(node: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        unary = st.builds(lambda name, x: Operation(name, (x,)), st.sampled_from(["not", "is null", "abs", "round"]), node)
        minus = node.filter(lambda x: not isinstance(x, Number)).map(lambda x: Operation("-", (x,)))
        binary = st.builds(lambda name, x, y: Operation(name, (x, y)), st.sampled_from(["+", "-", "*", "/", "**", "min"]), node, node)
        chain = st.lists(node, min_size=2, max_size=3).flatmap(
            lambda xs: st.tuples(*[st.sampled_from(COMPARISONS)] * (len(xs) - 1)).map(lambda names: Comparison(names, tuple(xs)))
        )
        joined = st.sampled_from(["and", "or"]).flatmap(
            lambda name: st.lists(node.filter(lambda x: getattr(x, "operator", None) != name), min_size=2, max_size=3).map(
                lambda xs: Operation(name, tuple(xs))
            )
        )
        return unary | minus | binary | chain | joined

    return st.recursive(leaf, above, max_leaves=12)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(trees())
def test_a_tree_survives_being_written(tree: Node) -> None:
    assert parse(write(tree)) == tree


@pytest.mark.parametrize(("texts", "written"), [
    (["v>0.2", " ( v  > 0.20 )", "v\n>\n.2"], "v > 0.2"),
    (["(a and b) and c", "a and (b and c)"], "a and b and c"),
    (["not a is null", "a is not null"], "a is not null"),
    (["--4 < v", "4.0 < v"], "4 < v"),
    (["(-2)**2>(a-(b-c))"], "(-2) ** 2 > a - (b - c)"),
])  # fmt: skip
def test_spaces_and_needless_parentheses_make_no_difference(texts: list[str], written: str) -> None:
    assert {canonical(text) for text in texts} == {written}


def test_columns_come_in_order_of_appearance() -> None:
    assert columns(parse("b < a and max(c, b) is null")) == ("b", "a", "c")


TRUE = [
    "a < b", "a <= 1 and b >= 2", "0 < a <= 1 < b", "a == 1", "n == 3", "big > 4e18", "s == 'jam'", "s < 'k'", "'a' < s < 'k'",
    "'a' == 'a'", "s == s", "ok", "ok == true", "ok != off", "true", "1 < 2", "ok + ok + off == 2", "ok > off", "none < 1 or a < b",
    "unsure or ok", "none is null", "nan is null", "inf is null", "a is not null", "a / zero is null", "ts is null",
    "nobody is null", "unsure is null", "(none < 1) is null",
]  # fmt: skip
FALSE = [
    "a > b", "0 < a < 1", "a != 1", "s != 'jam'", "off", "not ok", "b < a < none", "none < 1 and a > b", "a is null", "s is null",
    "'x' is null", "1 is null",
]  # fmt: skip
UNKNOWN = [
    "none < 1", "nan > 0", "nan != nan", "inf > 0", "inf == inf", "a < none < b", "a / zero > 0", "1 / 0 > 2", "2 / (1 / zero) < 1",
    "1 / inf < 1", "log(zero) < 0", "sqrt(-a) > 0", "exp(1e3) > 0", "exp(-1 / zero) < 1", "none ** 0 == 1", "1 ** none == 1",
    "min(inf, a) == 1", "max(none, a) == 1", "not none < 1", "none < 1 or a > b", "none < 1 and a < b", "unsure",
    "unsure == unsure", "nobody == 'x'", "nobody != s", "unsure + 1 > 0",
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [(text, code) for code, texts in ((1, TRUE), (0, FALSE), (-1, UNKNOWN)) for text in texts])
def test_a_predicate_is_true_false_or_unknown(text: str, expected: int) -> None:
    assert truth(text) == [expected]


@pytest.mark.parametrize(("text", "expected"), [
    ("a + b * 2", 5), ("b ** 3 - 1", 7), ("-b ** 2", -4), ("abs(-b)", 2), ("sqrt(b * 8)", 4), ("log(exp(b))", 2), ("n / 2", 1.5),
    ("floor(2.5)", 2), ("ceil(-2.5)", -2), ("round(2.5)", 2), ("round(3.5)", 4), ("sign(-b)", -1), ("min(a, b, -1)", -1), ("max(a, b)", 2),
    ("big * 4", 2.0**64), ("(a < b) + ok", 2),
])  # fmt: skip
def test_a_formula_is_float64(text: str, expected: float) -> None:
    assert number(text) == expected


@pytest.mark.parametrize("text", ["none + 1", "1 / zero", "inf - inf", "sqrt(-1)", "unsure * 2", "inf"])
def test_a_formula_without_a_value_is_nan(text: str) -> None:
    assert math.isnan(number(text))


@pytest.mark.parametrize(("text", "problem"), [
    ("sped < 1", "there is no column 'sped'; there are a, b, big, inf, n, nan, nobody, none, off, ok, s, ts, unsure, zero"),
    ("s < 3", "'s < 3' compares text with a number"),
    ("1 < a < 'x'", "\"1 < a < 'x'\" compares a number with text"),
    ("s == ok", "'s == ok' compares text with a condition"),
    ("s + 1 > 0", "'s + 1' needs a number, and 's' is text"),
    ("abs(s) > 0", "'abs(s)' needs a number, and 's' is text"),
    ("a", "the whole expression needs a condition, and 'a' is a number"),
    ("a and ok", "'a and ok' needs a condition, and 'a' is a number"),
    ("not s", "'not s' needs a condition, and 's' is text"),
    ("ts > 3", "'ts > 3' cannot compare 'ts', which is neither a number nor text nor a condition"),
])  # fmt: skip
def test_what_does_not_fit_the_columns_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as error:
        Predicate(parse(text), SCHEMA, setting="where")
    assert str(error.value) == f"where: {problem}."


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_text_compares_alike_in_every_encoding(type_: pa.DataType) -> None:
    rows = pa.record_batch({"s": pa.array(["a", None, "b", ""]).cast(type_), "t": pa.array(["a", "b", "c", "a"])})
    assert truth("s == 'a'", rows) == [1, -1, 0, 0]
    assert truth("'a' < s", rows) == [0, -1, 1, 0]
    assert truth("s < t", rows) == [0, -1, 1, 1]
    assert truth("s is null", rows) == [0, 1, 0, 0]


@pytest.mark.parametrize("type_", [pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(22, 3), pa.dictionary(pa.int32(), pa.int64())])
def test_numbers_compare_alike_in_every_type(type_: pa.DataType) -> None:
    rows = pa.record_batch({"v": pa.array([1, 2, None, 3], pa.int64()).cast(type_.value_type if pa.types.is_dictionary(type_) else type_)})
    if pa.types.is_dictionary(type_):
        rows = pa.record_batch({"v": rows["v"].dictionary_encode()})
    assert truth("v > 1.5", rows) == [0, 1, -1, 1]
    assert truth("v / 2 == 1", rows) == [0, 1, -1, 0]


def test_single_precision_is_compared_in_double() -> None:
    rows = pa.record_batch({"v": pa.array([0.1], pa.float32())})
    assert truth("v == 0.1", rows) == [0]


def test_every_block_and_every_slice_of_a_batch_counts() -> None:
    values = np.arange(100_000, dtype=np.float64) % 7
    values[70_000] = np.nan
    expected = np.where(np.isnan(values), -1, values > 3)
    rows = pa.record_batch({"v": values, "s": pa.array(["x", "y"] * 50_000)})
    assert truth("v > 3 and s is not null", rows) == expected.tolist()
    assert truth("v > 3", rows.slice(40_001, 50_000)) == expected[40_001:90_001].tolist()
    assert truth("s == 'y'", rows.slice(1, 3)) == [1, 0, 1]


def test_no_rows_give_no_answers() -> None:
    assert truth("a < b or s == 'x'", pa.RecordBatch.from_pylist([], schema=SCHEMA)) == []


def test_a_batch_is_not_changed() -> None:
    rows: dict[str, Any] = {"v": np.array([1.0, np.inf, np.nan])}
    truth("1 / v > 0", pa.record_batch(rows))
    assert rows["v"].tolist()[:2] == [1.0, np.inf]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_can_be_evaluated(name: str) -> None:
    assert math.isfinite(number(f"{name}({', '.join(['b'] * FUNCTIONS[name])})"))
