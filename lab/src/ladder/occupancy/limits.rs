//! Sweeps over what limits occupancy or wastes it: registers, block sizes, and grids that are not
//! whole waves.

use orrery_device::DeviceError;
use orrery_model::analysis::max_or_nan;

use super::super::{DataCell, DataRow, DataTable, Ladder, Sweep, SweepScale, SweepSeries};
use super::{FLOATS_PER_FMA, Laboratory, Residents};
use crate::experiments::arithmetic::Chains;
use crate::experiments::occupancy::loads::{LoadShape, Loads, whole_numbers};
use crate::experiments::occupancy::pressure::{BLOCK_SIZE, Pressure, VALUES};
use crate::experiments::occupancy::shared_for_blocks;

/// Limits of registers per thread.
const REGISTER_LIMITS: [u32; 11] = [16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 255];

/// Measures a kernel that needs about 128 registers with fewer of them, and adds a table and a
/// sweep. Only devices whose compiler has such a limit take part.
pub fn add_register_limits(lab: &Laboratory, ladder: &mut Ladder) -> Result<(), DeviceError> {
    let properties = lab.device.properties();
    if properties.registers_per_sm.is_none() {
        ladder.remarks.push("limits of registers: this device does not report registers".to_owned());
        return Ok(());
    }
    let block_count = properties.sm_count * BLOCKS_PER_SM;
    // Fewer FMAs per thread than in the other sweeps, because spills make them much slower.
    let rounds = lab.n.div_ceil(4 * VALUES).min(i32::MAX as usize) as i32;
    let mut rows = Vec::new();
    let (mut occupancies, mut shares) = (Vec::new(), Vec::new());
    for limit in REGISTER_LIMITS {
        let kernel = Pressure::new(&lab.device, Some(limit), block_count)?;
        let seconds = lab.fastest_seconds(|| kernel.launch(lab.device.queue(), rounds))?;
        let (resources, occupancy) = kernel.resources();
        let counts = [resources.registers, resources.spill_bytes].map(|count| count.map(f64::from));
        occupancies.push(occupancy.map(|occupancy| 100.0 * occupancy));
        shares.push(Some(100.0 * kernel.fma_count(rounds) / seconds / lab.peak));
        let cells = counts.into_iter().chain([occupancies[rows.len()], shares[rows.len()]]);
        rows.push(DataRow { name: limit.to_string(), cells: cells.map(DataCell::from).collect() });
    }
    let series = |name: &str, points| SweepSeries { name: name.to_owned(), points };
    ladder.sweeps.push(Sweep {
        title: "a kernel that needs 127 registers, with fewer of them".to_owned(),
        parameter: "limit of registers",
        unit: "%",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Linear,
        values: REGISTER_LIMITS.map(f64::from).to_vec(),
        series: vec![series("occupancy", occupancies), series("of FMA peak", shares)],
    });
    ladder.tables.push(DataTable {
        title: format!(
            "limit of registers, {VALUES} numbers per thread, {BLOCK_SIZE} threads per block; local: bytes of local \
             memory per thread; occupancy, of peak: %"
        ),
        row_heading: "limit",
        columns: ["registers", "local", "occupancy", "of peak"].map(str::to_owned).to_vec(),
        rows,
    });
    Ok(())
}

/// Blocks of 256 threads per SM in launches that fill the device several times.
const BLOCKS_PER_SM: u32 = 32;

