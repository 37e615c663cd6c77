"""The asset of the reports: the index of all pages.

Every run that replays or checks writes its own page, and the index with it (`reporting.py`). This asset is where the graph leads to
them, and writes the index anew after pages were removed, or two runs have written it at once.
"""

import dagster as dg

from assets.metadata import preview
from assets.reporting import INDEX, report_link, write_index
from assets.results import LAUNCHED, results_key
from assets.streams import OWNERS
from assets.techniques import technique_modules
from assets.workplace import Workplace

REPORTS = dg.AssetKey(["reports", "index"])


def reports_asset() -> dg.AssetsDefinition:
    """The index of what results assets, the launched replay and their checks have told."""
    told = [results_key(technique, stream) for technique, module in technique_modules().items() for stream in module.RESULTS]

    @dg.asset(
        key=REPORTS,
        deps=[*told, LAUNCHED],
        group_name="reports",
        description="The index of the reports of all runs. Every run brings it up to date; materialize it if pages were removed.",
        owners=OWNERS,
        kinds={"html"},
        code_version="1",
    )
    def reports(workplace: Workplace) -> dg.MaterializeResult:  # type: ignore[type-arg]
        from replay.lake import LakeError

        try:
            pages = write_index(workplace)
        except LakeError as problem:
            raise dg.Failure(description=str(problem), allow_retries=False) from None
        metadata = {
            "report": report_link(workplace, INDEX),
            "pages": len(pages),
            "failed": sum(page["state"] == "failed" for page in pages),
            "preview": preview(pages, ["title", "at", "state", "checks", "tuples", "results"]),
        }
        return dg.MaterializeResult(metadata=metadata)

    return reports
