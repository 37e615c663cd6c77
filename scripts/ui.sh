#!/bin/sh
# Dagster's UI on this machine alone, with an instance in .dagster and the lake beside it.
set -eu
cd "$(dirname "$0")/.."
export DAGSTER_HOME="${DAGSTER_HOME:-$PWD/.dagster}"
mkdir -p "$DAGSTER_HOME"
[ -f "$DAGSTER_HOME/dagster.yaml" ] || cp dagster.yaml "$DAGSTER_HOME/"
export REPRISE_LAKE="${REPRISE_LAKE:-$PWD/lake}" REPRISE_RAW="${REPRISE_RAW:-$PWD/raw}"
# The folder of the virtual environment comes first: Dagster starts `dagster` by its name.
PATH="$PWD/.venv/bin:$PATH"
exec dagster dev -w workspace.yaml -h 127.0.0.1 -p "${PORT:-3000}" "$@"
