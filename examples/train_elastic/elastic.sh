# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Under tutti-run --elastic a lost rank is replaced, and all have the weights of one process. Called with the program, the folder
# of data, and tutti-run.
set -u
[ $# -eq 3 ] || exit 77
failed=0

# heard <member that is killed> <text that must be said>...
heard() {
  member=$1
  shift
  said=$("$launcher" --elastic 2:4 "$program" --kill "$member" --at 20 --steps 120 --pause 10 2>&1)
  code=$?
  for text; do
    case $said in
      *"$text"*) ;;
      *) code="$code, without \"$text\"" ;;
    esac
  done
  [ "$code" = 0 ] && return
  printf 'member %s: exit code %s, and\n%s\n' "$member" "$code" "$said"
  failed=1
}

program=$1 launcher=$3
for member in 0 2; do
  heard $member "member $member kills itself in step 20" "healthy -> failed, after step 19: " "failed -> recovering" \
    "recovering -> healthy" "4 ranks have completed 120 steps" "one process alone has the same weights, bit for bit"
done
said=$("$program" --ranks 1 --kill 0 --at 2 --steps 4 2>&1)  # nobody is left to complete the training
[ $? -eq 1 ] || { printf 'expected exit code 1, and\n%s\n' "$said"; failed=1; }
exit $failed
