#!/bin/bash
# Whole runs and benchmarks of Lennard-Jones fluids: measure.sh ORRERY
set -u
o=$(realpath "$1"); f=$(mktemp -d); cd "$f"; export ORRERY_CACHE_DIR=$f/cache
quiet="--set output.snapshot_every=0 --set output.image_every=0 --set image.size=64 --set checkpoint.every=0"
echo "== selftest"; $o selftest lj --device cuda 2>&1 | tail -4; $o selftest lj --device opencl 2>&1 | tail -4
echo "== bench lj"; timeout 150 $o bench lj --device cuda --no-tuned 2>&1 | tail -14
echo "== whole runs, thermo every 100 steps"
run() { # name cells_x cells_y cells_z end
  for k in 1 2; do
  $o run lj-melt --device cuda --no-tuned --out $1 --force $quiet --set output.record_every="100 steps" --set particles.cells=$2 --set particles.cells_y=$3 --set particles.cells_z=$4 --set time.end=$5 --timing $1.json 2>&1 | grep -E 'particles,|^time |^steps |^table|^before'
  done; rm -rf $1; }
run n4096 8 8 16 1500
run n65536 16 32 32 300
run n1M 64 64 64 50
timeout 100 $o run lj-melt --device cuda --no-tuned --out n16M --force $quiet --set output.record_every="100 steps" --set particles.cells=128 --set particles.cells_y=128 --set particles.cells_z=256 --set time.end=2.5 2>&1 | grep -E 'particles,|^time |^steps |^table|^before|error'; rm -rf n16M
echo "== lj-melt preset as it is, cuda and 16 cores"
$o run lj-melt --device cuda --out melt-gpu 2>&1 | grep -E 'particles,|^time |^steps |^table|^images|^output wait'
$o run lj-melt --device cpu --out melt-cpu 2>&1 | grep -E 'particles,|^time |^steps |^table'
$o compare melt-gpu melt-cpu 2>&1 | tail -1
echo "== devices and CPU give the same bits"
for p in "argon time.end=2 thermostat.until=1" "kob-andersen time.end=1" "lj-2d time.end=2" "droplet time.end=1"; do
  set -- $p; s=""; for k in "${@:2}"; do s="$s --set $k"; done
  for d in cpu cuda opencl; do $o run $1 --quiet --device $d --out $1-$d $s 2>&1 | tail -1; done
  for d in cuda opencl; do echo "$1 $d: $($o compare $1-cpu $1-$d 2>&1 | tail -1)"; done
done
echo "== sanitizer"
for m in none langevin rescaling; do for t in memcheck racecheck; do
 echo "$m $t: $(timeout 60 compute-sanitizer --tool $t --report-api-errors no $o run lj-2d --quiet --device cuda --out s-$m-$t --set particles.cells=24 --set thermostat.method=$m --set time.end=0.1 $quiet 2>&1 | tail -1)"
done; done
echo "== ladder"; timeout 100 $o ladder lj --device cuda 2>&1 | tail -45
