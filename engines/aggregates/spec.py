"""Aggregates as a person asks for them, with the algebra that decides how they may be computed.

Oracles read this too, so nothing is imported but pydantic and `engines.spec`. How a partial is stored, merged and
lowered belongs in the other modules of this folder.

References:
    Traub et al., Efficient Window Aggregation with General Stream Slicing, EDBT 2019, section 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, Field

from engines.spec import Model

PARTITION = "day"
"""The column that published results are partitioned by."""


class Level(Enum):
    """How large a partial is: one value, a fixed number of values, or no bound (Gray et al., Data Cube)."""

    DISTRIBUTIVE = "distributive"
    ALGEBRAIC = "algebraic"
    HOLISTIC = "holistic"


class Algebra(NamedTuple):
    """What may be done with the partials of an aggregate; every aggregate is associative."""

    level: Level
    invertible: bool
    """A partial can be taken out again."""
    selective: bool
    """The result is one of the values (else cumulative: it depends on all of them)."""
    commutative: bool = True
    """Partials may be merged in any order (first and last carry their place, so they too)."""

    def told(self) -> str:
        """In the words of the paper.

        >>> Sum.ALGEBRA.told()
        'distributive, invertible, cumulative, commutative'
        """
        told = self.level.value, "invertible" * self.invertible, "selective" if self.selective else "cumulative"
        return ", ".join(filter(None, (*told, "commutative" * self.commutative)))


class _Aggregate(Model):
    """What every aggregate has: its algebra, and a name for its result column."""

    ALGEBRA: ClassVar[Algebra]
    POSITIONAL: ClassVar[tuple[str, ...]] = ("column",)

    kind: str
    column: str | None
    rename: str | None = Field(default=None, alias="as", min_length=1, description="Name of the result column.")

    @property
    def name(self) -> str:
        """The result column: `as` if given, else `<kind>_<column>`."""
        return self.rename or (self.kind if self.column is None else f"{self.kind}_{self.column}")


class _OfColumn(_Aggregate):
    column: str = Field(description="The column whose values are aggregated; null and NaN are skipped.")


class Count(_Aggregate):
    """How many tuples, or how many values of a column.

    >>> Count().name, Count("v").name, Count(**{"as": "n"}).name
    ('count', 'count_v', 'n')
    """

    ALGEBRA = Algebra(Level.DISTRIBUTIVE, invertible=True, selective=False)
    kind: Literal["count"] = "count"
    column: str | None = Field(default=None, description="Count its values that are not null or NaN; absent: count tuples.")


class Sum(_OfColumn):
    """The sum: of integers exact, of floats compensated."""

    ALGEBRA = Algebra(Level.DISTRIBUTIVE, invertible=True, selective=False)
    kind: Literal["sum"] = "sum"


class Mean(_OfColumn):
    """The arithmetic mean."""

    ALGEBRA = Algebra(Level.ALGEBRAIC, invertible=True, selective=False)
    kind: Literal["mean"] = "mean"


class Min(_OfColumn):
    """The least value."""

    ALGEBRA = Algebra(Level.DISTRIBUTIVE, invertible=False, selective=True)
    kind: Literal["min"] = "min"


class Max(_OfColumn):
    """The greatest value."""

    ALGEBRA = Algebra(Level.DISTRIBUTIVE, invertible=False, selective=True)
    kind: Literal["max"] = "max"


class First(_OfColumn):
    """The value of the earliest tuple, by (ts, arrival)."""

    ALGEBRA = Algebra(Level.ALGEBRAIC, invertible=False, selective=True)
    kind: Literal["first"] = "first"


class Last(_OfColumn):
    """The value of the latest tuple, by (ts, arrival)."""

    ALGEBRA = Algebra(Level.ALGEBRAIC, invertible=False, selective=True)
    kind: Literal["last"] = "last"


Aggregate = Annotated[Count | Sum | Mean | Min | Max | First | Last, Field(discriminator="kind")]
"""Any aggregate; `kind` says which."""


def alike(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that a stored table would take for one: Delta does not tell upper from lower case.

    >>> alike(["sum_v", "count", "Count"])
    ('count', 'Count')
    """
    known: dict[str, str] = {}
    for name in names:
        if name.lower() in known:
            return known[name.lower()], name
        known[name.lower()] = name
    return None


def _distinct(aggregates: tuple[_Aggregate, ...]) -> tuple[_Aggregate, ...]:
    twice = alike(aggregate.name for aggregate in aggregates)
    if twice:
        raise ValueError(
            f"the result columns {twice[0]!r} and {twice[1]!r} given; allowed are names that differ in more than case, which 'as' can give"
        )
    return aggregates


Aggregates = Annotated[tuple[Aggregate, ...], AfterValidator(_distinct)]
"""Aggregates side by side in one result: names that are equal, but perhaps for their case, are refused."""


def beside(columns: Sequence[str]) -> AfterValidator:
    """For `Aggregates` whose results stand beside these columns: names that could not be stored there are refused."""
    taken = (*columns, PARTITION)

    def check(aggregates: tuple[_Aggregate, ...]) -> tuple[_Aggregate, ...]:
        for aggregate in aggregates:
            if alike([*taken, aggregate.name]) or "\0" in aggregate.name:
                raise ValueError(
                    f"the result column {aggregate.name!r} given; allowed are names other than {', '.join(taken)}, in any case, "
                    "and without a character of code 0, which 'as' can give"
                )
        return aggregates

    return AfterValidator(check)
