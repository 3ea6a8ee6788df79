# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sourced by the scripts of this folder: finds out which packages are missing, and installs them where there is apt-get.

# phase sentence...: prints what the script does next, and the minutes and seconds since it started.
started=$(date +%s)
phase() {
  elapsed=$(($(date +%s) - started))
  printf '\n== %d:%02d  %s\n' $((elapsed / 60)) $((elapsed % 60)) "$*"
}

# show_time command...: runs a command, and prints the time every ten seconds until it ends. A background process ignores
# Ctrl-C, so the script ends it.
clock=
trap 'kill $clock 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
show_time() {
  (while sleep 10 >/dev/null 2>&1; do phase "still running"; done) &
  clock=$!
  status=0
  "$@" || status=$?
  kill $clock
  clock=
  return $status
}

# have probe: whether something is installed. A probe is `command:<program>`, `header:<path>`, `python:<module>` or
# `compiler:<command>` or `sanitizers:<compiler>`.
have() {
  case $1 in
    command:*) command -v "${1#command:}" >/dev/null 2>&1 ;;
    header:*) echo "#include <${1#header:}>" | c++ -x c++ -E - >/dev/null 2>&1 ;;
    python:*) python_with "${1#python:}" >/dev/null ;;
    compiler:*) echo "#include <vector>" | "${1#*:}" -x c++ -fsyntax-only - >/dev/null 2>&1 ;;
    sanitizers:*) echo "int main() {}" | "${1#*:}" -fsanitize=address -x c++ - -o /dev/null 2>/dev/null ;;
  esac
}

# Prints the Python that has this module: the first one in PATH may not be the system's own.
python_with() {
  for python in python3 /usr/bin/python3; do
    if "$python" -c "import $1" >/dev/null 2>&1; then
      echo "$python"
      return 0
    fi
  done
  return 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get update -q && as_root apt-get install -q -y --no-install-recommends "$@"
}

# need probe=package...: installs the packages (Debian's names) whose probes fail. Ends the script with a sentence where that is
# not possible.
need() {
  missing=
  for pair in "$@"; do
    have "${pair%%=*}" || missing="$missing ${pair#*=}"
  done
  if [ -z "$missing" ]; then return 0; fi

  if ! command -v apt-get >/dev/null 2>&1; then
    for manager in dnf pacman zypper brew; do
      if command -v $manager >/dev/null 2>&1; then
        echo "These packages are missing (under their Debian names):$missing" >&2
        echo "This script installs packages with apt-get only. Please install them with $manager, then run it again." >&2
        exit 1
      fi
    done
    echo "These packages are missing (under their Debian names):$missing" >&2
    echo "Please install them, then run this script again." >&2
    exit 1
  fi
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1; then
    echo "These packages are missing:$missing. Please run as root: apt-get install$missing" >&2
    exit 1
  fi
  phase "installing$missing"
  apt_install $missing  # unquoted: one argument for each package
  for pair in "$@"; do
    if ! have "${pair%%=*}"; then
      echo "The package ${pair#*=} is installed, but ${pair%%=*} is still missing." >&2
      exit 1
    fi
  done
}

# want probe=package: installs the package if it can do so without asking. Returns whether it is there.
want() {
  if have "${1%%=*}"; then return 0; fi
  command -v apt-get >/dev/null 2>&1 || return 1
  [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null || return 1
  apt-cache show "${1#*=}" >/dev/null 2>&1 || return 1
  phase "installing ${1#*=}"
  apt_install "${1#*=}" && have "${1%%=*}"
}

processors() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }
