"""What Dagster loads: all of it is valid, quick to load, and the graph is the one that is written down."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import dagster as dg
import pytest
import yaml
from pydantic import BaseModel

from assets.results import LAUNCHED, results_key
from assets.streams import StreamConfig
from assets.techniques import technique_modules
from assets.workplace import Workplace
from engines import build, techniques
from orchestration import building
from orchestration.building import build_defs
from orchestration.jobs import OldRuns
from replay.streams import declaration

ROOT = Path(__file__).parents[2]
GRAPH = Path(__file__).parent / "asset_graph.json"
NONE_OF_ONES_OWN = str(Path(__file__).parent)
"""A folder without declarations: where these tests are run there may be some."""


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    return build_defs(Workplace(lake="nowhere/lake", raw="nowhere/raw", declarations=NONE_OF_ONES_OWN))


def graph(defs: dg.Definitions) -> dict[str, Any]:
    """Keys, what they need, groups, partitions, checks; jobs, schedules and sensors by name."""
    found = defs.resolve_asset_graph()
    assets = {}
    for key in sorted(found.get_all_asset_keys()):
        node = found.get(key)
        assets[key.to_user_string()] = {
            "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
            "group": node.group_name,
            "partitions": getattr(node.partitions_def, "name", None),
            "checks": sorted(check.name for check in found.asset_check_keys if check.asset_key == key),
        }
    return {
        "assets": assets,
        "jobs": sorted(job.name for job in defs.jobs or []),
        "schedules": sorted(schedule.name for schedule in defs.schedules or []),
        "sensors": sorted(sensor.name for sensor in defs.sensors or []),
    }


def test_the_graph_is_the_one_that_is_written_down(defs: dg.Definitions) -> None:
    """A difference is meant, or it is a mistake: `python -m tests.orchestration.test_definitions` writes it anew."""
    assert graph(defs) == json.loads(GRAPH.read_text())


def test_every_asset_is_described_owned_and_versioned(defs: dg.Definitions) -> None:
    found = defs.resolve_asset_graph()
    for key in found.get_all_asset_keys():
        node = found.get(key)
        assert node.description
        assert node.owners
        assert node.kinds
        assert node.code_version


def test_days_of_results_are_backfilled_in_one_run_and_written_by_one_run_at_a_time(defs: dg.Definitions) -> None:
    found = defs.resolve_asset_graph()
    for technique, module in technique_modules().items():
        for stream in module.RESULTS:
            node = found.get(results_key(technique, stream))
            assert node.backfill_policy == dg.BackfillPolicy.single_run()
            assert node.pools == {f"{technique}__{stream}"}


def test_the_code_location_is_valid_and_loads_without_spark() -> None:
    told = (
        "import time, sys; begun = time.process_time(); import orchestration.definitions as d; used = time.process_time() - begun;"
        "import dagster as dg; dg.Definitions.validate_loadable(d.defs);"
        "print(used < 3, 'pyspark' in sys.modules, 'great_expectations' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["True", "False", "False", "False"]


def test_a_declaration_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them is most of the time that a code location with many streams takes to load."""
    read: list[Path] = []
    real = building.load
    for module in (building, declaration):
        monkeypatch.setattr(module, "load", lambda path: read.append(path) or real(path))  # type: ignore[func-returns-value]
    build_defs(Workplace(lake="nowhere/lake", raw="nowhere/raw", declarations=NONE_OF_ONES_OWN))
    assert read == list(declaration.declared().values())


@pytest.mark.slow
def test_dagster_validates_the_workspace(tmp_path: Path) -> None:
    import os

    command = [str(Path(sys.executable).parent / "dagster"), "definitions", "validate", "-w", "workspace.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "DAGSTER_HOME": str(tmp_path)}, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("path", sorted((ROOT / "run_configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_profile_is_valid_and_names_a_specification_that_can_be_built(path: Path, defs: dg.Definitions) -> None:
    content = yaml.safe_load(path.read_text())
    assert dg.validate_run_config(defs.resolve_job_def("replay"), content)
    config = content["ops"]["experiments__replay"]["config"]
    ((technique, settings),) = config["technique"].items()
    module = technique_modules()[technique]
    build(module.Settings(**settings).spec())
    assert path.read_text().startswith("# ")


def test_every_results_asset_has_a_profile_that_says_the_same() -> None:
    """Whoever begins with a profile begins with what the asset does."""
    wanted = {
        f"{technique}_on_{stream}": spec for technique, module in technique_modules().items() for stream, spec in module.RESULTS.items()
    }
    profiles = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / "run_configs").glob("*.yaml")}
    assert wanted.keys() <= profiles.keys()
    for name, spec in wanted.items():
        config = profiles[name]["ops"]["experiments__replay"]["config"]
        settings = technique_modules()[spec["technique"]].Settings(**config["technique"][spec["technique"]])
        assert name.endswith(f"_on_{config['stream']}")
        assert build(settings.spec()).spec == build(spec).spec


