//! Ladder of SAXPY: y ← a x + y and y ← b x + y, as in the course's chapter on OpenACC, from copies
//! around each loop to one pass over arrays that stay on the device.

use std::cell::RefCell;

use orrery_device::{Buffer, Device, DeviceError, DeviceKind, Pinned};
use orrery_measure::MeasureError;
use rayon::prelude::*;

use super::repeats::time_point;
use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, PrepareResult, PreparedRung,
    RungClock, RungLabel, RungLimit, RungSet, Sweep, SweepScale, SweepSeries, Work,
};
use crate::experiments::saxpy::{
    CopyRegion, DeviceLoops, FACTORS, NestedLoops, Saxpy, SaxpyShape, SaxpyVectors, fused_saxpy_on_cpu,
    saxpy_on_cpu, saxpy_reference,
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
    rungs: &[RungSet::of::<SaxpyCopyRung>(), RungSet::of::<SaxpyLoopRung>()],
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
type SaxpyOnHost = fn([f32; 2], &[f32], &mut [f32]);
/// Its name, and the passes over memory of both loops together.
const CPU_RUNGS: [(&str, f64, SaxpyOnHost); 3] = [
    ("CPU, one thread", 2.0, saxpy_reference),
    ("CPU, all cores", 2.0, saxpy_on_cpu),
    ("CPU, all cores, loops fused", 1.0, fused_saxpy_on_cpu),
];

/// Returns the work per update of a version that passes over the memory `passes` times.
fn work(passes: f64) -> Work {
    Work { flops: Some(FLOPS), bytes: Some(BYTES * passes / 2.0) }
}

/// Returns the updates of both loops.
fn update_count(n: usize) -> f64 {
    2.0 * n as f64
}

/// Returns x and y. y grows by 5 x per run and stays far below the largest f32.
fn example_arrays(n: usize) -> (Vec<f32>, Vec<f32>) {
    let array = |modulus: usize| (0..n).into_par_iter().map(|i| (i % modulus) as f32).collect();
    (array(15), array(31))
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n;
    ladder.roof = ladder.host_roofs.copy_roof();
    let (x, mut y) = example_arrays(n);
    for (name, passes, version) in CPU_RUNGS {
        let prepared = PreparedRung::on_host(n, update_count(n), || version(FACTORS, &x, &mut y))
            .with_work(work(passes), RungLimit::Bandwidth);
        ladder.measure_prepared(request, name, "", prepared)?;
    }
    drop((x, y));
    let Some(device) = request.device else { return Ok(()) };
    ladder.use_copy_roof_of(device)?;
    ladder
        .remarks
        .push("Copies between host and device count as no bytes of the device's memory.".to_owned());
    ladder.measure_rungs(request, &SaxpyCopyRung::all(device), &SaxpyCopyRung::new_input(device, n)?)?;
    let arrays = SaxpyLoopRung::new_input(device, n)?;
    ladder.measure_rungs(request, &SaxpyLoopRung::all(device), &arrays)?;
    let gangs = sweep_gangs(request, &arrays)?;
    ladder.sweeps.extend([gangs, sweep_nested(request, &arrays)?]);
    Ok(())
}

/// Kernels, and x and y on a device.
pub struct SaxpyArrays {
    saxpy: Saxpy,
    x: Buffer<f32>,
    y: Buffer<f32>,
}

impl SaxpyArrays {
    fn zeros(device: &Device, n: usize) -> Result<Self, DeviceError> {
        Ok(Self { saxpy: Saxpy::new(device, BLOCK_SIZE)?, x: device.zeros(n)?, y: device.zeros(n)? })
    }

    fn device(&self) -> &Device {
        self.x.device()
    }

    fn vectors(&self) -> SaxpyVectors<'_> {
        SaxpyVectors { x: &self.x, y: &self.y }
    }
}

/// Rung that copies the arrays around the loops.
struct SaxpyCopyRung {
    name: &'static str,
    note: &'static str,
    region: CopyRegion,
    is_pinned: bool,
}

/// The arrays on the device, and x and y in ordinary and in page-locked memory.
pub struct SaxpyCopies {
    arrays: SaxpyArrays,
    pageable: (Vec<f32>, RefCell<Vec<f32>>),
    pinned: (Pinned<f32>, RefCell<Pinned<f32>>),
}

impl LadderRung for SaxpyCopyRung {
    type Input = SaxpyCopies;

    fn all(_: &Device) -> Vec<Self> {
        let rung = |name, note, region, is_pinned| Self { name, note, region, is_pinned };
        vec![
            rung(
                "copies around each loop",
                "`parallel loop` without `data`: x and y in, y out, for each loop",
                CopyRegion::EachLoop,
                false,
            ),
            rung("from page-locked memory", "", CopyRegion::EachLoop, true),
            rung("copies around both loops", "`data copyin(x) copy(y)`", CopyRegion::BothLoops, true),
        ]
    }

