# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Bad files and options are refused with a sentence and exit code 2. Called with the program and the folder of data.
set -u
. "$(dirname "$0")/../digits/refused.sh"
program=$1 good=$2/digits.csv.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

gzip -dc "$good" >"$work/plain.csv"
head -c 20000 "$good" >"$work/cut.csv.gz"
{ head -c 20000 "$good"; head -c 64 /dev/zero; tail -c +20065 "$good"; } >"$work/hole.csv.gz"
head -c 10000 "$work/plain.csv" >"$work/cut.csv"
sed '7s/,/,seven,/;7s/,[^,]*$//' "$work/plain.csv" >"$work/word.csv"
sed '9s/[^,]*$/12/' "$work/plain.csv" >"$work/label.csv"
: >"$work/empty.csv"

refused "none.csv: cannot open it: No such file or directory; give a file" --file "$work/none.csv"
refused "cut.csv.gz:621: the compressed data is damaged, here or above (unexpected end of file)" --file "$work/cut.csv.gz"
refused "the compressed data is damaged, here or above (incorrect data check)" --file "$work/hole.csv.gz"
refused "numbers where 65 belong; give a file" --file "$work/cut.csv"
refused 'word.csv:7: pixel 2 is "seven", not a number from 0 to 16' --file "$work/word.csv"
refused 'label.csv:9: the label is "12", not a number from 0 to 9' --file "$work/label.csv"
refused "empty.csv: 0 images, which is too few" --file "$work/empty.csv"
refused "cannot read it" --file "$work"
refused "--ranks" --ranks 0
refused "--stage" --stage 4
refused "--rate: not a number from 1e-06 to 10" --rate nan
refused "--hook" --hook zip
refused "--hook bf16 with --stage 2: hooks need stage 0; omit one of the two" --stage 2 --hook bf16
refused "--record with --stage 1: only stage 0 is recorded; omit one of the two" --stage 1 --record "$work/record"
export TUTTI_RANK=0 TUTTI_SIZE=2 TUTTI_JOB=refusals
refused "--ranks 3, but tutti-run started 2; omit --ranks under a launcher" --ranks 3
exit $failed