/// Measures FMAs and reads for several block sizes, with the same number of threads.
pub fn block_sizes(lab: &Laboratory) -> Result<Sweep, DeviceError> {
    let sizes: &[u32] = match lab.is_gpu() {
        true => &[32, 64, 96, 128, 192, 256, 384, 512, 768, 1024],
        false => &[32, 128],
    };
    let threads = lab.device.properties().sm_count.max(1) * if lab.is_gpu() { 16_384 } else { 512 };
    let from = lab.device.upload(&whole_numbers(FLOATS_PER_FMA * lab.n))?;
    let (mut fma_shares, mut reads) = (Vec::new(), Vec::new());
    for &block_size in sizes {
        if block_size > lab.device.properties().max_block_size {
            fma_shares.push(None);
            reads.push(None);
            continue;
        }
        let residents =
            Residents { block_size, block_count: threads.div_ceil(block_size), dynamic_shared: 0 };
        fma_shares.push(Some(100.0 * lab.fma_rate(&lab.chains(1, residents)?)? / lab.peak));
        let shape = LoadShape { width: 1, loads: 1, block_size, dynamic_shared: 0 };
        let kernel = Loads::new(&lab.device, shape, residents.block_count)?;
        let seconds = lab.fastest_seconds(|| kernel.launch(lab.device.queue(), &from))?;
        reads.push(Some(4.0 * from.len() as f64 / seconds));
    }
    let highest = reads.iter().flatten().copied().fold(0.0, max_or_nan);
    let read_shares = reads.iter().map(|rate| rate.map(|rate| 100.0 * rate / highest));
    let occupancy = lab.sm_limits().map(|limits| {
        // Neither kernel needs more than 32 registers, so threads and blocks are the limit.
        let share = |size: &u32| {
            let blocks = (limits.threads_per_sm / size).min(limits.blocks_per_sm);
            Some(100.0 * f64::from(blocks * size) / f64::from(limits.threads_per_sm))
        };
        SweepSeries { name: "occupancy".to_owned(), points: sizes.iter().map(share).collect() }
    });
    let mut series = vec![
        SweepSeries { name: "FMA, 1 chain".to_owned(), points: fma_shares },
        SweepSeries { name: "reads, 4 B".to_owned(), points: read_shares.collect() },
    ];
    series.extend(occupancy);
    Ok(Sweep {
        title: "block sizes: share of the FMA peak, and of the fastest reads".to_owned(),
        parameter: "threads per block",
        unit: "%",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Linear,
        values: sizes.iter().map(|&size| f64::from(size)).collect(),
        series,
    })
}

/// Measures grids from 1 to 10 waves in tenths of a wave. A wave has as many blocks as the device
/// runs at once. The rate is relative to that of 10 whole waves. If all blocks take the same time
/// and an SM runs one of them, it is waves / ⌈waves⌉.
pub fn waves(lab: &Laboratory) -> Result<Sweep, DeviceError> {
    let tenths: Vec<u32> = if lab.is_gpu() { (10..=100).collect() } else { vec![10, 15, 20] };
    let waves: Vec<f64> = tenths.iter().map(|tenth| f64::from(*tenth) / 10.0).collect();
    let mut series = Vec::new();
    if let Some(limits) = lab.sm_limits() {
        let shares = wave_shares(lab, &waves, shared_for_blocks(limits, 1))?;
        series.push(SweepSeries { name: "1 block per SM".to_owned(), points: shares });
    }
    let points = wave_shares(lab, &waves, 0)?;
    series.push(SweepSeries { name: "full SMs".to_owned(), points });
    let law = |waves: &f64| Some(100.0 * waves / waves.ceil());
    series.push(SweepSeries { name: "law".to_owned(), points: waves.iter().map(law).collect() });
    Ok(Sweep {
        title: "grids that are not whole waves: share of the rate".to_owned(),
        parameter: "waves",
        unit: "%",
        x_scale: SweepScale::Linear,
        y_scale: SweepScale::Linear,
        values: waves,
        series,
    })
}

/// Chains per thread of the blocks in waves. With 8 warps, an SM has more operations in flight than
/// it needs.
const WAVE_CHAINS: usize = 4;

fn wave_shares(
    lab: &Laboratory,
    waves: &[f64],
    dynamic_shared: u32,
) -> Result<Vec<Option<f64>>, DeviceError> {
    let block_size = lab.device.properties().max_block_size.min(256);
    let with_blocks = |block_count: u32| -> Result<Chains<f32>, DeviceError> {
        lab.chains(WAVE_CHAINS, Residents { block_size, block_count, dynamic_shared })
    };
    let wave = with_blocks(1)?.resident_blocks();
    let blocks_of = |waves: &f64| (waves * f64::from(wave)).round().max(1.0) as u32;
    let most = waves.last().map_or(1, blocks_of);
    let fmas = with_blocks(most)?;
    let rounds = fmas.rounds_for(lab.n);
    let mut rates = Vec::new();
    for waves in waves {
        let block_count = blocks_of(waves);
        let launch = || fmas.launch_blocks(lab.device.queue(), block_count, rounds);
        rates.push(f64::from(block_count) / lab.fastest_seconds(launch)?);
    }
    let whole = rates.last().copied().unwrap_or(f64::NAN);
    Ok(rates.into_iter().map(|rate| Some(100.0 * rate / whole)).collect())
}
