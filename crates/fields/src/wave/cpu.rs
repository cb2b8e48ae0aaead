//! Steps on all cores of the CPU, with SIMD.
//!
//! Planes are divided into bands of rows, and a task marches along z over one band: the planes of u
//! that the stencil reads stay in the second-level cache, so u comes from memory about once per
//! step. The new values replace those of the step before, in the memory that was just read. A task
//! updates four planes at a time. They share loads along z, and need 4 lines of the second-level
//! cache per register instead of 10.
//!
//! Cost with order 8 in three dimensions and single precision: 41 flops and 12 bytes per node, 16
//! bytes with a velocity per node. The hardware does not load rows of a band ahead across pages, so
//! the kernel does it, about one row ahead. Absorbing layers are applied to a plane of the band
//! while it is in the cache. Their memory adds 16 bytes per node of a layer.
//!
//! Results have the same bits for every strategy, number of threads and division into bands.

use std::ops::Range;

use orrery_model::format_count;
use orrery_model::wave::Sides;
use orrery_simd::{InstructionSet, SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

use super::bands::{BandPiece, BandTask, Tasks, divided};
use super::column_pass::{AbsorbColumns, ColumnWindow};
use super::images::write_images;
use super::kernels::{CourantRow, RowBlock, Strides, update_rows};
use super::layer_pass::{AbsorbRows, SlabLayer, reached};
use super::layout::WaveLayout;
use super::{LayerCoefficients, MAX_RADIUS, Stencil};
use crate::Scalar;

/// How the CPU computes steps. It is plain data, so that benchmarks and tests can enumerate
/// strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaveCpuStrategy {
    /// SIMD instruction set.
    pub instruction_set: InstructionSet,
    /// Planes that are updated at a time: 1 or 4. They share loads along z.
    pub planes_per_sweep: usize,
    /// Bytes of the second-level cache that the planes of a band may use.
    pub cache_bytes: usize,
}

impl WaveCpuStrategy {
    /// Returns the strategy for this machine.
    ///
    /// Measured on two AVX-512 cores with 2 MiB of second-level cache each, 256³ nodes in f32 with
    /// order 8 (`cargo bench -p orrery-fields --bench wave_cpu`), fastest runs in Gpoint/s. The
    /// host was busy, so differences below 20% do not count. Four planes per sweep: 1.8 with
    /// uniform velocity, 1.4 with a velocity per node, 0.84 with layers of 10 nodes on all sides.
    /// An earlier version with 1, 2 and 4 planes: 1.5, 1.8 and 2.0, and 1.3, 1.5 and 1.5 with a
    /// velocity per node. Sizes of the cache were compared with the same loops in C: bands of 32,
    /// 48 and 64 rows do not differ within the noise.
    pub fn resolve() -> Self {
        Self { instruction_set: InstructionSet::best(), planes_per_sweep: 4, cache_bytes: 1 << 19 }
    }

    /// Returns strategies worth comparing, for the ladder and the self-test.
    pub fn all() -> Vec<Self> {
        let best = Self::resolve();
        let single = Self { planes_per_sweep: 1, ..best };
        let sets = InstructionSet::available().map(|instruction_set| Self { instruction_set, ..best });
        std::iter::once(single).chain(sets).collect()
    }

    /// Returns a name for reports, for example "AVX-512, 4 planes per sweep".
    pub fn name(&self) -> String {
        let planes = format_count(self.planes_per_sweep as u64, "plane", "planes");
        format!("{}, {planes} per sweep", self.instruction_set.name())
    }

    /// Divides rows of a plane into bands of almost equal size, with `min_rows` rows at least.
    fn bands<R>(
        &self,
        layout: &WaveLayout,
        rows: Range<usize>,
        radius: usize,
        min_rows: usize,
    ) -> Vec<Range<usize>> {
        let planes = 2 * radius + self.planes_per_sweep;
        let mut band_rows = self.cache_bytes / (planes * layout.pitch * size_of::<R>());
        if !layout.is_volume() {
            // In two dimensions a band is a task.
            band_rows = band_rows.min(rows.len().div_ceil(4 * rayon::current_num_threads()));
        }
        let band_rows = band_rows.saturating_sub(2 * radius).max(MIN_BAND_ROWS);
        let count = rows.len().div_ceil(band_rows).min(rows.len() / min_rows);
        divided(rows, count)
    }
}

/// Fewest rows of a band. A band reads eight more than it updates.
const MIN_BAND_ROWS: usize = 16;

/// Fewest planes of a task in three dimensions. A task reads eight more than it updates.
const MIN_TASK_PLANES: usize = 64;

/// Tasks per thread in three dimensions, if there are enough planes.
const TASKS_PER_THREAD: usize = 4;

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

