"""One module per technique: its settings in the Launchpad, its results assets, its picture.

Found by their files: a further technique adds one and changes none. A module has `Settings` (a Dagster config with the field
`technique`, and `spec()` that makes the plain specification), `RESULTS` (the specification of each stream's results asset) and
`picture(shown, tuples, spec)`.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType


def technique_modules() -> dict[str, ModuleType]:
    """The module of each technique.

    >>> list(technique_modules())
    ['frames', 'slicing']
    """
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if found.name != "settings")
    return {name: import_module(f"{__name__}.{name}") for name in names}
