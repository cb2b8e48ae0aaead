//! Sweeps over operations and bytes in flight, next to the predictions of Little's law.

use orrery_device::DeviceError;
use orrery_measure::format::{format_number, format_rate};
use orrery_model::analysis::max_or_nan;

use super::super::{Ladder, Sweep, SweepScale, SweepSeries};
use super::{FLOATS_PER_FMA, Laboratory};
use crate::experiments::occupancy::loads::{LoadShape, Loads, whole_numbers};

/// Numbers of independent chains per thread.
const CHAINS: [usize; 4] = [1, 2, 4, 8];

/// Partitions of an SM, each with a scheduler and a quarter of the lanes. SMs have four since
/// compute capability 5.0, apart from 6.0 with two.
const PARTITIONS: u32 = 4;

/// Returns the share of the peak that Little's law predicts. A partition with w warps reaches w ×
/// 32 × chains / (latency × lanes / 4) of its peak, at most 1. The partition with the most warps
/// takes the longest, and others wait for it.
fn predicted_share(warps: u32, chains: usize, latency: f64, lanes: f64) -> f64 {
    let most_warps = warps.div_ceil(PARTITIONS);
    let in_flight = f64::from(32 * most_warps) * chains as f64;
    let of_partition = in_flight / (latency * lanes / f64::from(PARTITIONS));
    of_partition.min(1.0) * f64::from(warps) / f64::from(PARTITIONS * most_warps)
}

/// Measures the share of the peak for several numbers of warps per SM and chains per thread.
pub fn chains_and_warps(lab: &Laboratory) -> Result<Sweep, DeviceError> {
    let (warps, chains): (&[u32], &[usize]) = match lab.is_gpu() {
        true => (&[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64], &CHAINS),
        false => (&[1, 4], &[1, 4]),
    };
    let latency = lab.fma_latency()?;
    let mut series = Vec::new();
    for &chains in chains {
        let share = |warps: &u32| -> Result<Option<f64>, DeviceError> {
            let Some(residents) = lab.residents(*warps) else { return Ok(None) };
            let rate = lab.fma_rate(&lab.chains(chains, residents)?)?;
            Ok(Some(100.0 * rate / lab.peak))
        };
        let points = warps.iter().map(share).collect::<Result<_, _>>()?;
        series.push(SweepSeries { name: super::count_chains(chains), points });
        if let Some(latency) = latency {
            let law = |warps: &u32| Some(100.0 * predicted_share(*warps, chains, latency, lab.lanes()));
            series.push(SweepSeries {
                name: format!("law, {chains}"),
                points: warps.iter().map(law).collect(),
            });
        }
    }
    Ok(Sweep {
        title: "share of the FMA peak, measured and by Little's law".to_owned(),
        parameter: "warps per SM",
        unit: "%",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Linear,
        values: warps.iter().map(|&warps| f64::from(warps)).collect(),
        series,
    })
}

/// Floats per load and loads in flight per thread.
const LOAD_SHAPES: [(usize, usize); 6] = [(1, 1), (2, 1), (4, 1), (1, 4), (1, 8), (4, 4)];

/// A measured point: bytes in flight per SM, and bytes per second.
struct LoadPoint {
    in_flight: f64,
    rate: f64,
}

