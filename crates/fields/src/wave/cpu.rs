//! Steps on all cores of the CPU, with SIMD.
//!
//! Planes are divided into bands of rows, and a task marches along z over one band: the nine planes
//! of u that the stencil reads stay in the second-level cache, so u comes from memory about once per
//! step. The new values replace those of the step before, in the memory that was just read.
//!
//! Cost with order 8 in three dimensions and single precision: 40 flops and 12 bytes per node, 16
//! bytes with a velocity per node. The limit is the memory. Results have the same bits for every
//! strategy, number of threads and division into bands.

use orrery_model::format_count;
use orrery_simd::{InstructionSet, SimdKernel, Vector, dispatch};
use rayon::prelude::*;

use super::Stencil;
use super::kernels::{CourantRow, Strides, update_row, update_row_pair};
use super::layout::Layout;
use crate::Scalar;

/// How the CPU computes steps. It is plain data, so that benchmarks and tests can enumerate
/// strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaveCpuStrategy {
    /// SIMD instruction set.
    pub instruction_set: InstructionSet,
    /// Planes that are updated at a time: 1 or 2. Two planes share loads along z.
    pub planes_per_sweep: usize,
    /// Bytes of the second-level cache that the planes of a band may use.
    pub cache_bytes: usize,
}

impl WaveCpuStrategy {
    /// Returns the strategy for this machine.
    pub fn resolve() -> Self {
        Self { instruction_set: InstructionSet::best(), planes_per_sweep: 2, cache_bytes: 1 << 19 }
    }

    /// Returns strategies worth comparing, for the ladder and the self-test.
    pub fn all() -> Vec<Self> {
        let best = Self::resolve();
        let sets = InstructionSet::available().map(|instruction_set| Self { instruction_set, ..best });
        let sweeps = [1, 2].map(|planes_per_sweep| Self { planes_per_sweep, ..best });
        sets.chain(sweeps).collect()
    }

    /// Returns a name for reports, for example "AVX-512, 2 planes per sweep".
    pub fn name(&self) -> String {
        let planes = format_count(self.planes_per_sweep as u64, "plane", "planes");
        format!("{}, {planes} per sweep", self.instruction_set.name())
    }

    /// Returns the rows of a band.
    fn band_rows<R>(&self, layout: &Layout, radius: usize) -> usize {
        let planes = 2 * radius + self.planes_per_sweep;
        let rows = self.cache_bytes / (planes * layout.pitch * size_of::<R>());
        let [_, ny, nz] = layout.nodes;
        let threads = rayon::current_num_threads();
        // In two dimensions a band is a task, and in three a band of some planes.
        let balanced = if nz == 1 { ny.div_ceil(4 * threads) } else { ny };
        rows.saturating_sub(2 * radius).max(MIN_BAND_ROWS).min(balanced.max(1))
    }
}

/// Fewest rows of a band. Narrower bands would read most rows twice.
const MIN_BAND_ROWS: usize = 16;

/// Fewest planes of a task in three dimensions. A task reads eight more than it updates.
const MIN_TASK_PLANES: usize = 64;

/// v of the nodes of some planes.
#[derive(Clone, Copy, Debug)]
pub enum CourantPlanes<'a, R> {
    /// The same everywhere.
    Uniform(R),
    /// One value per node, in the layout of the field.
    Field(&'a [R]),
}

impl<R: Scalar> CourantPlanes<'_, R> {
    /// Returns the value at a position of the field.
    #[inline(always)]
    pub fn at(&self, position: usize) -> R {
        match self {
            Self::Uniform(v) => *v,
            Self::Field(v) => v[position],
        }
    }
}

/// A step of some planes without absorption and sources.
#[derive(Clone, Copy, Debug)]
pub struct StencilPass<'a, R> {
    /// Layout of all fields.
    pub layout: &'a Layout,
    /// Weights.
    pub stencil: &'a Stencil<R>,
    /// v at the nodes.
    pub courant: CourantPlanes<'a, R>,
    /// u, with its ghost nodes.
    pub u: &'a [R],
}

impl<R: Scalar> StencilPass<'_, R> {
    /// Replaces the values of `planes` in `next`, which are those of the step before, by the new
    /// ones.
    pub fn run(&self, strategy: &WaveCpuStrategy, planes: std::ops::Range<usize>, next: &mut [R]) {
        let layout = self.layout;
        let [_, ny, _] = layout.nodes;
        let band_rows = strategy.band_rows::<R>(layout, self.stencil.radius);
        let threads = rayon::current_num_threads();
        let bands = ny.div_ceil(band_rows);
        let chunks = (2 * threads).div_ceil(bands);
        let chunk_planes = planes.len().div_ceil(chunks).max(MIN_TASK_PLANES.min(planes.len())).max(1);
        let storage =
            &mut next[(planes.start + layout.ghost_planes) * layout.plane..][..planes.len() * layout.plane];
        let mut tasks: Vec<BandTask<R>> = Vec::new();
        for (chunk, storage) in storage.chunks_mut(chunk_planes * layout.plane).enumerate() {
            let first_task = tasks.len();
            let first_plane = planes.start + chunk * chunk_planes;
            tasks.extend((0..bands).map(|band| BandTask {
                first_plane,
                first_row: band * band_rows,
                planes: Vec::with_capacity(chunk_planes),
            }));
            for plane in storage.chunks_mut(layout.plane) {
                let rows = &mut plane[layout.row_in_plane(0)..];
                for (band, rows) in rows.chunks_mut(band_rows * layout.pitch).take(bands).enumerate() {
                    tasks[first_task + band].planes.push(rows);
                }
            }
        }
        tasks.into_par_iter().for_each(|task| {
            let kernel = UpdateBand { pass: self, task, band_rows, sweep: strategy.planes_per_sweep };
            dispatch(strategy.instruction_set, kernel);
        });
    }

    /// Returns v of row j of plane k.
    #[inline(always)]
    fn courant_row(&self, j: usize, k: usize) -> CourantRow<'_, R> {
        match self.courant {
            CourantPlanes::Uniform(v) => CourantRow::Uniform(v),
            CourantPlanes::Field(v) => CourantRow::Field(&v[self.layout.row(j, k)..]),
        }
    }
}

