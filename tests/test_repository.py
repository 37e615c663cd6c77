"""The project as a set of files: documented, small, pinned, and free of the machine that it was written on.

Each rule is a function that returns what breaks it; it is applied to the project, and to a small case that breaks it. What the
code does is tested elsewhere.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
MOST_LINES = 400
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.+!]*")
MACHINE = re.compile(
    r"(?<![\w.])/(?:work|root|home|Users|farm)/"
    r"|\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|maven\.org|maven\.apache\.org|(?:debian|ubuntu|launchpad)\.(?:org|com|net)/)"
    r"|https?://[^\s/]*(?:pypi|npm|maven|artifactory|nexus|debian|ubuntu)"
)


def own_files(root: Path) -> list[Path]:
    """Every file that is in the project or would be added to it: all that .gitignore does not leave out."""
    ignored = [".git", *(line.rstrip("/") for line in (root / ".gitignore").read_text().split())]
    found: list[Path] = []
    for folder, folders, files in os.walk(root):
        own = {name for name in folders + files if not any(fnmatchcase(name, pattern) for pattern in ignored)}
        folders[:] = own & set(folders)  # os.walk goes into these only: an environment alone has fifty thousand files
        found += [Path(folder, name) for name in sorted(own & set(files))]
    return found


def own_modules(root: Path) -> list[Path]:
    return [path for path in own_files(root) if path.suffix == ".py"]


def undocumented(modules: list[Path]) -> Iterator[str]:
    for path in modules:
        text = path.read_text()
        if text.strip() and not ast.get_docstring(ast.parse(text)):
            yield f"{path}: the module has no docstring that says what lives here"


def too_long(modules: list[Path]) -> Iterator[str]:
    for path in modules:
        lines = len(path.read_text().splitlines())
        if lines > MOST_LINES:
            yield f"{path}: {lines} lines, at most {MOST_LINES} are allowed"


def without_example(modules: list[Path]) -> Iterator[str]:
    for path in modules:
        tree = ast.parse(path.read_text())
        named = [node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
        public = {name for value in named for name in ast.literal_eval(value)}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in public and ">>> " not in (ast.get_docstring(node) or ""):
                yield f"{path}:{node.lineno}: {node.name} is public and has no example"


def of_the_machine(files: list[Path]) -> Iterator[str]:
    for path in files:
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            if found := MACHINE.search(line):
                yield f"{path}:{number}: {found[0]!r} is a machine's path or a registry's host"


Rule = Callable[[list[Path]], Iterator[str]]
RULES: list[Rule] = [undocumented, too_long, without_example, of_the_machine]


@pytest.mark.parametrize("rule", RULES)
def test_every_file_keeps_the_rule(rule: Rule) -> None:
    files = own_files(ROOT) if rule is of_the_machine else own_modules(ROOT)
    assert Path(__file__) in files
    assert list(rule(files)) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (undocumented, "import json\n"),
        (too_long, "x = 1\n" * (MOST_LINES + 1)),
        (without_example, "__all__ = ['f']\ndef f():\n    '''Does it.'''\n"),
        (of_the_machine, "data = '/" + "root/data'\n"),
        (of_the_machine, "index = 'https://" + "pypi.example/simple'\n"),
        (of_the_machine, "host = 'files.python" + "hosted.org'\n"),
    ],
)
def test_breaking_a_rule_is_seen(tmp_path: Path, rule: Rule, text: str) -> None:
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "build").mkdir()
    for path in (tmp_path / "module.py", tmp_path / "build" / "module.py"):
        path.write_text(text)
    (sentence,) = rule(own_modules(tmp_path))
    assert sentence.startswith(str(tmp_path / "module.py"))


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    return {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lines}


def needed(requirements: list[str]) -> set[str]:
    """The names of all packages that these requirements bring with them, as installed here."""
    found: dict[str, set[str]] = {}
    todo = [Requirement(text) for text in requirements]
    while todo:
        requirement = todo.pop()
        name, extras = canonicalize_name(requirement.name), {"", *requirement.extras}
        if extras <= found.get(name, set()):
            continue
        found[name] = found.get(name, set()) | extras
        inner = [Requirement(text) for text in requires(name) or []]
        todo += [one for one in inner if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras)]
    return set(found)


def test_constraints_pin_every_package_that_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = project["dependencies"] + sum(project["optional-dependencies"].values(), [])
    assert needed(["pytest"]) > {"pytest", "pluggy"}  # what a package brings with it counts too
    assert sorted(needed(requirements) - pins().keys()) == []


def test_constraints_fit_the_bounds_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    bounds = project["project"]["dependencies"] + project["build-system"]["requires"]
    assert [text for text in bounds if not Requirement(text).specifier.contains(pins()[canonicalize_name(Requirement(text).name)])] == []


def test_every_package_is_distributed() -> None:
    include = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert set(include) == packages | {f"{name}.*" for name in packages}
