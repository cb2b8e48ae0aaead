#!/usr/bin/env bash
O=${ORRERY:-orrery}; OUT=${OUT:-.}; T=$(mktemp -d); cd $T; export XDG_CACHE_HOME=$T/cache
now() { date +%s%N; }
t() { local s=$(now); timeout 100 "$@" > $T/last.txt 2>&1; local rc=$?; echo "[$(( ($(now) - s) / 1000000 )) ms, rc $rc] ${*:2}" | cut -c1-200; [ $rc = 0 ] || tail -3 $T/last.txt; }
times() { python3 -c "
import json,sys; d=json.load(open('$1')); L=d['run_loop']; f=d['forces']; s=f if f else L.get('steps',0)
print('    %d steps, wall %.3f, forces %.3f, ratio %.2f, startup %.2f |'%(d['steps'],d['seconds'],s,d['seconds']/max(s,1e-9),d['startup']), {k: round(v,3) for k,v in L.items() if v>0.0005}, 'workers', {k: round(v,2) for k,v in d['workers'].items()})"; }
run() { local name=$1; shift; t $O run "$@" --quiet --out $name --timing $name.json; times $name.json; cp $name.json $OUT/; rm -rf $name; }
NONE="--set output.image_every=0 --set output.snapshot_every=0 --set output.record_every=0"
run warm galaxy-collision --device cuda $NONE --set time.end="10 Myr"
run galaxy-bare galaxy-collision --device cuda $NONE
run galaxy galaxy-collision --device cuda
run galaxy2 galaxy-collision --device cuda
run plummer-4096 plummer --device cuda --set bodies.n=4096 --set time.step=0.001 --set time.end=10 $NONE
run plummer-1m plummer --device cuda --set bodies.n=1000000 --set time.step=0.001 --set time.end=1
t $O bench direct -n 40000 --device cuda --precision mixed; grep -E "40,000|time" last.txt | head -4
echo "== fields, 100 images in 2000 steps"
run heat-16384 sine-decay --device cuda --set grid.nx=16384 --set grid.ny=16384 --set heat.precision=single --set "time.step=1e-9" --set "time.end=2e-6" --set "output.image_every=20 steps" --set output.snapshot_every=0 --set output.record_every=0
run wave-512 wave-3d --device cuda --set grid.nx=512 --set grid.ny=512 --set grid.nz=512 --set "time.step=0.5 ms" --set "time.end=1 s" --set "output.image_every=20 steps" --set output.snapshot_every=0 --set output.record_every=0
echo "== cpu scaling"
for th in 1 2 4 8 16; do run galaxy-cpu-$th galaxy-collision --device cpu --threads $th --set time.end="40 Myr"; done
for th in 1 16; do run bare-cpu-$th galaxy-collision --device cpu --threads $th --set time.end="40 Myr" $NONE; done
for th in 1 16; do t $O bench tree -n 1000000 --device cpu --threads $th --repeats 3; grep -E "time|build" last.txt; done
for th in 1 16; do t $O bench tree -n 40000 --device cpu --threads $th --repeats 20; grep -E "time|build" last.txt; done
echo "== waves under the sanitizer"
S="compute-sanitizer --report-api-errors no"
for tool in racecheck initcheck memcheck; do t $S --tool $tool $O run wave-3d --device cuda --quiet --out s-$tool --set "time.end=0.006 s" $NONE; grep -E "RACECHECK|ERROR SUMMARY" last.txt; done
t $S --tool memcheck $O run galaxy-collision --device cuda --quiet --out s-g --set bodies.n=9000 --set "time.end=12 Myr"; grep -E "ERROR SUMMARY" last.txt
t $O selftest --device cuda; tail -2 last.txt
echo "== opencl"
t $O bench tree -n 100000 --device opencl --precision mixed --repeats 2
tar cf $OUT/cache.tar -C $T/cache . 2>/dev/null; ls -la $OUT | head -5
