#!/bin/bash
# Checks heat, waves and fluids on a device with the program alone, for machines without cargo.
#
#   check-device.sh [ORRERY [DEVICE]]     such as: check-device.sh ./orrery cuda
#
# Runs the self-test, then the presets of heat and waves on the CPU and on the device in both
# precisions. A run on the device must have the snapshots and seismograms of the CPU, byte for byte, so
# the results of README.md hold there too. sine-decay must follow the solution of its scheme. Runs of
# fluids must have the tables and trajectories of the CPU, to the bit, in every ensemble.
set -euo pipefail
orrery=$(realpath "${1:-orrery}")
device=${2:-auto}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

"$orrery" selftest --device "$device"
for run in "sine-decay time.end=0.01" "hot-plate time.end=2" "chip time.end=0.02"; do
    read -r preset end <<<"$run"
    for precision in double single; do
        for target in cpu "$device"; do
            "$orrery" run "$preset" --quiet --device "$target" --out "$preset-$precision-$target" \
                --set "$end" --set "heat.precision=$precision" --json "$preset-$precision-$target.json"
        done
        diff -r "$preset-$precision-cpu/snapshots" "$preset-$precision-$device/snapshots"
        echo "$preset, $precision: the snapshots equal those of the CPU"
    done
    if [ "$preset" = sine-decay ]; then
        # Rounding errors of 2916 steps: at most 20 x 2^-53 and 20 x 2^-24 each.
        for limit in "double 6.5e-12" "single 3.5e-3"; do
            read -r precision bound <<<"$limit"
            error=$(grep -o '"exact discrete": *[-+.0-9e]*' "$preset-$precision-$device.json" | sed 's/.*: *//')
            awk -v error="$error" -v bound="$bound" 'BEGIN { exit !(error + 0 < bound + 0) }'
            echo "sine-decay, $precision: $error from the solution of the scheme, bound $bound"
        done
    fi
done

for run in "two-layer-shot time.end=0.4" "wave-3d time.end=0.2" "ripple-tank time.end=0.5" "salt-dome time.end=0.3"; do
    read -r preset end <<<"$run"
    for precision in double single; do
        for target in cpu "$device"; do
            "$orrery" run "$preset" --quiet --device "$target" --out "$preset-$precision-$target" \
                --set "$end" --set "wave.precision=$precision"
        done
        diff -r "$preset-$precision-cpu/snapshots" "$preset-$precision-$device/snapshots"
        if [ -e "$preset-$precision-cpu/seismograms.npy" ]; then
            cmp "$preset-$precision-cpu/seismograms.npy" "$preset-$precision-$device/seismograms.npy"
        fi
        echo "$preset, $precision: snapshots and seismograms equal those of the CPU"
    done
done

for run in "lj-melt time.end=0.5" "argon time.end=22" "droplet time.end=2" "lj-2d time.end=2" "kob-andersen time.end=2"; do
    read -r preset end <<<"$run"
    for method in none langevin rescaling; do
        for target in cpu "$device"; do
            "$orrery" run "$preset" --quiet --device "$target" --out "$preset-$method-$target" \
                --set "$end" --set "thermostat={method = \"$method\"}" --set output.image_every=0
        done
        "$orrery" compare "$preset-$method-cpu" "$preset-$method-$device" >/dev/null
        echo "$preset, $method: tables and trajectory equal those of the CPU"
    done
done
