#!/usr/bin/env bash
# Sets up what Reprise needs on Debian or Ubuntu with Python 3.11: the pinned packages in .venv, Java, Delta's jars.
# With the argument `browser` also Chromium, which the test of the UI drives and nothing else needs.
# Each step does only what is missing. A stamp remembers what was set up for which files, so that the next time is
# quick and needs no network. Nothing here may name a registry or a path of this machine: pip, apt and Ivy know theirs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly stamp=.venv/.reprise-setup
readonly java_at_least=17
readonly java_packages=(openjdk-17-jre-headless openjdk-21-jre-headless openjdk-25-jre-headless)

say() { printf 'setup: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

# quietly COMMAND...: keeps what it says on stderr to itself, unless it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" 2>"$log" || status=$?
  ((status == 0)) || tail -n 20 "$log" >&2
  rm -f "$log"
  return "$status"
}

# The stamp's first line: what was set up, for which files, where. A folder that was copied or moved is set up again,
# because the environment holds absolute paths.
key() { { cat constraints.txt pyproject.toml scripts/setup.sh scripts/first_start.py; echo "$PWD ${JAVA_HOME:-}"; } | sha256sum; }

# Whether the stamp fits, and the files that its other lines name, outside of this folder, are still there.
is_set_up() {
  local found files file
  [[ -x .venv/bin/python && -f $stamp ]] || return 1
  { read -r found && mapfile -t files; } <"$stamp"
  [[ $found == "$(key)" ]] || return 1
  for file in "${files[@]}"; do [[ -e $file ]] || return 1; done
}

# apt_install THING PACKAGE...: the first of the packages that this release has.
apt_install() {
  local thing=$1 package as_root=()
  shift
  command -v apt-get >/dev/null || fail "$thing is missing, and there is no apt-get here: please install it and run this again."
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "$thing is missing: please run 'apt-get install $1' as root, then this again."
    as_root=(sudo)
  fi
  say "installing $thing with apt-get"
  quietly "${as_root[@]}" apt-get update -qq >/dev/null || say "the package lists could not be renewed; trying with those that are here"
  for package in "$@"; do
    [[ -n $(apt-cache show "$package" 2>/dev/null) ]] || continue
    quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null ||
      fail "$thing could not be installed: 'apt-get install $package' failed; please install it and run this again."
    return
  done
  fail "$thing could not be installed: this system's package lists have none of $*; please install it and run this again."
}

find_python() {
  local name
  for name in python3.11 python3; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  fail "Python 3.11 or newer is needed, and neither python3.11 nor python3 is one: please install it and run this again."
}

make_environment() {
  local python
  .venv/bin/python -m pip --version >/dev/null 2>&1 && return
  python=$(find_python)
  # Debian ships Python without the part that puts pip into an environment.
  "$python" -c 'import ensurepip' 2>/dev/null ||
    apt_install "Python's venv" "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" python3-venv
  say "making .venv with $("$python" --version)"
  quietly "$python" -m venv --clear .venv || fail "'$python -m venv .venv' failed, as told above."
}

install_packages() {
  local pip=(.venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt)
  say "installing the packages of constraints.txt into .venv: some minutes the first time"
  # Builds (PySpark's, ours) take the pinned setuptools, not whichever is newest, and need no network once it is here.
  { "${pip[@]}" setuptools && "${pip[@]}" --no-build-isolation --use-pep517 --editable '.[bench,dev]'; } ||
    fail "pip could not install the packages, as told above; is there a network?"
}

# The java that Spark would start.
find_java() { if [[ -n ${JAVA_HOME:-} ]]; then echo "$JAVA_HOME/bin/java"; else command -v java; fi; }

java_is_new_enough() {
  local java version
  java=$(find_java) || return 1
  version=$("$java" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p') || return 1
  ((${version:-0} >= java_at_least))
}

install_java() {
  java_is_new_enough && return
  [[ -z ${JAVA_HOME:-} ]] || fail "JAVA_HOME is $JAVA_HOME, which is not Java $java_at_least or newer: please change or unset it."
  apt_install "Java $java_at_least" "${java_packages[@]}"
  java_is_new_enough || fail "the java on the PATH is still older than $java_at_least: please set JAVA_HOME to a newer one."
}

# Prints where the jars are.
fetch_jars() {
  say "starting Spark once: it fetches Delta's jars (13 MB) and is made to start faster from then on"
  quietly .venv/bin/python scripts/first_start.py ||
    fail "Spark could not start with Delta's jars, as told above; is there a network?"
}

# A browser that runs. Chromium as a snap sees no folder that a test makes for it, so that one does not count; where there is no
# other, Playwright has a build of its own.
find_browser() {
  local name path
  for name in google-chrome chromium; do
    path=$(command -v "$name") && [[ $(realpath "$path") != */snap ]] && "$path" --version >/dev/null 2>&1 && return
  done
  path=$(.venv/bin/python -c 'from playwright.sync_api import sync_playwright as p
with p() as found: print(found.chromium.executable_path)') && [[ -x $path ]]
}

install_browser() {
  find_browser && return
  if [[ $(. /etc/os-release 2>/dev/null && echo "${ID:-}") == ubuntu ]]; then
    say "installing Playwright's Chromium: Ubuntu has only a snap of it"
    .venv/bin/python -m playwright install --with-deps chromium ||
      fail "Playwright's Chromium could not be installed, as told above: please install Google Chrome (google-chrome) and run this again."
  else
    apt_install "Chromium" chromium
  fi
  find_browser || fail "a browser was installed, but it does not start: please see why and run this again."
}

if ! is_set_up; then
  make_environment
  install_java
  install_packages
  jars=$(fetch_jars)
  {
    key
    realpath "$(find_java)"
    echo "$jars"
  } >"$stamp"
  say "done"
fi
# No stamp: whether there is a browser is seen at once, and one that was removed is missed.
[[ ${1:-} != browser ]] || install_browser
