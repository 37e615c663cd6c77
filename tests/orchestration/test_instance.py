"""The folder of the instance: as the environment names it, and made ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.instance import SETTINGS, instance


@pytest.mark.parametrize(("given", "folder"), [(None, ".dagster"), ("", ".dagster"), ("kept/here", "kept/here"), ("~/runs", "runs")])
def test_the_folder_of_the_instance_may_be_relative_or_not_be_given(
    given: str | None, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster itself wants it absolute, and takes a name that is empty for none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DAGSTER_HOME", "to be forgotten behind the test")
    if given is None:
        monkeypatch.delenv("DAGSTER_HOME")
    else:
        monkeypatch.setenv("DAGSTER_HOME", given)
    with instance() as found:
        assert found.root_directory == str(tmp_path / folder)
    assert (tmp_path / folder / "dagster.yaml").read_text() == SETTINGS.read_text()
    assert not (tmp_path / "dagster.yaml").exists()
