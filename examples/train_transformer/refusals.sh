# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Options that contradict each other are refused with a sentence and exit code 2. Called with the program.
set -u
. "$(dirname "$0")/../digits/refused.sh"
program=$1

refused "--features 18 is not a multiple of --heads 4" --features 18
refused "--schedule" --schedule 2f2b
refused "--rate: not a number from 1e-06 to 10" --rate -1
refused "none.csv: cannot open it" --file none.csv
refused "--data 1024 --tensor 2 --pipeline 1 take more than 1024 ranks" --data 1024
refused "--adapt with --stage 2: shards keep their buckets; omit one of the two" --stage 2 --adapt
export TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_JOB=refusals
refused "--data 2 --tensor 2 --pipeline 1 take 4 ranks, but tutti-run started 2; start as many"
exit $failed
