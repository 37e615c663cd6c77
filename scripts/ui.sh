#!/bin/sh
# Dagster's UI on this machine alone, with an instance in .dagster and the lake beside it. A browser opens no file that a page
# of a server links to, so the lake's reports are served as well. PORT and REPORTS_PORT choose other ports.
set -eu
cd "$(dirname "$0")/.."
DAGSTER_HOME="${DAGSTER_HOME:-$PWD/.dagster}"
mkdir -p "$DAGSTER_HOME"
DAGSTER_HOME="$(cd "$DAGSTER_HOME" && pwd)" # Dagster wants it absolute
export DAGSTER_HOME
[ -f "$DAGSTER_HOME/dagster.yaml" ] || cp orchestration/dagster.yaml "$DAGSTER_HOME/"
export REPRISE_LAKE="${REPRISE_LAKE:-$PWD/lake}" REPRISE_RAW="${REPRISE_RAW:-$PWD/raw}"
# The folder of the virtual environment comes first: Dagster starts `dagster` by its name.
PATH="$PWD/.venv/bin:$PATH"
port="${PORT:-3000}" reports_port="${REPORTS_PORT:-3001}"

serve_reports() {
  if ! python -c "import socket; socket.create_server(('127.0.0.1', $reports_port)).close()" 2>/dev/null; then
    echo "ui: port $reports_port is taken, so no report can be opened; 'make ui REPORTS_PORT=...' takes another port." >&2
    return
  fi
  export REPRISE_REPORTS="http://127.0.0.1:$reports_port"
  mkdir -p "$REPRISE_LAKE/reports"
  # It ends with this process, however that ends.
  setpriv --pdeathsig TERM python -m http.server --bind 127.0.0.1 --directory "$REPRISE_LAKE/reports" "$reports_port" >/dev/null 2>&1 &
  echo "ui: reports of runs   http://127.0.0.1:$reports_port" >&2
}

case "$REPRISE_LAKE" in
  *://*) ;; # an object store serves its own files: REPRISE_REPORTS is where
  *) [ -n "${REPRISE_REPORTS:-}" ] || serve_reports ;;
esac
echo "ui: the asset graph   http://127.0.0.1:$port/asset-groups   (in some seconds; Ctrl-C ends it)" >&2
# A shell starts what runs in the background with SIGINT ignored, and Dagster then ignores SIGTERM too.
exec env --default-signal=INT python -W ignore::FutureWarning -m dagster dev -w workspace.yaml -h 127.0.0.1 -p "$port" "$@"
