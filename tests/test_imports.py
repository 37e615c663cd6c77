"""Who may import whom, read off the source: every import counts, wherever it stands and however it is spelled.

The table below is the rule, and the tests at the end prove that breaking it is seen. A library that is new in a package is a new
word in the table. Nothing else about the source is checked here: that is in test_repository.py.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("engines", "replay", "quality", "assets", "orchestration")

SHARED_SPECS = {"engines.spec", "engines.aggregates.spec", "engines.expressions.tree"}
SPECS = SHARED_SPECS | {"engines.*.spec"}  # all that engine and oracle share
CONTRACT = {"engines", "engines.contract", "engines.keys", "engines.spec", "engines.state"}

ENGINES = {"numba", "numpy", "pyarrow", "pydantic", "scipy"}
REPLAY = {"delta", "deltalake", "py4j", "pyarrow", "pyspark"} | {"numba", "numpy", "pandas", "psutil", "pydantic", "rich", "yaml"}
QUALITY = {"great_expectations", "polars", "pyarrow"} | {"matplotlib"}
NEVER = {"assets": {"orchestration", "tests"}, "orchestration": {"tests"}}
ONLY_IN_FUNCTIONS = {"quality": {"great_expectations"}}  # it takes seconds to import


class Tree:
    """The modules of the packages below a folder, and what each may import."""

    def __init__(self, root: Path) -> None:
        paths = [path.relative_to(root) for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
        self.root = root
        self.modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in paths}
        self.importable = self.modules.keys() | {".".join(path.parts[:n]) for path in paths for n in range(1, len(path.parts))}
        folders = {path.with_suffix("").parts[1] for path in paths if path.parts[0] == "engines"}
        self.shared = {folder for folder in folders if not (root / "engines" / folder / "engine.py").exists()}

    def violations(self) -> list[str]:
        """One sentence for each import that the table does not allow."""
        return [sentence for module in self.modules for sentence in self._violations(module)]

    def _violations(self, module: str) -> Iterator[str]:
        tree = ast.parse((self.root / self.modules[module]).read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        in_functions = {inner for function in functions for inner in ast.walk(function)}
        lazy = ONLY_IN_FUNCTIONS.get(module.partition(".")[0], set())
        for node, name in self._imports(module, tree):
            where = f"{self.modules[module]}:{node.lineno}"
            if not self._may(module, name):
                yield f"{where}: {module} may not import {name}"
            elif name.partition(".")[0] in lazy and node not in in_functions:
                yield f"{where}: {module} may import {name} only inside a function"

    def _imports(self, module: str, tree: ast.Module) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
        """What is imported; `*` stands for whatever is known only when the import runs."""
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    yield from ((node, alias.name) for alias in names)
                case ast.ImportFrom(names=names):
                    source = self._source(module, node)
                    for alias in names:
                        inner = f"{source}.{alias.name}"
                        yield node, inner if inner in self.importable else source
                case ast.Call(func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module")):
                    yield node, _text(node.args[0]) if node.args else "*"

    def _source(self, module: str, node: ast.ImportFrom) -> str:
        """The absolute name after `from`."""
        if not node.level:
            return node.module or ""
        here = module.split(".") if self.modules[module].name == "__init__.py" else module.split(".")[:-1]
        return ".".join([*here[: len(here) - node.level + 1], *([node.module] if node.module else [])])

    def _may(self, module: str, name: str) -> bool:
        package, top = module.partition(".")[0], name.partition(".")[0]
        if top in sys.stdlib_module_names:
            return True
        if package in NEVER:
            return top not in NEVER[package]
        return any(fnmatchcase(name if top in PACKAGES else top, pattern) for pattern in self._allowed(module))

    def _allowed(self, module: str) -> set[str]:
        package, *inner = module.split(".")
        if package == "replay":
            return REPLAY | CONTRACT | {"replay", "replay.*"}
        if package == "quality":
            return QUALITY | SPECS | {"quality", "quality.*"}
        if any(fnmatchcase(module, pattern) for pattern in SPECS):
            return SHARED_SPECS | {"pydantic"}
        if not inner:  # the front door, which finds every technique by its folder
            return ENGINES | {"engines.*"}
        mine = self.shared | {inner[0]}  # not the front door either: every technique is behind it
        return ENGINES | {pattern for folder in mine for pattern in (f"engines.{folder}", f"engines.{folder}.*")}


def _text(argument: ast.expr) -> str:
    match argument:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
    return "*"


def test_nobody_imports_what_the_table_does_not_allow() -> None:
    tree = Tree(ROOT)
    assert {"engines", "replay", "quality", "assets", "orchestration"} <= tree.modules.keys()
    assert tree.violations() == []


def plant(root: Path, files: dict[str, str]) -> Tree:
    """A small project: two techniques, what they share, and the given files."""
    house = {
        "engines/__init__.py": "from importlib import import_module\ndef build(name): return import_module(f'engines.{name}.engine')",
        "engines/contract.py": "import pyarrow as pa",
        "engines/spec.py": "import json\nfrom pydantic import BaseModel",
        "engines/aggregates/spec.py": "from engines.spec import Model",
        "engines/slicing/spec.py": "from engines.aggregates import spec\nfrom engines.spec import Model",
        "engines/slicing/engine.py": "import numpy.typing\nfrom engines import contract\nfrom engines.slicing.spec import Spec",
        "engines/frames/engine.py": "from engines.aggregates.spec import Sum\nfrom . import kernels",
        "engines/frames/kernels.py": "from numba import njit",
        "replay/local.py": "from engines import build, contract\nimport pyspark.sql",
        "quality/oracles/slicing.py": "import polars as pl\nfrom engines.slicing.spec import Spec",
        "quality/suites.py": "from quality import oracles\ndef suite():\n    import great_expectations as gx",
        "assets/results.py": "import dagster\nfrom engines.slicing import engine\nfrom quality.oracles import slicing\nimport replay.local",
        "orchestration/cli.py": "import assets.results, polars, typer",
    }
    for name, text in (house | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(root)


def test_a_house_in_order_has_no_violations(tmp_path: Path) -> None:
    assert plant(tmp_path, {}).violations() == []


@pytest.mark.parametrize(
    ("file", "source", "name"),
    [
        ("engines/frames/run.py", "import pyspark", "pyspark"),
        ("engines/frames/run.py", "def f():\n    from polars import col", "polars"),
        ("engines/frames/run.py", "if TYPE_CHECKING:\n    import deltalake.table", "deltalake.table"),
        ("engines/frames/run.py", "import_module('dagster')", "dagster"),
        ("engines/frames/run.py", "importlib.import_module(name)", "*"),
        ("engines/frames/run.py", "from engines import slicing", "engines.slicing"),
        ("engines/frames/run.py", "from engines.slicing.spec import Spec", "engines.slicing.spec"),
        ("engines/frames/run.py", "from ..slicing import engine", "engines.slicing.engine"),
        ("engines/frames/run.py", "from engines import build", "engines"),
        ("engines/frames/run.py", "import replay.local", "replay.local"),
        ("engines/aggregates/sums.py", "import engines.slicing.engine", "engines.slicing.engine"),
        ("engines/frames/spec.py", "import numpy as np", "numpy"),
        ("engines/frames/spec.py", "from engines.frames import kernels", "engines.frames.kernels"),
        ("engines/frames/spec.py", "from engines.slicing.spec import Spec", "engines.slicing.spec"),
        ("engines/spec.py", "from engines.contract import Engine", "engines.contract"),
        ("engines/aggregates/spec.py", "import pyarrow", "pyarrow"),
        ("engines/expressions/tree.py", "import numpy", "numpy"),
        ("replay/source.py", "import polars", "polars"),
        ("replay/source.py", "import dagster as dg", "dagster"),
        ("replay/source.py", "from engines.slicing import spec", "engines.slicing.spec"),
        ("replay/source.py", "import_module(f'engines.{name}.engine')", "engines.*.engine"),
        ("replay/source.py", "from quality import suites", "quality.suites"),
        ("quality/report.py", "import pyspark", "pyspark"),
        ("quality/report.py", "from engines import build", "engines"),
        ("quality/report.py", "from engines.slicing.engine import Engine", "engines.slicing.engine"),
        ("quality/report.py", "import engines.contract", "engines.contract"),
        ("quality/report.py", "from replay import local", "replay.local"),
        ("assets/streams.py", "from orchestration import cli", "orchestration.cli"),
        ("assets/streams.py", "import tests.comparing", "tests.comparing"),
    ],
)
def test_a_forbidden_import_is_seen(tmp_path: Path, file: str, source: str, name: str) -> None:
    (sentence,) = plant(tmp_path, {file: source}).violations()
    assert sentence.startswith(f"{file}:")
    assert sentence.endswith(f" may not import {name}")


@pytest.mark.parametrize("source", ["import great_expectations as gx", "class Suite:\n    from great_expectations import core"])
def test_great_expectations_is_imported_only_inside_functions(tmp_path: Path, source: str) -> None:
    (sentence,) = plant(tmp_path, {"quality/report.py": source}).violations()
    assert sentence.endswith("only inside a function")
