#!/usr/bin/env bash
# Ladders of the lab, side by side with other programs. Usage: measure.sh ORRERY OUTPUT
set -u
orrery=$1; out=$2; work=$(mktemp -d); mkdir -p "$out" "$work/lab"
step() { echo "== $*"; timeout 170 "$@" 2>&1; echo "   status $?, $SECONDS s"; }
{
step "$orrery" devices
step "$orrery" selftest --device cuda "primitives: "
step "$orrery" selftest --device cuda "lab: "
step "$orrery" selftest --device cuda "device: "
for name in copy banks transpose texture reduce saxpy transfer; do
  step "$orrery" ladder $name --device cuda --json "$work/lab/$name.json" --plot "$work/lab/$name.svg"
done
step "$orrery" ladder transpose -n 67108864 --device cuda --json "$work/lab/transpose-8192.json"
for n in 4096 8192; do
  step "$orrery" ladder matmul -n $n --device cuda --json "$work/lab/matmul-$n.json" --plot "$work/lab/matmul-$n.svg"
done
step "$orrery" bench primitives --device cuda --json "$work/lab/primitives.json"
step "$orrery" devices --roofline --plot "$work/lab/roofline.svg" --json "$work/lab/roofline.json"
} > "$work/log.txt"
cp "$work/log.txt" "$out/log.txt"; tar czf "$out/lab.tar.gz" -C "$work" lab
grep -A400 "== .*selftest" "$work/log.txt" | grep -i "fail\|passed\|status [1-9]\|error:" | head -40
for name in copy banks transpose; do grep -A22 "ladder $name " "$work/log.txt" | cut -c1-90; done
