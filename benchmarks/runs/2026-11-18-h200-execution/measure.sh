#!/usr/bin/env bash
# Ladders of execution, ordering, atomics and components. Usage: measure.sh ORRERY OUTPUT
set -u
orrery=$1; out=$2; mkdir -p "$out"
"$orrery" selftest --device cuda
for name in arithmetic occupancy divergence tree label coulomb histogram fences atomics hybrid reduce direct; do
  "$orrery" ladder $name --device cuda --json "$out/$name.json" --plot "$out/$name.svg"
done
"$orrery" tune tree --device cuda
"$orrery" bench primitives --device cuda --json "$out/primitives.json"
