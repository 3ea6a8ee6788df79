# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# With every hook the network learns as well as without (train_digits checks its loss), and what --record writes is complete. Called with
# the program.
set -u
failed=0
for hook in bf16 half float8 top_k eight_bit one_bit power_sgd; do
  said=$("$1" --ranks 2 --hidden 64 --rate 0.02 --hook $hook 2>&1) || {
    printf '%s\n%s\n' $hook "$said"
    failed=1
  }
done
folder=$(mktemp -d)
said=$("$1" --ranks 2 --hidden 64 --record "$folder" 2>&1) && [ -s "$folder/step.csv" ] || {
  printf 'record\n%s\n' "$said"
  failed=1
}
rm -r "$folder"
exit $failed
