#!/usr/bin/env bash
# Ladders of ordering, atomics and components. Usage: measure.sh ORRERY OUTPUT
set -u
orrery=$1; out=$2; mkdir -p "$out"
"$orrery" selftest --device cuda
for name in label coulomb histogram fences atomics hybrid direct; do
  "$orrery" ladder $name --device cuda --json "$out/$name.json" --plot "$out/$name.svg"
done
"$orrery" bench primitives --device cuda --json "$out/primitives.json"
