//! Ladder of SAXPY: y ← a x + y and y ← b x + y, as in the course's chapter on OpenACC, from copies
//! around each loop to one pass over arrays that stay on the device.

use orrery_device::{Device, DeviceError, DeviceKind, Queue};
use orrery_measure::MeasureError;
use orrery_measure::timing::{Times, time_on_device, time_once};
use rayon::prelude::*;

use super::repeats::{time_rung_on_cpu, time_rung_on_device, time_waiting_rung};
use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, Roofs, RungResult, Scale, Sweep, SweepSeries,
    TimedRuns, Work,
};
use crate::experiments::saxpy::{
    CopyRegion, DeviceLoops, FACTORS, NestedLoops, Saxpy, Shape, Vectors, fused_saxpy_on_cpu, saxpy_on_cpu,
    saxpy_reference,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "saxpy",
    description: "SAXPY twice, with copies around the loops and with data on the device",
    title: "SAXPY twice, f32",
    size_unit: "numbers",
    // Ordinary and page-locked memory for x and y.
    host_bytes: |n| (n as u64).saturating_mul(16),
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 20, host: 1 << 26 },
    counted: Counted {
        item: "update",
        rate_unit: "updates/s",
        heading: "Gupd/s",
        to_column: |rate| rate / 1e9,
    },
    measure,
};

/// Operations of an update.
const FLOPS: f64 = 2.0;
/// Bytes of an update: x and y are read, y is written.
const BYTES: f64 = 12.0;
/// Block size of the rungs, `vector_length(256)` in the course.
const BLOCK_SIZE: u32 = 256;
/// Numbers of gangs of the sweep. The course's example has 16.
const GANGS: [u32; 7] = [16, 64, 256, 1024, 4096, 16_384, 65_536];
/// Vector lengths of the sweep.
const VECTOR_LENGTHS: [u32; 6] = [32, 64, 128, 256, 512, 1024];
/// Vector lengths on a CPU through OpenCL, which takes long to compile a kernel.
const CPU_VECTOR_LENGTHS: [u32; 2] = [64, 256];
/// Columns of the nested loops.
const COLUMNS: [usize; 5] = [32, 128, 512, 2048, 8192];
/// Largest number of elements of the nested loops, of which some versions are slow.
const MAX_NESTED: usize = 1 << 24;
/// Number of timed runs of each point of a sweep.
const SWEEP_REPEATS: usize = 3;

/// A version on the CPU.
type CpuVersion = fn([f32; 2], &[f32], &mut [f32]);
/// Its name, and the passes over memory of both loops together.
const CPU_RUNGS: [(&str, f64, CpuVersion); 3] = [
    ("CPU, one thread", 2.0, saxpy_reference),
    ("CPU, all cores", 2.0, saxpy_on_cpu),
    ("CPU, all cores, loops fused", 1.0, fused_saxpy_on_cpu),
];

/// Returns the work per update of a version that passes over the memory `passes` times.
fn work(passes: f64) -> Work {
    Work { flops: Some(FLOPS), bytes: Some(BYTES * passes / 2.0) }
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n;
    let (x, mut y) = example_arrays(n);
    ladder.roof = ladder.host_roofs.copy_roof();
    for (name, passes, version) in CPU_RUNGS {
        (request.progress)(name);
        let times = time_rung_on_cpu(|| version(FACTORS, &x, &mut y));
        ladder.add_rung(RungResult {
            work: work(passes),
            roof: ladder.host_roofs.bandwidth_roof(BYTES * passes / 2.0),
            ..RungResult::new(name, &timed(n, times))
        });
    }
    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.copy_roof();
    ladder
        .remarks
        .push("Copies between host and device count as no bytes of the device's memory.".to_owned());
    let mut measurement = Measurement { device, saxpy: Saxpy::new(device, BLOCK_SIZE)?, request, ladder };
    measurement.add_copies(x, y)?;
    measurement.add_loops()?;
    measurement.sweep_gangs()?;
    measurement.sweep_nested()
}

fn timed(n: usize, times: Times) -> TimedRuns {
    TimedRuns { n, items: 2.0 * n as f64, times }
}

/// Returns x and y. y grows by 5 x per run and stays far below the largest f32.
fn example_arrays(n: usize) -> (Vec<f32>, Vec<f32>) {
    let array = |modulus: usize| (0..n).into_par_iter().map(|i| (i % modulus) as f32).collect();
    (array(15), array(31))
}

struct Measurement<'a, 'b> {
    device: &'a Device,
    saxpy: Saxpy,
    request: &'a mut LadderRequest<'b>,
    ladder: &'a mut Ladder,
}

impl Measurement<'_, '_> {
    fn queue(&self) -> &Queue {
        self.device.queue()
    }

    fn add(&mut self, name: &str, note: &str, passes: f64, times: Times) {
        let roof = self.ladder.roofs.bandwidth_roof(BYTES * passes / 2.0);
        self.ladder.add_rung(RungResult {
            note: note.to_owned(),
            work: work(passes),
            roof,
            ..RungResult::new(name, &timed(self.request.n, times))
        });
    }

