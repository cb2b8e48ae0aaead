#!/bin/bash
# Checks all devices of a machine with the program alone, for machines without cargo.
#
#   check-device.sh [ORRERY [DEVICE...]]     such as: check-device.sh ./orrery cuda opencl:0
#
# Without a device, all devices of `orrery devices` are checked. For each of them:
#   - the self-test.
#   - presets of heat and waves in both precisions. A run on the device must have the snapshots and
#     seismograms of the CPU, byte for byte, so the results of README.md hold there too. sine-decay
#     must follow the solution of its scheme.
#   - fluids in every ensemble: tables and trajectories of the CPU, to the bit.
#   - gravity with the direct sum and the tree in every precision: two runs have the same bits, and a
#     direct sum in `double` on the CPU has the same positions up to the errors of the method.
# The last lines are a table of all devices. The exit status is 1 if a check of any device failed.
set -euo pipefail
orrery=$(realpath "${1:-orrery}")
shift || true
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# Runs a preset on a device, or on the CPU if that was not done yet. Arguments: preset, device, name of
# the run folder, settings.
run() {
    local preset=$1 device=$2 out=$3
    shift 3
    if [ ! -e "$out" ]; then
        local settings=()
        for setting in "$@"; do settings+=(--set "$setting"); done
        "$orrery" run "$preset" --quiet --device "$device" --out "$out" --json "$out.json" "${settings[@]}"
    fi
}

check_heat() {
    local device=$1 preset end precision
    for case in "sine-decay time.end=0.01" "hot-plate time.end=2" "chip time.end=0.02"; do
        read -r preset end <<<"$case"
        for precision in double single; do
            for target in cpu "$device"; do
                run "$preset" "$target" "$preset-$precision-$target" "$end" "heat.precision=$precision"
            done
            diff -r "$preset-$precision-cpu/snapshots" "$preset-$precision-$device/snapshots"
            echo "$preset, $precision: the snapshots equal those of the CPU"
        done
    done
    # Rounding errors of 2916 steps: at most 20 x 2^-53 and 20 x 2^-24 each.
    local limit bound error
    for limit in "double 6.5e-12" "single 3.5e-3"; do
        read -r precision bound <<<"$limit"
        error=$(grep -o '"exact discrete": *[-+.0-9e]*' "sine-decay-$precision-$device.json" | sed 's/.*: *//')
        awk -v error="$error" -v bound="$bound" 'BEGIN { exit !(error + 0 < bound + 0) }'
        echo "sine-decay, $precision: $error from the solution of the scheme, bound $bound"
    done
}

check_waves() {
    local device=$1 preset end precision
    for case in "two-layer-shot time.end=0.4" "wave-3d time.end=0.2" "ripple-tank time.end=0.5" "salt-dome time.end=0.3"; do
        read -r preset end <<<"$case"
        for precision in double single; do
            for target in cpu "$device"; do
                run "$preset" "$target" "$preset-$precision-$target" "$end" "wave.precision=$precision"
            done
            diff -r "$preset-$precision-cpu/snapshots" "$preset-$precision-$device/snapshots"
            if [ -e "$preset-$precision-cpu/seismograms.npy" ]; then
                cmp "$preset-$precision-cpu/seismograms.npy" "$preset-$precision-$device/seismograms.npy"
            fi
            echo "$preset, $precision: snapshots and seismograms equal those of the CPU"
        done
    done
}

check_fluids() {
    local device=$1 preset end method
    for case in "lj-melt time.end=0.5" "argon time.end=22" "droplet time.end=2" "lj-2d time.end=2" "kob-andersen time.end=2"; do
        read -r preset end <<<"$case"
        for method in none langevin rescaling; do
            for target in cpu "$device"; do
                run "$preset" "$target" "$preset-$method-$target" "$end" "thermostat={method = \"$method\"}" \
                    output.image_every=0
            done
            "$orrery" compare "$preset-$method-cpu" "$preset-$method-$device" >/dev/null
            echo "$preset, $method: tables and trajectory equal those of the CPU"
        done
    done
}

check_gravity() {
    local device=$1 solver precision case bound name
    local settings=(bodies.n=3000 time.end=0.1 output.image_every=0 output.snapshot_every=0.1)
    run plummer cpu gravity-cpu "${settings[@]}" gravity.solver=direct gravity.precision=double
    # Relative to the largest coordinate. The tree has forces with errors of about 1e-3, which 20 steps of
    # 0.005 turn into a displacement of 1e-5.
    for case in "direct double 1e-12" "direct mixed 1e-7" "direct single 1e-4" "tree double 1e-4" "tree mixed 1e-4" "tree single 1e-4"; do
        read -r solver precision bound <<<"$case"
        for name in one two; do
            run plummer "$device" "gravity-$solver-$precision-$device-$name" "${settings[@]}" \
                "gravity.solver=$solver" "gravity.precision=$precision"
        done
        name=gravity-$solver-$precision-$device
        "$orrery" compare "$name-one" "$name-two" >/dev/null
        "$orrery" compare "$name-one" gravity-cpu --tolerance "$bound,$bound" >/dev/null
        echo "plummer, $solver, $precision: same bits twice, and within $bound of the direct sum of the CPU in double"
    done
}

if [ $# = 0 ]; then
    "$orrery" devices --json devices.json >/dev/null
    set -- $(grep -o '"label": *"[^"]*"' devices.json | sed 's/.*"\([^"]*\)"$/\1/' | grep -v '^cpu$')
    [ $# -gt 0 ] || { echo "this machine has no device" >&2; exit 1; }
fi
failed=0
for device in "$@"; do
    for check in selftest heat waves fluids gravity; do
        echo "== $device: $check"
        # A subshell, so that the first failure ends this check and not the others. `if (...)` would
        # disable `set -e` in it.
        set +e
        (
            set -e
            if [ $check = selftest ]; then "$orrery" selftest --device "$device"; else "check_$check" "$device"; fi
        )
        status=$?
        set -e
        result=passed
        if [ $status != 0 ]; then result=FAILED failed=1; fi
        printf '%-12s %-10s %s\n' "$device" "$check" "$result" >>table
    done
done
echo
cat table
exit $failed
