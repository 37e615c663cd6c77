"""The report of a run: one HTML page that needs nothing else, and an index of all of them.

Renders what it is given: facts, outcomes of expectations, rows side by side, tables, pictures. No script, no font, no style from elsewhere;
a page can be mailed and opens offline.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from quality.expectations import Outcome

STYLE = """
:root { --ink: #1d2733; --soft: #52616f; --line: #e3e9ef; --good: #2b7549; --bad: #b3261e; --warn: #8a5a00; --mark: #17649b; }
* { box-sizing: border-box; }
body { margin: 0; background: #f6f8fa; color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 24px; line-height: 1.3; margin: 0 0 4px; } h2 { font-size: 17px; margin: 32px 0 10px; }
p { margin: 0 0 12px; } p.explained { white-space: pre-line; }
p.lead, p.note { color: var(--soft); } p.lead { margin-bottom: 20px; } p.note { margin: 10px 0 0; font-size: 13px; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 14px 20px; overflow: auto; max-height: 560px; }
.card.whole { max-height: none; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 12px; }
.numbers div { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; }
.numbers b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; } .numbers span { color: var(--soft); font-size: 13px; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); column-gap: 20px; align-items: start; }
table { border-collapse: collapse; width: 100%; font-size: 14px; } th { text-align: left; color: var(--soft); font-weight: 500; }
th, td { padding: 6px 16px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; } tr > :last-child { padding-right: 0; }
tr:last-child > * { border-bottom: 0; } .facts th { white-space: nowrap; } .facts td { overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } .time { white-space: nowrap; }
.error { overflow-wrap: anywhere; min-width: 260px; }
.badge { border-radius: 999px; padding: 1px 10px; font-size: 13px; font-weight: 500; color: #fff; white-space: nowrap; }
.passed { background: var(--good); } .failed { background: var(--bad); } .warned { background: var(--warn); }
.unchecked { background: var(--soft); }
.differs { color: var(--bad); font-weight: 600; } .worst tr.engine > * { border-bottom: 0; padding-bottom: 0; }
img { max-width: 100%; display: block; } pre { margin: 0; font-size: 13px; white-space: pre-wrap; } a { color: var(--mark); }
@media print { body { background: #fff; } .card { max-height: none; break-inside: avoid; } }
"""
_SIDES = ("engine", "oracle")
_COLUMNS = ("tuples", "tuples/s", "late", "results", "checks")


@dataclass(frozen=True)
class Report:
    """What there is to tell of a run."""

    title: str
    name: str
    """Of its page: letters, digits, '-' and '_'."""
    at: str
    numbers: Mapping[str, Any]
    """What stands at the top, by its label."""
    facts: Mapping[str, Any]
    specification: str
    outcomes: Sequence[Outcome]
    explained: str = ""
    """What the specification asks for, in words."""
    worst: Sequence[Mapping[str, Any]] = ()
    """Rows that differ, engine beside oracle."""
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    """PNGs by their captions."""
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Further rows by their captions."""

    @property
    def state(self) -> str:
        """passed, warned, failed, or unchecked as long as no check has run."""
        if not self.outcomes:
            return "unchecked"
        states = {_state(outcome) for outcome in self.outcomes}
        return next((state for state in ("failed", "warned") if state in states), "passed")

    @property
    def passed(self) -> str:
        """How many checks passed."""
        return f"{sum(outcome.passed for outcome in self.outcomes)} of {len(self.outcomes)}" if self.outcomes else "not run yet"


def page(report: Report) -> str:
    """The page of a run. What is wrong comes before what is pretty."""
    numbers = "".join(f"<div><b>{_value(value)}</b><span>{_text(label)}</span></div>" for label, value in report.numbers.items())
    checks = [_section("Checks", _checks(report.outcomes), "whole")]
    if report.worst:
        checks.append(_section("Rows that differ, engine beside oracle", _worst(report.worst), "worst"))
    differing = {repr(row) for row in report.worst}
    for outcome in report.outcomes:
        if rows := [row for row in outcome.worst if repr(row) not in differing]:
            checks.append(
                _section(f"Rows that break: {_named(outcome)}", _worst(rows) if _side_by_side(rows[0]) else _exact_table(rows), "worst")
            )
    pictures = [_section(caption, f'<img alt="{_text(caption)}" src="{_data(png)}">', "whole") for caption, png in report.pictures.items()]
    tables = [_section(caption, _table(rows)) for caption, rows in report.tables.items() if rows]
    facts = "".join(f"<tr><th>{_text(label)}</th><td>{_value(value)}</td></tr>" for label, value in report.facts.items())
    told = {"passed": "every check passed", "unchecked": "no check has run yet"}.get(report.state, f"{report.passed} checks passed")
    explained = f'<p class="explained">{_text(report.explained)}</p>' if report.explained else ""
    parts = [
        f"<h1>{_text(report.title)} {_badge(report.state)}</h1>",
        f'<p class="lead">{_text(report.at)} &middot; {_text(told)} &middot; <a href="index.html">all runs</a></p>',
        f'<div class="numbers">{numbers}</div>',
        *([*pictures[:1], *checks, *pictures[1:]] if report.state == "passed" else [*checks, *pictures]),
        *tables,
        '<div class="two">',
        f"<div>{_section('What was replayed', f'<table>{facts}</table>', 'whole facts')}</div>",
        f"<div>{_section('Specification', f'{explained}<pre>{_text(report.specification)}</pre>', 'whole')}</div>",
        "</div>",
    ]
    return _document(report.title, "".join(parts))


def index(entries: Sequence[Mapping[str, Any]]) -> str:
    """The list of all runs, the newest first; an entry has title, name, at and state, and some of the columns."""
    newest = sorted(entries, key=lambda entry: str(entry["at"]), reverse=True)
    rows = "".join(
        f'<tr><td>{_badge(str(entry["state"]))}</td><td class="time"><a href="{_text(entry["name"])}.html">{_text(entry["title"])}</a></td>'
        f'<td class="time">{_text(entry["at"])}</td>{"".join(_number(entry.get(name)) for name in _COLUMNS)}</tr>'
        for entry in newest
    )
    head = "".join(f'<th class="number">{_text(name)}</th>' for name in _COLUMNS)
    told = f"{len(entries)} run{'s' if len(entries) != 1 else ''}, the newest first."
    table = f"<table><tr><th></th><th>run</th><th>when</th>{head}</tr>{rows}</table>"
    return _document("Runs", f'<h1>Runs</h1><p class="lead">{told}</p><div class="card whole">{table}</div>')


def _document(title: str, body: str) -> str:
    view = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    # An icon of its own, empty: a browser would ask the server for one.
    head = f'{view}<link rel="icon" href="data:,"><title>{_text(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main>{body}</main></body></html>\n'


def _section(caption: str, body: str, kind: str = "") -> str:
    return f'<h2>{_text(caption)}</h2><div class="card {kind}">{body}</div>'


def _checks(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return "<p>They have not run yet. When they do, their page replaces this one.</p>"
    rows = ""
    for outcome in sorted(outcomes, key=lambda outcome: outcome.passed):
        examples = f"<br>{_text(', '.join(outcome.examples))}" if outcome.examples and not outcome.passed else ""
        rows += (
            f"<tr><td>{_badge(_state(outcome))}</td><td><b>{_text(_named(outcome))}</b><br>{_text(outcome.description)}</td>"
            f'<td class="{"error" if outcome.error else "number"}">{_text(outcome.told())}{examples}</td></tr>'
        )
    return f"<table>{rows}</table>"


def _side_by_side(row: Mapping[str, Any]) -> bool:
    """Whether a row is of engine and oracle both: an aggregate of the engine's own rows may be called `differ`, none `decided`."""
    return "differ" in row and "decided" not in row


def _worst(rows: Sequence[Mapping[str, Any]]) -> str:
    """Two lines for each row, the engine's above the oracle's; what differs is in red, to the last digit, as is what names the row."""
    of_both = ("differ", "side", *(f"{side}_rows" for side in _SIDES))
    names = [name for name in rows[0] if name not in of_both and not name.endswith(("__engine", "__oracle"))]
    values = [name.removesuffix("__engine") for name in rows[0] if name.endswith("__engine") and name not in of_both]
    body = ""
    for row in rows:
        differ = set(str(row["differ"]).split(", "))  # values that are near enough are not equal, and right
        for side in _SIDES:
            shared = "".join(f'<td rowspan="2" class="time">{_exactly(row[name])}</td>' for name in names) if side == "engine" else ""
            body += f'<tr class="{side}">{shared}{_side(side, row[f"{side}_rows"])}'
            if str(row.get("side", "")).endswith(" only") and not str(row["side"]).startswith(side):
                body += f'<td class="differs" colspan="{len(values)}">has no such row</td></tr>'
                continue
            for name in values:
                value = row[f"{name}__{side}"]
                body += f'<td class="number differs">{_exactly(value)}</td>' if name in differ else _cell(value)
            body += "</tr>"
    head = "".join(f"<th>{_text(name)}</th>" for name in names) + "<th></th>"
    head += "".join(f'<th class="number">{_text(name)}</th>' for name in values)
    return f'<table><tr>{head}</tr>{body}</table><p class="note">In red: what differs. Times are UTC.</p>'


def _side(side: str, rows: int) -> str:
    return f'<th class="differs">{side}: {rows:,} rows</th>' if rows > 1 else f"<th>{side}</th>"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with numbers as people read them; a key is a name, whatever it looks like."""
    body = "".join(
        f"<tr>{''.join(_exact_cell(value) if name == 'key' else _cell(value) for name, value in row.items())}</tr>" for row in rows
    )
    return f"<table>{_head(rows[0])}{body}</table>"


def _exact_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows to the last digit."""
    body = "".join(f"<tr>{''.join(_exact_cell(value) for value in row.values())}</tr>" for row in rows)
    return f"<table>{_head(rows[0])}{body}</table>"


def _head(row: Mapping[str, Any]) -> str:
    return "<tr>" + "".join(f'<th class="{_kind(value)}">{_text(name)}</th>' for name, value in row.items()) + "</tr>"


def _named(outcome: Outcome) -> str:
    return outcome.name.replace("_", " ")


def _state(outcome: Outcome) -> str:
    return "passed" if outcome.passed else "failed" if outcome.severity == "critical" else "warned"


def _badge(state: str) -> str:
    return f'<span class="badge {state}">{state}</span>'


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else "time" if isinstance(value, datetime) else ""


def _cell(value: Any) -> str:
    return f'<td class="{_kind(value)}">{_value(value)}</td>'


def _exact_cell(value: Any) -> str:
    return f'<td class="{_kind(value)}">{_exactly(value)}</td>'


def _number(value: Any) -> str:
    return f'<td class="number">{_value(value)}</td>'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) else _exactly(value)


def _exactly(value: Any) -> str:
    if value is None:
        return "&ndash;"
    return _text(value.replace(tzinfo=None) if isinstance(value, datetime) else value)


def _text(text: object) -> str:
    return html.escape(str(text))