/// A step of some planes without sources.
#[derive(Clone, Copy, Debug)]
pub struct StencilPass<'a, R> {
    /// Layout of all fields.
    pub layout: &'a WaveLayout,
    /// Weights.
    pub stencil: &'a Stencil<R>,
    /// v at the nodes.
    pub courant: CourantPlanes<'a, R>,
    /// Conditions on the sides.
    pub sides: &'a Sides,
    /// u, with its ghost nodes.
    pub u: &'a [R],
}

/// Slices that a pass updates.
pub struct SliceUpdate<'a, R> {
    /// The slices. If a layer is at the end of their axis, they must contain all slices that it
    /// reaches. It takes part if the first or last slice of the slab does.
    pub slices: Range<usize>,
    /// Values of these slices and nothing else: those of the step before, which are replaced by the
    /// new ones.
    pub next: &'a mut [R],
    /// Memory of the absorbing layers.
    pub layers: &'a mut [SlabLayer<R>],
    /// Coefficients of the absorbing layers.
    pub coefficients: &'a [LayerCoefficients<R>],
}

impl<R: Scalar> StencilPass<'_, R> {
    /// Replaces the values of slices by the new ones. Applies the absorbing layers, and writes the
    /// images beyond the sides that are not at the ends of the slices' axis. `halfway` is called
    /// after half of the bands.
    pub fn run(
        &self,
        strategy: &WaveCpuStrategy,
        update: SliceUpdate<'_, R>,
        halfway: Option<&mut dyn FnMut()>,
    ) {
        R::run_wave_pass(self, strategy, update, halfway);
    }

    /// The loops of [`Self::run`].
    pub(crate) fn run_loops(
        &self,
        strategy: &WaveCpuStrategy,
        update: SliceUpdate<'_, R>,
        halfway: Option<&mut dyn FnMut()>,
    ) {
        let SliceUpdate { slices, next, layers, coefficients } = update;
        let (layout, radius) = (self.layout, self.stencil.radius);
        let window = |layer: &LayerCoefficients<R>| {
            (layer.side.axis() == 0).then(|| ColumnWindow::new(layer, radius, layout.nodes[0]))
        };
        let windows: Vec<Option<ColumnWindow<R>>> = coefficients.iter().map(window).collect();
        let thickest = |axis: usize| {
            let layers = coefficients.iter().filter(|layer| layer.side.axis() == axis);
            layers.map(|layer| layer.thickness()).max().unwrap_or(0)
        };
        let (rows, planes) = layout.rows_and_planes(&slices);
        let bands = strategy.bands::<R>(layout, rows, radius, thickest(1) + MAX_RADIUS + 1);
        // A chunk contains all planes that a layer reaches.
        let min_planes = MIN_TASK_PLANES.max(thickest(2) + radius);
        let chunks = (TASKS_PER_THREAD * rayon::current_num_threads()).div_ceil(bands.len());
        let count = chunks.min(planes.len() / min_planes);
        let mut tasks = Tasks::new(layout, bands, divided(planes, count), next);
        for layer in layers {
            let index = layer.index;
            tasks.add_layer(layer, &coefficients[index], windows[index].as_ref());
        }
        let mut tasks = tasks.into_vec();
        if let Some(halfway) = halfway {
            let later = tasks.split_off(tasks.len() / 2);
            self.update_bands(strategy, tasks);
            halfway();
            tasks = later;
        }
        self.update_bands(strategy, tasks);
    }

    fn update_bands(&self, strategy: &WaveCpuStrategy, tasks: Vec<BandTask<'_, R>>) {
        let update = match (self.layout.is_volume(), self.stencil.radius) {
            (false, 1) => Self::update_band::<1, 2>,
            (false, 2) => Self::update_band::<2, 2>,
            (false, 3) => Self::update_band::<3, 2>,
            (false, _) => Self::update_band::<4, 2>,
            (true, 1) => Self::update_band::<1, 3>,
            (true, 2) => Self::update_band::<2, 3>,
            (true, 3) => Self::update_band::<3, 3>,
            (true, _) => Self::update_band::<4, 3>,
        };
        tasks.into_par_iter().with_max_len(1).for_each(|task| update(self, strategy, task));
    }

    /// Updates a band. Each variant of the loops is dispatched by itself: the time of the compiler
    /// grows faster than the size of a function.
    fn update_band<const RADIUS: usize, const DIMENSIONS: usize>(
        &self,
        strategy: &WaveCpuStrategy,
        task: BandTask<'_, R>,
    ) {
        let (sweep, set) = (strategy.planes_per_sweep, strategy.instruction_set);
        match self.courant {
            CourantPlanes::Uniform(_) => dispatch(
                set,
                UpdateBand::<R, RADIUS, DIMENSIONS, false> { pass: self, task, sweep, instruction_set: set },
            ),
            CourantPlanes::Field(_) => dispatch(
                set,
                UpdateBand::<R, RADIUS, DIMENSIONS, true> { pass: self, task, sweep, instruction_set: set },
            ),
        }
    }

    /// Returns v of the row that starts at a position of the field.
    #[inline(always)]
    pub fn courant_at(&self, position: usize) -> CourantRow<'_, R> {
        match self.courant {
            CourantPlanes::Uniform(v) => CourantRow::Uniform(v),
            CourantPlanes::Field(v) => CourantRow::Field(&v[position..]),
        }
    }
}

