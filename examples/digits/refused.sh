# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# For the scripts refusals.sh, which set $program before they call it, and end with `exit $failed`.
failed=0

# refused <text that must be printed> <argument...>
refused() {
  expected=$1
  shift
  said=$("$program" "$@" 2>&1)
  code=$?
  case $said in
    *"$expected"*) [ $code -eq 2 ] && return ;;
  esac
  printf 'expected exit code 2 and "%s", got %s and\n%s\n' "$expected" $code "$said"
  failed=1
}
