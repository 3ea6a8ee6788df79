# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The beginning of scripts that are called with `ranks launcher -n ranks program...`, for programs whose ranks die. Sets
# - $ranks and $launcher, and leaves `program...` as the arguments;
# - $work, a folder that is removed at the end;
# - $continues and $outlive, by which the launcher leaves other ranks alone when one has died:
#   "$launcher" $continues -n 4 $outlive program. If no option does that, the script ends with 77.
ranks=$1 launcher=$2
[ "$3 $4" = "-n $ranks" ]
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $("$launcher" --version 2>&1) in
  *"Open MPI) 4."* | *"OpenRTE) 4."*) continues=--enable-recovery ;;
  *"Open MPI) "[5-9]*) continues=--continuous ;;
  *HYDRA*) continues=-disable-auto-cleanup ;;
  *)
    echo "no option is known by which this launcher leaves other ranks alone when one has died"
    exit 77
    ;;
esac
# The launcher of MPICH ends the job when its child has died, so the child is a shell that outlives the rank, and counts how many ended.
cat >"$work/outlive" <<'END_OF_SHELL'
trap '' USR1
"$@" || echo "a rank ended with status $?"
END_OF_SHELL
outlive=
[ "$continues" != -disable-auto-cleanup ] || outlive="sh $work/outlive"