    fn new_input(device: &Device, n: usize) -> Result<SaxpyCopies, MeasureError> {
        let (x, y) = example_arrays(n);
        let [mut pinned_x, mut pinned_y] = [device.pinned::<f32>(n)?, device.pinned::<f32>(n)?];
        pinned_x.copy_from_slice(&x);
        pinned_y.copy_from_slice(&y);
        Ok(SaxpyCopies {
            arrays: SaxpyArrays::zeros(device, n)?,
            pageable: (x, RefCell::new(y)),
            pinned: (pinned_x, RefCell::new(pinned_y)),
        })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    fn prepare<'a>(&'a self, input: &'a SaxpyCopies, n: usize, _: usize) -> PrepareResult<'a> {
        let arrays = &input.arrays;
        let copy = move |x: &[f32], y: &mut [f32]| {
            let queue = arrays.device().queue();
            arrays.saxpy.run_with_copies(queue, self.region, FACTORS, (x, y), arrays.vectors())
        };
        let run = move || match self.is_pinned {
            true => copy(&input.pinned.0, &mut input.pinned.1.borrow_mut()),
            false => copy(&input.pageable.0, &mut input.pageable.1.borrow_mut()),
        };
        let prepared = PreparedRung::new(RungClock::Waiting, n, update_count(n), run);
        Ok(Some(prepared.with_work(work(2.0), RungLimit::Bandwidth)))
    }
}

/// Rung whose arrays stay on the device.
struct SaxpyLoopRung {
    name: &'static str,
    note: &'static str,
    loops: DeviceLoops,
    passes: f64,
}

impl LadderRung for SaxpyLoopRung {
    type Input = SaxpyArrays;

    fn all(_: &Device) -> Vec<Self> {
        let rung = |name, note, loops, passes| Self { name, note, loops, passes };
        vec![
            rung("data kept on the device", "`present(x, y)`", DeviceLoops::Separate, 2.0),
            rung("both loops fused", "x is read once, y is read and written once", DeviceLoops::Fused, 1.0),
            rung("loads of 16 bytes", "", DeviceLoops::FusedVectors, 1.0),
        ]
    }

    fn new_input(device: &Device, n: usize) -> Result<SaxpyArrays, MeasureError> {
        Ok(SaxpyArrays::zeros(device, n)?)
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    fn prepare<'a>(&'a self, arrays: &'a SaxpyArrays, n: usize, _: usize) -> PrepareResult<'a> {
        let device = arrays.device();
        let launch = move || arrays.saxpy.launch(device.queue(), self.loops, FACTORS, arrays.vectors());
        let prepared = PreparedRung::new(RungClock::of(device), n, update_count(n), launch);
        Ok(Some(prepared.with_work(work(self.passes), RungLimit::Bandwidth)))
    }
}

/// Times one loop for every number of gangs and every vector length.
fn sweep_gangs(request: &mut LadderRequest, arrays: &SaxpyArrays) -> Result<Sweep, DeviceError> {
    let (device, properties) = (arrays.device(), arrays.device().properties());
    let lengths: &[u32] = match properties.kind {
        DeviceKind::Gpu => &VECTOR_LENGTHS,
        DeviceKind::Cpu | DeviceKind::Other => &CPU_VECTOR_LENGTHS,
    };
    let mut series = Vec::new();
    for &length in lengths.iter().filter(|length| **length <= properties.max_block_size) {
        let name = format!("length {length}");
        (request.progress)(&format!("gangs, vector {name}"));
        let saxpy = Saxpy::new(device, length)?;
        let points = GANGS.iter().map(|&gangs| {
            let launch = || saxpy.launch_update(device.queue(), gangs, FACTORS[0], arrays.vectors());
            let seconds = time_point(device, SWEEP_REPEATS, launch)?.median();
            Ok(Some(BYTES * arrays.x.len() as f64 / seconds / 1e9))
        });
        series.push(SweepSeries { name, points: points.collect::<Result<_, DeviceError>>()? });
    }
    Ok(Sweep {
        title: "one loop by gangs and vector length".to_owned(),
        parameter: "gangs",
        unit: "GB/s",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: GANGS.map(f64::from).to_vec(),
        series,
    })
}

/// Times one update of matrices with rows of several lengths by nested loops.
fn sweep_nested(request: &mut LadderRequest, arrays: &SaxpyArrays) -> Result<Sweep, DeviceError> {
    let mappings = [
        ("thread per row", NestedLoops::ThreadPerRow, None),
        ("same, 16 gangs", NestedLoops::ThreadPerRow, Some(16)),
        ("block per row", NestedLoops::BlockPerRow, None),
    ];
    let device = arrays.device();
    let mut series = mappings.map(|(name, ..)| SweepSeries { name: name.to_owned(), points: Vec::new() });
    for columns in COLUMNS {
        (request.progress)(&format!("nested loops, {columns} columns"));
        let rows = (request.n.min(MAX_NESTED) / columns).max(1);
        let (x, y) = (device.zeros::<f32>(rows * columns)?, device.zeros::<f32>(rows * columns)?);
        let (on_device, shape) = (SaxpyVectors { x: &x, y: &y }, SaxpyShape { rows, columns });
        for ((_, nested, gangs), series) in mappings.into_iter().zip(&mut series) {
            let launch =
                || arrays.saxpy.launch_nested(device.queue(), nested, gangs, shape, FACTORS[0], on_device);
            let seconds = time_point(device, SWEEP_REPEATS, launch)?.median();
            series.points.push(Some(BYTES * x.len() as f64 / seconds / 1e9));
        }
    }
    Ok(Sweep {
        title: "nested loops over rows and columns".to_owned(),
        parameter: "columns",
        unit: "GB/s",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: COLUMNS.map(|columns| columns as f64).to_vec(),
        series: series.into(),
    })
}