/// Measures the bandwidth for several numbers of bytes in flight per SM, and adds the sweep and the
/// latency of the memory that follows from its first point.
pub fn add_bytes_in_flight(lab: &Laboratory, ladder: &mut Ladder) -> Result<(), DeviceError> {
    let (warps, shapes): (&[u32], &[(usize, usize)]) = match lab.is_gpu() {
        true => (&[1, 2, 4, 8, 16, 32, 64], &LOAD_SHAPES),
        false => (&[1, 4], &[(1, 1), (4, 4)]),
    };
    let from = lab.device.upload(&whole_numbers(FLOATS_PER_FMA * lab.n))?;
    let mut measured: Vec<(String, Vec<LoadPoint>)> = Vec::new();
    for &(width, loads) in shapes {
        let mut points = Vec::new();
        for residents in warps.iter().filter_map(|warps| lab.residents(*warps)) {
            let shape = LoadShape {
                width,
                loads,
                block_size: residents.block_size,
                dynamic_shared: residents.dynamic_shared,
            };
            let kernel = Loads::new(&lab.device, shape, residents.block_count)?;
            let seconds = lab.fastest_seconds(|| kernel.launch(lab.device.queue(), &from))?;
            let threads = residents.block_size * residents.block_count;
            let threads_per_sm = f64::from(threads) / f64::from(lab.device.properties().sm_count.max(1));
            let in_flight = threads_per_sm * shape.bytes_per_thread() as f64;
            points.push(LoadPoint { in_flight, rate: 4.0 * from.len() as f64 / seconds });
        }
        let plural = if loads == 1 { "load" } else { "loads" };
        measured.push((format!("{loads} {plural}, {} B", 4 * width), points));
    }
    if lab.is_gpu() {
        ladder.remarks.extend(latency_remark(lab, &measured));
    }
    ladder.sweeps.push(bytes_sweep(lab, &measured));
    Ok(())
}

/// Returns the latency of the memory in seconds: the time of a load of one warp per SM, which waits
/// for the one before.
fn memory_latency(lab: &Laboratory, measured: &[(String, Vec<LoadPoint>)]) -> Option<f64> {
    let first = measured.first()?.1.first()?;
    Some(first.in_flight * f64::from(lab.device.properties().sm_count) / first.rate)
}

fn highest_rate(measured: &[(String, Vec<LoadPoint>)]) -> f64 {
    let rates = measured.iter().flat_map(|(_, points)| points.iter().map(|point| point.rate));
    rates.fold(0.0, max_or_nan)
}

fn latency_remark(lab: &Laboratory, measured: &[(String, Vec<LoadPoint>)]) -> Option<String> {
    let (latency, rate) = (memory_latency(lab, measured)?, highest_rate(measured));
    let sm_count = f64::from(lab.device.properties().sm_count);
    Some(format!(
        "memory of this device: {} ns x {} = {} KB in flight on the card, {} KB per SM",
        format_number(1e9 * latency),
        format_rate(rate, "B/s"),
        format_number(1e-3 * latency * rate),
        format_number(1e-3 * latency * rate / sm_count)
    ))
}

fn bytes_sweep(lab: &Laboratory, measured: &[(String, Vec<LoadPoint>)]) -> Sweep {
    let mut values: Vec<f64> =
        measured.iter().flat_map(|(_, points)| points.iter().map(|point| point.in_flight)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let mut series: Vec<SweepSeries> = measured
        .iter()
        .map(|(name, points)| {
            let rate_at = |value: &f64| points.iter().find(|point| point.in_flight == *value);
            let points = values.iter().map(|value| rate_at(value).map(|point| 1e-9 * point.rate));
            SweepSeries { name: name.clone(), points: points.collect() }
        })
        .collect();
    if let Some(latency) = memory_latency(lab, measured).filter(|_| lab.is_gpu()) {
        let sm_count = f64::from(lab.device.properties().sm_count);
        let limit = highest_rate(measured);
        let law = |value: &f64| Some(1e-9 * (value * sm_count / latency).min(limit));
        let points = values.iter().map(law).collect();
        series.push(SweepSeries { name: "Little's law".to_owned(), points });
    }
    Sweep {
        title: "bandwidth of reads".to_owned(),
        parameter: "bytes in flight per SM",
        unit: "GB/s",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 4 cycles and 128 lanes, a partition needs 128 operations in flight: 4 warps with one
    /// chain each.
    #[test]
    fn the_law_applies_to_each_partition() {
        let share = |warps, chains| predicted_share(warps, chains, 4.0, 128.0);
        assert_eq!([share(1, 1), share(4, 1), share(16, 1)], [1.0 / 16.0, 0.25, 1.0]);
        assert_eq!([share(8, 2), share(4, 4), share(64, 8)], [1.0; 3]);
        // One warp fills one partition at most.
        assert_eq!([share(1, 4), share(1, 8), share(3, 8)], [0.25, 0.25, 0.75]);
        // Two partitions have two warps and take twice as long as the others.
        assert_eq!(share(6, 8), 0.75);
    }
}
