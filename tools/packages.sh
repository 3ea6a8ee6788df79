# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sourced by demo, test and bench: looks for what a build needs, and installs what is missing where apt-get does that.

# $1 is `command:<program>`, `header:<path>` or `python:<module>`.
have() {
  case $1 in
    command:*) command -v "${1#command:}" >/dev/null 2>&1 ;;
    header:*) echo "#include <${1#header:}>" | c++ -x c++ -E - >/dev/null 2>&1 ;;
    python:*) python_with "${1#python:}" >/dev/null ;;
  esac
}

# The Python that has this module: another may stand before the system's own.
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

# need probe=package...: after it every probe answers, or the script has ended with a sentence that says what is missing.
# The packages have Debian's names.
need() {
  missing=
  for pair in "$@"; do
    have "${pair%%=*}" || missing="$missing ${pair#*=}"
  done
  if [ -z "$missing" ]; then return 0; fi

  if ! command -v apt-get >/dev/null 2>&1; then
    for manager in dnf pacman zypper brew; do
      if command -v $manager >/dev/null 2>&1; then
        echo "These are missing:$missing (Debian's names)." >&2
        echo "Please install what $manager calls them, then run this again; only apt-get is driven from here." >&2
        exit 1
      fi
    done
    echo "These are missing:$missing (Debian's names). Please install them, then run this again." >&2
    exit 1
  fi
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1; then
    echo "These are missing:$missing. Please run as root: apt-get install$missing" >&2
    exit 1
  fi
  echo "== installing:$missing"
  # Without quotes: one argument a package.
  apt_install $missing
  for pair in "$@"; do
    if ! have "${pair%%=*}"; then
      echo "${pair#*=} is installed, and still there is no ${pair%%=*}" >&2
      exit 1
    fi
  done
}

processors() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }
