# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Read by other scripts, for which $launcher is that of an MPI and $work a folder: sets $continues and $outlive, by which it leaves other
# ranks alone when one has died: "$launcher" $continues -n 4 $outlive program. If no option does that, the script ends with 77.
case $("$launcher" --version 2>&1) in
  *"Open MPI) 4."* | *"OpenRTE) 4."*) continues=--enable-recovery ;;
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
[ "$continues" = --enable-recovery ] || outlive="sh $work/outlive"
