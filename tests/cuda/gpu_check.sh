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
all=$*
while [ $# -gt 0 ]; do
  case $1 in
    --help) echo --Ofast-compile; exit ;;
    --version) echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit ;;
  esac
  if [ "$1" = -o ]; then out=$2; fi
  shift
done
echo "$all" >"$out.command"
case $SLOW,$out in
  *,*/bench_cuda_ipc.o)
    echo 'an error of the compiler'
    exit 2
    ;;
  yes,*/on_gpu.o) sleep 60 ;;
esac
case $out in
  */bench_cuda) says='| a row | 1 |
result: all is fast
result: device one_gpu packets 8192' code=0 ;;
  */training) says='a bad loss' code=3 ;;
  *) says='no more' code=0 ;;
esac
printf '#!/bin/sh\necho "%s"\nexit %s\n' "$says" $code >"$out"
chmod +x "$out"
end
cat >"$folder/bin/compute-sanitizer" <<'end'
#!/bin/sh
[ "$1 $3 $4 $5 $6" = "--tool --report-api-errors no --error-exitcode 1" ] || exit 9
shift 6
exec "$@"
end
printf '#!/bin/sh\necho "$CORES"\n' >"$folder/bin/nproc"
printf '#!/bin/sh\necho "GPU 0: $GPU"\n[ -n "$GPU" ]\n' >"$folder/bin/nvidia-smi"
printf '#!/bin/sh\nexit 1\n' >"$folder/bin/nvidia-cuda-mps-control"
chmod +x "$folder"/bin/*
PATH=$folder/bin:$PATH
export PATH

fail() {
  cat "$folder/said"
  echo "FAILED: $1"
  exit 1
}
export CORES=16 SLOW=no
code=0
GPU='' sh "$folder/tools/gpu-check" >"$folder/said" 2>&1 || code=$?
[ $code = 77 ] || fail "exit $code without a GPU"

code=0
GPU=one sh "$folder/tools/gpu-check" >"$folder/said" 2>&1 || code=$?
[ $code = 1 ] || fail "exit $code where a step fails"
says() { grep -q "$1" "$folder/said" || fail "it does not say \"$1\""; }
says '^a bad loss$'
says '^| a row | 1 |$'
says '^build on_gpu  *ok  *[0-9]* s$'
says '^an error of the compiler$'
says '^build bench_cuda_ipc  *FAILED: exit code 2 '
says '^bench_cuda_ipc  *FAILED: bench_cuda_ipc was not built'
says '^shots on parts  *ok '
says '^window, processes on parts  *not run: nvidia-cuda-mps-control did not start'
says '^training  *FAILED: exit code 3 '
says '^racecheck algorithms_on_gpu  *ok '
says '^bench_cuda_staged  *ok '
report=$folder/build/gpu/report.md
grep -q '^- Device and driver: GPU 0: one$' "$report" && grep -q '^## bench/cuda_staged.cu$' "$report" &&
  grep -q '^all is fast$' "$report" || fail "report.md lacks something"
tail -n 3 "$folder/said" >"$folder/last"
printf 'all is fast\n\ndevice one_gpu packets 8192\n' | cmp - "$folder/last" || fail "it ends with something else"
if grep -q 'result: \|No such file' "$folder/said"; then fail "what is only for the table was printed"; fi
uses() { grep -q -e "$1" "$folder/build/gpu/$2.o.command"; }
uses -O2 on_gpu || fail "on_gpu is not optimised"
if uses --Ofast-compile on_gpu; then fail "checks are not optimised on 16 cores"; fi

code=0
GPU=one CORES=2 SLOW=yes sh "$folder/tools/gpu-check" 8 >"$folder/said" 2>&1 || code=$?
[ $code = 1 ] || fail "exit $code where a program is not built in time"
says '^optimised checks  *not run: 2 cores compile them without'
says '^build on_gpu  *FAILED: not built after 5 s; try gpu-check 16 '
says '^on_gpu  *FAILED: on_gpu was not built'
says '^memcheck on_gpu  *FAILED: on_gpu was not built'
says '^algorithms_on_gpu  *ok '
uses '--Ofast-compile max' on_gpu || fail "checks are optimised on 2 cores"
if uses --Ofast-compile bench_cuda; then fail "a benchmark is not optimised"; fi

# Built without a GPU, and run without a compiler.
code=0
GPU='' sh "$folder/tools/gpu-check" build sm_90 >"$folder/said" 2>&1 || code=$?
[ $code = 1 ] || fail "exit $code where a program was not built"
says '^build parts_shots  *ok '
uses -arch=sm_90 on_gpu || fail "on_gpu is for another architecture"
code=0
GPU='' sh "$folder/tools/gpu-check" build >"$folder/said" 2>&1 || code=$?
[ $code = 2 ] || fail "exit $code without an architecture"
mv "$folder/bin/nvcc" "$folder/bin/renamed"
code=0
GPU=one sh "$folder/tools/gpu-check" run 60 >"$folder/said" 2>&1 || code=$?
mv "$folder/bin/renamed" "$folder/bin/nvcc"
says '^on_gpu  *ok '
says '^bench_cuda_ipc  *FAILED: bench_cuda_ipc was not built'
grep -q '^- Compiler: nvcc release 13.0' "$report" || fail "report.md lacks the compiler"

code=0
GPU=one sh "$folder/tools/gpu-check" soon >"$folder/said" 2>&1 || code=$?
[ $code = 2 ] || fail "exit $code for a wrong time"
says 'tools/gpu-check: "soon" is not a number of seconds'