    /// Adds the rungs that copy the arrays, from ordinary and from page-locked memory.
    fn add_copies(&mut self, x: Vec<f32>, mut y: Vec<f32>) -> Result<(), DeviceError> {
        let n = self.request.n;
        let (on_x, on_y) = (self.device.zeros::<f32>(n)?, self.device.zeros::<f32>(n)?);
        let on_device = Vectors { x: &on_x, y: &on_y };
        let run = |this: &Self, region, x: &[f32], y: &mut [f32]| {
            this.saxpy.run_with_copies(this.queue(), region, FACTORS, (x, y), on_device)
        };
        let name = "copies around each loop";
        (self.request.progress)(name);
        let times = time_waiting_rung(|| run(self, CopyRegion::EachLoop, &x, &mut y))?;
        self.add(name, "`parallel loop` without `data`: x and y in, y out, for each loop", 2.0, times);
        let name = "from page-locked memory";
        (self.request.progress)(name);
        let mut pinned_x = self.device.pinned::<f32>(n)?;
        pinned_x.copy_from_slice(&x);
        drop(x);
        let mut pinned_y = self.device.pinned::<f32>(n)?;
        pinned_y.copy_from_slice(&y);
        drop(y);
        let times = time_waiting_rung(|| run(self, CopyRegion::EachLoop, &pinned_x, &mut pinned_y))?;
        self.add(name, "", 2.0, times);
        let name = "copies around both loops";
        (self.request.progress)(name);
        let times = time_waiting_rung(|| run(self, CopyRegion::BothLoops, &pinned_x, &mut pinned_y))?;
        self.add(name, "`data copyin(x) copy(y)`", 2.0, times);
        Ok(())
    }

    /// Adds the rungs whose arrays stay on the device.
    fn add_loops(&mut self) -> Result<(), DeviceError> {
        let n = self.request.n;
        let (x, y) = (self.device.zeros::<f32>(n)?, self.device.zeros::<f32>(n)?);
        for (name, note, loops, passes) in [
            ("data kept on the device", "`present(x, y)`", DeviceLoops::Separate, 2.0),
            ("both loops fused", "x is read once, y is read and written once", DeviceLoops::Fused, 1.0),
            ("loads of 16 bytes", "", DeviceLoops::FusedVectors, 1.0),
        ] {
            (self.request.progress)(name);
            let on_device = Vectors { x: &x, y: &y };
            let times = time_rung_on_device(self.device, || {
                self.saxpy.launch(self.queue(), loops, FACTORS, on_device)
            })?;
            self.add(name, note, passes, times);
        }
        Ok(())
    }

    /// Times one loop for every number of gangs and every vector length.
    fn sweep_gangs(&mut self) -> Result<(), MeasureError> {
        let n = self.request.n;
        let (x, y) = (self.device.zeros::<f32>(n)?, self.device.zeros::<f32>(n)?);
        let on_device = Vectors { x: &x, y: &y };
        let properties = self.device.properties();
        let lengths: &[u32] = match properties.kind {
            DeviceKind::Gpu => &VECTOR_LENGTHS,
            DeviceKind::Cpu | DeviceKind::Other => &CPU_VECTOR_LENGTHS,
        };
        let mut series = Vec::new();
        for &length in lengths.iter().filter(|length| **length <= properties.max_block_size) {
            let name = format!("length {length}");
            (self.request.progress)(&format!("gangs, vector {name}"));
            let saxpy = Saxpy::new(self.device, length)?;
            let points = GANGS.iter().map(|&gangs| {
                let launch = || saxpy.launch_update(self.queue(), gangs, FACTORS[0], on_device);
                Ok(Some(BYTES * n as f64 / median_seconds(self.device, launch)? / 1e9))
            });
            series.push(SweepSeries { name, points: points.collect::<Result<_, DeviceError>>()? });
        }
        self.ladder.sweeps.push(Sweep {
            title: "one loop by gangs and vector length".to_owned(),
            parameter: "gangs",
            unit: "GB/s",
            x_scale: Scale::Log,
            y_scale: Scale::Log,
            values: GANGS.map(f64::from).to_vec(),
            series,
        });
        Ok(())
    }

    /// Times one update of matrices with rows of several lengths by nested loops.
    fn sweep_nested(&mut self) -> Result<(), MeasureError> {
        let mappings = [
            ("thread per row", NestedLoops::ThreadPerRow, None),
            ("same, 16 gangs", NestedLoops::ThreadPerRow, Some(16)),
            ("block per row", NestedLoops::BlockPerRow, None),
        ];
        let mut series = mappings.map(|(name, ..)| SweepSeries { name: name.to_owned(), points: Vec::new() });
        for columns in COLUMNS {
            (self.request.progress)(&format!("nested loops, {columns} columns"));
            let rows = (self.request.n.min(MAX_NESTED) / columns).max(1);
            let (x, y) =
                (self.device.zeros::<f32>(rows * columns)?, self.device.zeros::<f32>(rows * columns)?);
            let (on_device, shape) = (Vectors { x: &x, y: &y }, Shape { rows, columns });
            for ((_, nested, gangs), series) in mappings.into_iter().zip(&mut series) {
                let launch =
                    || self.saxpy.launch_nested(self.queue(), nested, gangs, shape, FACTORS[0], on_device);
                let seconds = median_seconds(self.device, launch)?;
                series.points.push(Some(BYTES * x.len() as f64 / seconds / 1e9));
            }
        }
        self.ladder.sweeps.push(Sweep {
            title: "nested loops over rows and columns".to_owned(),
            parameter: "columns",
            unit: "GB/s",
            x_scale: Scale::Log,
            y_scale: Scale::Log,
            values: COLUMNS.map(|columns| columns as f64).to_vec(),
            series: series.into(),
        });
        Ok(())
    }
}

/// Returns the median time of a few runs.
fn median_seconds(
    device: &Device,
    mut launch: impl FnMut() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let run_seconds = time_once(device, &mut launch)?;
    Ok(time_on_device(device, SWEEP_REPEATS, run_seconds, launch)?.median())
}