/// Rows of one band in consecutive planes.
#[derive(Debug)]
struct BandTask<'a, R> {
    first_plane: usize,
    first_row: usize,
    /// The rows of the band in each plane, with the space between rows. The last row may end with
    /// the last register of its nodes.
    planes: Vec<&'a mut [R]>,
}

struct UpdateBand<'a, 'b, R> {
    pass: &'a StencilPass<'a, R>,
    task: BandTask<'b, R>,
    band_rows: usize,
    sweep: usize,
}

impl<R: Scalar> SimdKernel for UpdateBand<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
        match self.pass.courant {
            CourantPlanes::Uniform(_) => self.march_with_radius::<R::Register<S, D>, false>(),
            CourantPlanes::Field(_) => self.march_with_radius::<R::Register<S, D>, true>(),
        }
    }
}

impl<R: Scalar> UpdateBand<'_, '_, R> {
    #[inline(always)]
    fn march_with_radius<V: Vector<Scalar = R>, const IS_VARIABLE: bool>(self) {
        let is_volume = self.pass.layout.ghost_planes > 0;
        match (is_volume, self.pass.stencil.radius) {
            (false, 1) => self.march::<V, 1, 2, IS_VARIABLE>(),
            (false, 2) => self.march::<V, 2, 2, IS_VARIABLE>(),
            (false, 3) => self.march::<V, 3, 2, IS_VARIABLE>(),
            (false, _) => self.march::<V, 4, 2, IS_VARIABLE>(),
            (true, 1) => self.march::<V, 1, 3, IS_VARIABLE>(),
            (true, 2) => self.march::<V, 2, 3, IS_VARIABLE>(),
            (true, 3) => self.march::<V, 3, 3, IS_VARIABLE>(),
            (true, _) => self.march::<V, 4, 3, IS_VARIABLE>(),
        }
    }

    /// Updates the planes of the band one or two at a time.
    #[inline(always)]
    fn march<V: Vector<Scalar = R>, const RADIUS: usize, const DIMENSIONS: usize, const IS_VARIABLE: bool>(
        mut self,
    ) {
        let mut planes = std::mem::take(&mut self.task.planes);
        let mut rest = &mut planes[..];
        let mut k = self.task.first_plane;
        while DIMENSIONS == 3
            && self.sweep == 2
            && let [first, second, after @ ..] = rest
        {
            self.update_pair::<V, RADIUS, IS_VARIABLE>(k, [first, second]);
            (k, rest) = (k + 2, after);
        }
        while let [plane, after @ ..] = rest {
            self.update_plane::<V, RADIUS, DIMENSIONS, IS_VARIABLE>(k, plane);
            (k, rest) = (k + 1, after);
        }
    }

    /// Returns the rows of the band.
    #[inline(always)]
    fn rows(&self) -> usize {
        self.band_rows.min(self.pass.layout.nodes[1] - self.task.first_row)
    }

    /// Updates all rows of the band in plane `k`.
    #[inline(always)]
    fn update_plane<
        V: Vector<Scalar = R>,
        const RADIUS: usize,
        const DIMENSIONS: usize,
        const IS_VARIABLE: bool,
    >(
        &self,
        k: usize,
        plane: &mut [R],
    ) {
        let (pass, layout) = (self.pass, self.pass.layout);
        let strides = Strides { pitch: layout.pitch, plane: layout.plane };
        for row in 0..self.rows() {
            let j = self.task.first_row + row;
            update_row::<V, R, RADIUS, DIMENSIONS, IS_VARIABLE>(
                pass.stencil,
                pass.u,
                layout.row(j, k),
                strides,
                pass.courant_row(j, k),
                &mut plane[row * layout.pitch..],
                layout.nodes[0],
            );
        }
    }

    /// Updates all rows of the band in the planes `k` and `k` + 1.
    #[inline(always)]
    fn update_pair<V: Vector<Scalar = R>, const RADIUS: usize, const IS_VARIABLE: bool>(
        &self,
        k: usize,
        [first, second]: [&mut [R]; 2],
    ) {
        let (pass, layout) = (self.pass, self.pass.layout);
        let strides = Strides { pitch: layout.pitch, plane: layout.plane };
        for row in 0..self.rows() {
            let j = self.task.first_row + row;
            update_row_pair::<V, R, RADIUS, IS_VARIABLE>(
                pass.stencil,
                pass.u,
                layout.row(j, k),
                strides,
                [pass.courant_row(j, k), pass.courant_row(j, k + 1)],
                [&mut first[row * layout.pitch..], &mut second[row * layout.pitch..]],
                layout.nodes[0],
            );
        }
    }
}
