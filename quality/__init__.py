"""Is it right: oracles, expectations, the checks that Dagster shows, and the report.

Here live the oracles (polars, written from the definitions), the suites of Great Expectations, the comparison of engine and
oracle, and the page that a person looks at. Add an oracle and a suite with every technique. Of engines/ only specifications
may be imported, and never Spark: an oracle that shares code with the engine proves nothing.
"""
