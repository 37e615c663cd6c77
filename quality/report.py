"""The report of a run: one HTML page that needs nothing else, and an index of all of them.

Renders what it is given: facts, outcomes of expectations, rows side by side, pictures. No script, no font, no style from elsewhere; a
page can be mailed and opens offline.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quality.expectations import Outcome

STYLE = """
:root { --ink: #1d2733; --soft: #66788a; --line: #e3e9ef; --good: #2e7d4f; --bad: #c0392b; --warn: #b7791f; --mark: #1f77b4; }
* { box-sizing: border-box; }
body { margin: 0; background: #f6f8fa; color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 36px 0 10px; }
p.lead { color: var(--soft); margin: 0 0 20px; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 16px 20px; overflow-x: auto; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; }
.numbers div { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 12px 16px; }
.numbers b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; } .numbers span { color: var(--soft); font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; } th { text-align: left; color: var(--soft); font-weight: 500; }
th, td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; } tr:last-child td { border-bottom: 0; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.badge { border-radius: 999px; padding: 1px 10px; font-size: 13px; color: #fff; white-space: nowrap; }
.passed { background: var(--good); } .failed { background: var(--bad); } .warned { background: var(--warn); }
td.differs { color: var(--bad); font-weight: 600; }
img { max-width: 100%; display: block; } pre { margin: 0; font-size: 13px; white-space: pre-wrap; } a { color: var(--mark); }
"""


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
    worst: Sequence[Mapping[str, Any]] = ()
    """Rows that differ, engine beside oracle."""
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    """PNGs by their captions."""

    @property
    def state(self) -> str:
        """passed, warned or failed."""
        if any(not outcome.passed and outcome.severity == "critical" for outcome in self.outcomes):
            return "failed"
        return "warned" if any(not outcome.passed for outcome in self.outcomes) else "passed"


def page(report: Report) -> str:
    """The page of a run."""
    wrong = sum(not outcome.passed for outcome in report.outcomes)
    told = "every check passed" if not wrong else f"{wrong} of {len(report.outcomes)} checks did not pass"
    parts = [
        f"<h1>{_text(report.title)} {_badge(report.state)}</h1>",
        f'<p class="lead">{_text(report.at)}; {told}. <a href="index.html">All runs</a></p>',
        f'<div class="numbers">{"".join(f"<div><b>{_value(v)}</b><span>{_text(k)}</span></div>" for k, v in report.numbers.items())}</div>',
    ]
    for caption, png in report.pictures.items():
        parts.append(f'<h2>{_text(caption)}</h2><div class="card"><img alt="{_text(caption)}" src="{_data(png)}"></div>')
    parts.append(f'<h2>Checks</h2><div class="card">{_checks(report.outcomes)}</div>')
    if report.worst:
        parts.append(f'<h2>Rows that differ, engine beside oracle</h2><div class="card">{_worst(report.worst)}</div>')
    rows = "".join(f"<tr><th>{_text(k)}</th><td>{_value(v)}</td></tr>" for k, v in report.facts.items())
    parts.append(f'<h2>What was replayed</h2><div class="card"><table>{rows}</table></div>')
    parts.append(f'<h2>Specification</h2><div class="card"><pre>{_text(report.specification)}</pre></div>')
    return _document(report.title, "".join(parts))


def index(entries: Sequence[Mapping[str, Any]]) -> str:
    """The list of all runs, the newest first; an entry has title, name, at, state, tuples, results and checks."""
    rows = "".join(
        f'<tr><td><a href="{_text(entry["name"])}.html">{_text(entry["title"])}</a></td><td>{_text(entry["at"])}</td>'
        f'<td class="number">{_value(entry["tuples"])}</td><td class="number">{_value(entry["results"])}</td>'
        f"<td>{_text(entry['checks'])}</td><td>{_badge(str(entry['state']))}</td></tr>"
        for entry in sorted(entries, key=lambda entry: str(entry["at"]), reverse=True)
    )
    head = "<tr><th>run</th><th>when</th><th>tuples</th><th>results</th><th>checks</th><th></th></tr>"
    body = f'<h1>Runs</h1><p class="lead">{len(entries)} replays, the newest first.</p><div class="card"><table>{head}{rows}</table></div>'
    return _document("Runs", body)


def _document(title: str, body: str) -> str:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{_text(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main>{body}</main></body></html>\n'


def _checks(outcomes: Sequence[Outcome]) -> str:
    rows = ""
    for outcome in outcomes:
        state = "passed" if outcome.passed else "failed" if outcome.severity == "critical" else "warned"
        examples = f"<br>{_text(', '.join(outcome.examples))}" if outcome.examples and not outcome.passed else ""
        rows += (
            f"<tr><td>{_badge(state)}</td><td><b>{_text(outcome.name.replace('_', ' '))}</b><br>{_text(outcome.description)}</td>"
            f"<td>{_text(outcome.told())}{examples}</td></tr>"
        )
    return f"<table>{rows}</table>"


def _worst(rows: Sequence[Mapping[str, Any]]) -> str:
    """Each value once if both sides have the same, else engine and oracle below each other."""
    names = [name for name in rows[0] if not name.endswith(("__engine", "__oracle"))]
    values = [name.removesuffix("__engine") for name in rows[0] if name.endswith("__engine") and name != "rows__engine"]
    head = "".join(f"<th>{_text(name)}</th>" for name in [*names, *values])
    body = ""
    for row in rows:
        cells = "".join(f"<td>{_value(row[name])}</td>" for name in names)
        for name in values:
            engine, oracle = row[f"{name}__engine"], row[f"{name}__oracle"]
            same = engine == oracle
            cells += f"<td>{_value(engine)}</td>" if same else f'<td class="differs">{_value(engine)}<br>{_value(oracle)}</td>'
        body += f"<tr>{cells}</tr>"
    return f"<table><tr>{head}</tr>{body}</table><p>In red: what the engine says, below it what the oracle says.</p>"


def _badge(state: str) -> str:
    return f'<span class="badge {state}">{state}</span>'


def _data(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return _text("" if value is None else str(value))
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if isinstance(value, float) else _text(str(value))


def _text(text: object) -> str:
    return html.escape(str(text))