struct UpdateBand<'a, 'b, R, const RADIUS: usize, const DIMENSIONS: usize, const IS_VARIABLE: bool> {
    pass: &'a StencilPass<'a, R>,
    task: BandTask<'b, R>,
    sweep: usize,
    instruction_set: InstructionSet,
}

impl<R: Scalar, const RADIUS: usize, const DIMENSIONS: usize, const IS_VARIABLE: bool> SimdKernel
    for UpdateBand<'_, '_, R, RADIUS, DIMENSIONS, IS_VARIABLE>
{
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        self.march::<R::Register<S, D>>();
    }
}

impl<R: Scalar, const RADIUS: usize, const DIMENSIONS: usize, const IS_VARIABLE: bool>
    UpdateBand<'_, '_, R, RADIUS, DIMENSIONS, IS_VARIABLE>
{
    /// Updates the planes of the band, several at a time.
    #[inline(always)]
    fn march<V: Vector<Scalar = R>>(mut self) {
        let mut pieces = std::mem::take(&mut self.task.pieces);
        let mut rest = &mut pieces[..];
        let mut k = self.task.first_plane;
        while !rest.is_empty() {
            let count = if DIMENSIONS == 3 && rest.len() >= self.sweep { self.sweep } else { 1 };
            let (now, after) = rest.split_at_mut(count);
            match now {
                [a, b, c, d] if DIMENSIONS == 3 => {
                    let next = [&mut *a.next, b.next, c.next, d.next];
                    self.update_planes::<V, 4>(k, next);
                }
                _ => self.update_planes::<V, 1>(k, [&mut *now[0].next]),
            }
            for (p, piece) in now.iter_mut().enumerate() {
                self.finish_plane(k + p, piece);
            }
            (k, rest) = (k + count, after);
        }
    }

    /// Applies the layers, and writes images, while the plane is in the cache.
    #[inline(always)]
    fn finish_plane(&mut self, k: usize, piece: &mut BandPiece<R>) {
        let (pass, set) = (self.pass, self.instruction_set);
        let (layout, radius) = (pass.layout, pass.stencil.radius);
        let (first, first_in_band) = (self.task.rows.start, self.row_in_band(self.task.rows.start));
        for layer in piece.along_x.iter_mut().flatten() {
            let next = &mut piece.next[first_in_band..];
            dispatch(set, AbsorbColumns { pass, layer, position: layout.row(first, k), next });
        }
        for layer in piece.along_y.iter_mut().flatten() {
            let indices = reached(layer.layer, radius, layout.nodes[1]);
            let next = &mut piece.next[self.row_in_band(indices.start)..];
            dispatch(set, AbsorbRows { pass, layer, indices, origin: layout.row(0, k), next });
        }
        for layer in self.task.along_z.iter_mut().flatten() {
            if reached(layer.layer, radius, layout.nodes[2]).contains(&k) {
                let next = &mut piece.next[first_in_band..];
                dispatch(
                    set,
                    AbsorbRows { pass, layer, indices: k..k + 1, origin: layout.row(first, 0), next },
                );
            }
        }
        let base = layout.band(&self.task.rows).start;
        write_images(layout, pass.sides, self.task.rows.clone(), piece.next, base);
    }

    /// Returns the position of row `j` in the part of the band.
    #[inline(always)]
    fn row_in_band(&self, j: usize) -> usize {
        let layout = self.pass.layout;
        layout.row_in_plane(j) - layout.band(&self.task.rows).start
    }

    /// Updates all rows of the band in the planes from `k` on.
    #[inline(always)]
    fn update_planes<V: Vector<Scalar = R>, const PLANES: usize>(&self, k: usize, next: [&mut [R]; PLANES]) {
        let (pass, layout, rows) = (self.pass, self.pass.layout, &self.task.rows);
        let (first, first_in_band) = (layout.row(rows.start, k), self.row_in_band(rows.start));
        update_rows::<V, R, RADIUS, DIMENSIONS, PLANES, IS_VARIABLE>(
            pass.stencil,
            pass.u,
            RowBlock { first, nodes: layout.nodes[0], rows: rows.len() },
            Strides { pitch: layout.pitch, plane: layout.plane },
            pass.courant_at(first),
            next.map(|plane| &mut plane[first_in_band..]),
        );
    }
}
