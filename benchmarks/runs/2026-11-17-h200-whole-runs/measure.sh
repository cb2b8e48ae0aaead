#!/usr/bin/env bash
O=${ORRERY:-orrery}; OUT=${OUT:-.}; T=$(mktemp -d); cd $T; export XDG_CACHE_HOME=$T/cache
now() { date +%s%N; }
t() { local s=$(now); timeout 100 "$@" > $T/last.txt 2>&1; local rc=$?; echo "[$(( ($(now) - s) / 1000000 )) ms, rc $rc] ${*:2}" | cut -c1-160; [ $rc = 0 ] || tail -3 $T/last.txt; }
times() { python3 -c "
import json,sys; d=json.load(open('$1')); L=d['run_loop']; f=d['forces']; s=f if f else L.get('steps',0)
print('    %d steps, wall %.3f, forces %.3f, ratio %.3f, startup %.2f |'%(d['steps'],d['seconds'],s,d['seconds']/max(s,1e-9),d['startup']), {k: round(v,3) for k,v in L.items() if v>0.0005}, 'workers', {k: round(v,2) for k,v in d['workers'].items()})"; }
run() { local name=$1; shift; t $O run "$@" --quiet --out $name --timing $name.json; times $name.json; cp $name.json $OUT/ 2>/dev/null; rm -rf $name; }
NONE="--set output.image_every=0 --set output.snapshot_every=0 --set output.record_every=0"
run warm galaxy-collision --device cuda $NONE --set time.end="10 Myr"
run galaxy galaxy-collision --device cuda
run galaxy2 galaxy-collision --device cuda
run plummer-4096 plummer --device cuda --set bodies.n=4096 --set time.step=0.001 --set time.end=10 $NONE
run plummer-1m plummer --device cuda --set bodies.n=1000000 --set time.step=0.001 --set time.end=1
run plummer-1m-b plummer --device cuda --set bodies.n=1000000 --set time.step=0.001 --set time.end=1
echo "== opencl walk"
for d in cuda opencl; do for p in mixed single double; do t $O bench tree -n 1000000 --device $d --precision $p --repeats 5; grep -E "time|walk|build|error" last.txt | head -5; done; done
t $O bench tree -n 100000 --device opencl --precision mixed --repeats 5; grep -E "time|walk|build" last.txt | head -5
t $O bench tree -n 100000 --device cuda --precision mixed --repeats 5; grep -E "time|walk|build" last.txt | head -5
echo "== cpu scaling"
for th in 1 2 4 8 16; do t $O bench tree -n 1000000 --device cpu --threads $th --repeats 3; grep -E "time|build" last.txt; done
for th in 1 2 4 8 16; do t $O bench tree -n 40000 --device cpu --threads $th --repeats 20; grep -E "time|build" last.txt; done
for th in 16 1; do run galaxy-cpu-$th galaxy-collision --device cpu --threads $th --set time.end="300 Myr"; done
for th in 1 16; do t $O bench direct -n 40000 --device cpu --threads $th --repeats 3; grep -E "time" last.txt; done
lscpu | grep -E "Model name|Thread|Core|Socket|NUMA"
echo "== sanitizer"
S="compute-sanitizer --report-api-errors no"
t $S --tool memcheck $O run galaxy-collision --device cuda --quiet --out s-g --set bodies.n=9000 --set "time.end=12 Myr"; grep -E "ERROR SUMMARY" last.txt
t $S --tool racecheck $O run galaxy-collision --device cuda --quiet --out s-r --set bodies.n=4000 --set "time.end=4 Myr"; grep -E "RACECHECK" last.txt
t $S --tool initcheck $O run plummer --device cuda --quiet --out s-i --set bodies.n=4000 --set gravity.solver=tree --set "time.end=0.05"; grep -E "ERROR SUMMARY" last.txt
t $O selftest --device cuda; tail -12 last.txt
t $O selftest --device opencl tree; tail -6 last.txt
t $O selftest --device opencl bodies; tail -3 last.txt
IMG="--set output.snapshot_every=0 --set output.record_every=0"
HEAT="sine-decay --device cuda --set grid.nx=16384 --set grid.ny=16384 --set heat.precision=single --set time.step=9e-10 --set time.end=1.8e-6"
WAVE="wave-3d --device cuda --set grid.nx=512 --set grid.ny=512 --set grid.nz=512"
$O selftest --device cuda fields > st.txt 2>&1; tail -3 st.txt
run heat-warm $HEAT $NONE --set time.end=9e-9
run heat-none $HEAT $NONE
run heat-100 $HEAT $IMG --set "output.image_every=20 steps"
run wave-none $WAVE $NONE --set "time.step=0.5 ms" --set "time.end=1 s"
run wave-100 $WAVE $IMG --set "time.step=0.5 ms" --set "time.end=1 s" --set "output.image_every=20 steps"
echo "== disk"; dd if=/dev/zero of=dd.bin bs=16M count=128 conv=fsync 2>&1 | tail -1; rm dd.bin
echo "== bench run"; t $O bench run --device cuda; cat last.txt | tail -40
echo "== cpu galaxy"
for k in 1 2; do run g16-$k galaxy-collision --device cpu --threads 16; done
run g1 galaxy-collision --device cpu --threads 1
run g1-bare galaxy-collision --device cpu --threads 1 $NONE --set time.end="300 Myr"
run g16-bare galaxy-collision --device cpu --threads 16 $NONE --set time.end="300 Myr"
for th in 16 1 16 1; do t $O bench tree -n 40000 --device cpu --threads $th --repeats 40; grep -E "time|build" last.txt; done
echo "== sanitizer"
S="compute-sanitizer --report-api-errors no"
for tool in memcheck racecheck; do t $S --tool $tool $O run hot-plate --device cuda --quiet --out s-h$tool --set grid.nx=200 --set grid.ny=150 --set time.end="20 s"; grep -E "ERROR SUMMARY|RACECHECK" last.txt; t $S --tool $tool $O run wave-3d --device cuda --quiet --out s-w$tool --set "time.end=0.02 s"; grep -E "ERROR SUMMARY|RACECHECK" last.txt; done
