#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# gpu_check.sh SOURCE FOLDER: tools/gpu-check without a GPU, where nvcc is a script that writes programs which say what is
# expected of them, or fail.
set -eu
source=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder/tools" "$folder/bin"
cp "$source/tools/gpu-check" "$folder/tools"
cat >"$folder/bin/nvcc" <<'end'
#!/bin/sh
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then out=$2; fi
  shift
done
case $out in
  */bench_cuda) says='| a row | 1 |
result: all is fast
result: device packets 8192' code=0 ;;
  */ipc) says='not run: one GPU' code=0 ;;
  */training) says='a bad loss' code=3 ;;
  *) says='no more' code=0 ;;
esac
printf '#!/bin/sh\necho "%s"\nexit %s\n' "$says" $code >"$out"
chmod +x "$out"
end
cat >"$folder/bin/compute-sanitizer" <<'end'
#!/bin/sh
[ "$1 $3 $4" = "--tool --error-exitcode 1" ] || exit 9
shift 4
exec "$@"
end
printf '#!/bin/sh\necho "GPU 0: $GPU"\n[ -n "$GPU" ]\n' >"$folder/bin/nvidia-smi"
chmod +x "$folder"/bin/*
PATH=$folder/bin:$PATH
export PATH

fail() {
  cat "$folder/said"
  echo "FAILED: $1"
  exit 1
}
code=0
GPU='' sh "$folder/tools/gpu-check" >"$folder/said" 2>&1 || code=$?
[ $code = 77 ] || fail "exit $code without a GPU"

code=0
GPU=one sh "$folder/tools/gpu-check" >"$folder/said" 2>&1 || code=$?
[ $code = 1 ] || fail "exit $code where a step fails"
says() { grep -q "$1" "$folder/said" || fail "it does not say \"$1\""; }
says '^a bad loss$'
says '^| a row | 1 |$'
says '^build  *ok  *[0-9]* s$'
says '^ipc, a GPU for each rank  *not run: '
says '^training  *FAILED: exit code 3 '
says '^racecheck algorithms_on_gpu  *ok '
says '^bench_cuda_staged  *ok '
report=$folder/build/gpu/report.md
grep -q '^- Device and driver: GPU 0: one$' "$report" && grep -q '^## bench/cuda_staged.cu$' "$report" &&
  grep -q '^all is fast$' "$report" || fail "report.md lacks something"
tail -n 3 "$folder/said" >"$folder/last"
printf 'all is fast\n\ndevice packets 8192\n' | cmp - "$folder/last" || fail "it ends with something else"
if grep -q 'result: \|No such file' "$folder/said"; then fail "what is only for the table was printed"; fi