def test_the_defaults_of_the_launchpad_work(defs: dg.Definitions) -> None:
    job = defs.resolve_job_def("replay")
    assert dg.validate_run_config(job, {})
    for technique, module in technique_modules().items():
        assert dg.validate_run_config(job, {"ops": {"experiments__replay": {"config": {"technique": {technique: {}}}}}})
        assert set(module.RESULTS) <= set(_streams())


def test_the_job_quality_runs_every_check_but_those_of_what_is_launched_and_computes_nothing(defs: dg.Definitions) -> None:
    layer = defs.resolve_job_def("quality").asset_layer
    assert not layer.selected_asset_keys
    found = {key for part in layer.data for key in part.assets_def.check_keys}
    assert found == {key for key in defs.resolve_asset_graph().asset_check_keys if key.asset_key != LAUNCHED}


def given(config: Any) -> dict[str, Any]:
    return {"ops": {"experiments__replay": {"config": config}}}


def settings(model: type[BaseModel], *, inside: str = "") -> set[str]:
    """The settings of a model by the names that a person writes, with those of the models inside it."""
    found = set()
    for name, field in model.model_fields.items():
        path = f"{inside}{field.alias or name}"
        found.add(path)
        parts = [part for part in _parts(field.annotation) if isinstance(part, type) and issubclass(part, BaseModel)]
        for part in parts:
            found |= settings(part, inside=f"{path}.")
    return found


def _parts(annotation: Any) -> list[Any]:
    """A type, and the types that it is made of."""
    return [annotation, *(part for inner in get_args(annotation) for part in _parts(inner))]


def undescribed(model: type[BaseModel]) -> Iterator[str]:
    """The settings of a model, and of the models inside it, that tell nothing of themselves; a name to choose by needs no words."""
    for name, field in model.model_fields.items():
        if not field.description and get_origin(field.annotation) is not Literal:
            yield f"{model.__name__}.{name}"
        for part in _parts(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from undescribed(part)


@pytest.mark.parametrize("model", [*(module.Settings for module in technique_modules().values()), Workplace, StreamConfig, OldRuns])
def test_every_setting_of_the_launchpad_is_described(model: type[BaseModel]) -> None:
    assert list(undescribed(model)) == []


@pytest.mark.parametrize("technique", techniques())
def test_the_launchpad_offers_every_setting_of_a_technique(technique: str) -> None:
    """The frame is not a level of its own in the Launchpad: it has one kind, whose settings stand beside the others."""
    wanted = {name.removeprefix("frame.") for name in settings(import_module(f"engines.{technique}.spec").Spec)} - {"frame"}
    offered = settings(technique_modules()[technique].Settings) | ({"kind"} if technique == "frames" else set())
    assert offered == wanted


@pytest.mark.parametrize(
    "config",
    [
        {"technique": {"frames": {"unknown": "perhaps"}}},
        {"technique": {"frames": {"aggregates": [{"kind": "median", "column": "speed"}]}}},
        {"technique": {"slicing": {"algorithm": "magic"}}},
    ],
)
def test_what_can_be_chosen_is_known_to_the_launchpad(config: Any, defs: dg.Definitions) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match="not in enum type"):
        dg.validate_run_config(defs.resolve_job_def("replay"), given(config))


def test_every_setting_of_the_launchpad_reaches_the_specification(defs: dg.Definitions) -> None:
    frames = technique_modules()["frames"].Settings(
        unknown="break", key="status", aggregates=[{"kind": "max", "column": "v", "as": "peak"}]
    )
    assert frames.spec()["frame"]["unknown"] == "break"
    assert (frames.spec()["key"], frames.spec()["aggregates"]) == ("status", [{"kind": "max", "column": "v", "as": "peak"}])
    query = {"name": "q", "window": {"tumbling": {"length": "1m"}}, "aggregates": [{"kind": "count"}]}
    slicing = technique_modules()["slicing"].Settings(algorithm="lazy_slicing", queries=[query])
    assert slicing.spec()["algorithm"] == "lazy_slicing"
    assert [build(one.spec()).spec.technique for one in (frames, slicing)] == ["frames", "slicing"]


def _streams() -> list[str]:
    from replay.streams.declaration import declared

    return list(declared())


if __name__ == "__main__":
    made = build_defs(Workplace(lake="nowhere/lake", raw="nowhere/raw", declarations=NONE_OF_ONES_OWN))
    GRAPH.write_text(json.dumps(graph(made), indent=2) + "\n")
