//! Steps on all cores of the CPU, with SIMD.
//!
//! Planes are divided into bands of rows, and a task marches along z over one band: the nine planes
//! of u that the stencil reads stay in the second-level cache, so u comes from memory about once
//! per step. The new values replace those of the step before, in the memory that was just read.
//!
//! Cost with order 8 in three dimensions and single precision: 40 flops and 12 bytes per node, 16
//! bytes with a velocity per node. The limit is not the memory but the second-level cache: each row
//! that the stencil reads along y and z comes from there again. Results have the same bits for
//! every strategy, number of threads and division into bands.

use std::ops::Range;

use orrery_model::format_count;
use orrery_model::wave::Sides;
use orrery_simd::{InstructionSet, SimdKernel, Vector, dispatch};
use rayon::prelude::*;

use super::images::write_images;
use super::kernels::{CourantRow, Strides, update_row, update_row_pair};
use super::layer_pass::{self, AbsorbBand, BandOfPlane, LayerPart, SlabLayer};
use super::layout::Layout;
use super::{LayerCoefficients, MAX_RADIUS, Stencil};
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
    ///
    /// Measured on two AVX-512 cores with 2 MiB of second-level cache each, 256³ nodes in f32 with
    /// order 8 (`cargo bench -p orrery-fields --bench wave_cpu`), in Gpoint/s: 1.3 to 1.6 with
    /// uniform velocity, 1.2 to 1.4 with a velocity per node, 0.5 to 0.7 with layers of 10 nodes on
    /// all sides. Two planes per sweep are about 15% faster than one. Caches of 256 and 512 KiB do
    /// not differ within the noise, and 1 MiB is slower.
    pub fn resolve() -> Self {
        Self { instruction_set: InstructionSet::best(), planes_per_sweep: 2, cache_bytes: 1 << 19 }
    }

    /// Returns strategies worth comparing, for the ladder and the self-test.
    pub fn all() -> Vec<Self> {
        let best = Self::resolve();
        let one_plane = Self { planes_per_sweep: 1, ..best };
        let sets = InstructionSet::available().map(|instruction_set| Self { instruction_set, ..best });
        [one_plane].into_iter().chain(sets).collect()
    }

    /// Returns a name for reports, for example "AVX-512, 2 planes per sweep".
    pub fn name(&self) -> String {
        let planes = format_count(self.planes_per_sweep as u64, "plane", "planes");
        format!("{}, {planes} per sweep", self.instruction_set.name())
    }

    /// Divides the rows of a plane into bands. Bands start at multiples of [`BAND_UNIT`] rows. The
    /// first and the last band contain `end_rows` rows at least.
    fn bands<R>(&self, layout: &Layout, radius: usize, end_rows: usize) -> Vec<Range<usize>> {
        let [_, ny, nz] = layout.nodes;
        let planes = 2 * radius + self.planes_per_sweep;
        let mut rows = self.cache_bytes / (planes * layout.pitch * size_of::<R>());
        if nz == 1 {
            // In two dimensions a band is a task.
            rows = rows.min(ny.div_ceil(4 * rayon::current_num_threads()));
        }
        let rows = rows.saturating_sub(2 * radius).max(end_rows).next_multiple_of(BAND_UNIT);
        let count = (ny / rows).max(1);
        let start = |band: usize| if band == count { ny } else { band * rows };
        (0..count).map(|band| start(band)..start(band + 1)).collect()
    }
}

/// Unit of the rows of a band: the lines of a group in an absorbing layer along x.
const BAND_UNIT: usize = layer_pass::LANES;

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

/// A step of some planes without the layers along z and without sources.
#[derive(Clone, Copy, Debug)]
pub struct StencilPass<'a, R> {
    /// Layout of all fields.
    pub layout: &'a Layout,
    /// Weights.
    pub stencil: &'a Stencil<R>,
    /// v at the nodes.
    pub courant: CourantPlanes<'a, R>,
    /// Conditions on the sides.
    pub sides: &'a Sides,
    /// u, with its ghost nodes.
    pub u: &'a [R],
}

impl<R: Scalar> StencilPass<'_, R> {
    /// Replaces the values of `planes` in `next`, which are those of the step before, by the new
    /// ones. Applies the absorbing layers along x and y, and writes the images in these planes.
    pub fn run(
        &self,
        strategy: &WaveCpuStrategy,
        planes: Range<usize>,
        next: &mut [R],
        layers: &mut [SlabLayer<R>],
        coefficients: &[LayerCoefficients<R>],
    ) {
        let layout = self.layout;
        let along_y = coefficients.iter().filter(|layer| layer.side.axis() == 1);
        let thickest = along_y.map(|layer| layer.thickness()).max().unwrap_or(0);
        let bands = strategy.bands::<R>(layout, self.stencil.radius, thickest + MAX_RADIUS + 1);
        let chunks = (2 * rayon::current_num_threads()).div_ceil(bands.len());
        let chunk_planes = planes.len().div_ceil(chunks).max(MIN_TASK_PLANES.min(planes.len())).max(1);
        let mut tasks: Vec<BandTask<R>> = Vec::new();
        for first_plane in planes.clone().step_by(chunk_planes) {
            let task = |rows: &Range<usize>| BandTask { first_plane, rows: rows.clone(), pieces: Vec::new() };
            tasks.extend(bands.iter().map(task));
        }
        let storage = layout.planes_mut(planes.clone(), next);
        for (k, plane) in storage.chunks_mut(layout.plane).enumerate() {
            let mut rest = plane;
            let tasks = &mut tasks[k / chunk_planes * bands.len()..][..bands.len()];
            for task in tasks {
                let (next, after) = rest.split_at_mut(layout.band(&task.rows).len());
                task.pieces.push(Piece { next, layers: [const { None }; 4] });
                rest = after;
            }
        }
        for layer in layers {
            let coefficients = &coefficients[layer.index];
            for (k, parts) in layer.parts(layout, planes.clone(), &bands, coefficients).enumerate() {
                for (band, part) in parts {
                    let task = &mut tasks[k / chunk_planes * bands.len() + band];
                    task.pieces[k % chunk_planes].layers[coefficients.side as usize] = Some(part);
                }
            }
        }
        tasks.into_par_iter().for_each(|task| {
            dispatch(
                strategy.instruction_set,
                UpdateBand {
                    pass: self,
                    task,
                    sweep: strategy.planes_per_sweep,
                    instruction_set: strategy.instruction_set,
                },
            );
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
    rows: Range<usize>,
    /// The band in each plane.
    pieces: Vec<Piece<'a, R>>,
}

/// A band in one plane.
#[derive(Debug)]
struct Piece<'a, R> {
    /// New values: the part [`Layout::band`] of the plane.
    next: &'a mut [R],
    /// Parts of the absorbing layers along x and y, indexed by [`Side`](orrery_model::wave::Side).
    layers: [Option<LayerPart<'a, R>>; 4],
}

struct UpdateBand<'a, 'b, R> {
    pass: &'a StencilPass<'a, R>,
    task: BandTask<'b, R>,
    sweep: usize,
    instruction_set: InstructionSet,
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
        let mut pieces = std::mem::take(&mut self.task.pieces);
        let mut rest = &mut pieces[..];
        let mut k = self.task.first_plane;
        while DIMENSIONS == 3
            && self.sweep == 2
            && let [first, second, after @ ..] = rest
        {
            self.update_pair::<V, RADIUS, IS_VARIABLE>(k, [first.next, second.next]);
            self.finish_plane(k, first);
            self.finish_plane(k + 1, second);
            (k, rest) = (k + 2, after);
        }
        while let [piece, after @ ..] = rest {
            self.update_plane::<V, RADIUS, DIMENSIONS, IS_VARIABLE>(k, piece.next);
            self.finish_plane(k, piece);
            (k, rest) = (k + 1, after);
        }
    }

    /// Applies the layers along x and y, and writes images, while the plane is in the cache.
    #[inline(always)]
    fn finish_plane(&self, k: usize, piece: &mut Piece<R>) {
        let (pass, rows) = (self.pass, self.task.rows.clone());
        let base = pass.layout.band(&rows).start;
        for part in piece.layers.iter_mut().flatten() {
            let band = BandOfPlane { k, rows: rows.clone(), base, next: piece.next };
            dispatch(self.instruction_set, AbsorbBand { pass, part, band });
        }
        write_images(pass.layout, pass.sides, rows, piece.next, base);
    }

    /// Returns the position of row `j` in the part of the band.
    #[inline(always)]
    fn row_in_band(&self, j: usize) -> usize {
        let layout = self.pass.layout;
        layout.row_in_plane(j) - layout.band(&self.task.rows).start
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
        next: &mut [R],
    ) {
        let (pass, layout) = (self.pass, self.pass.layout);
        let strides = Strides { pitch: layout.pitch, plane: layout.plane };
        for j in self.task.rows.clone() {
            update_row::<V, R, RADIUS, DIMENSIONS, IS_VARIABLE>(
                pass.stencil,
                pass.u,
                layout.row(j, k),
                strides,
                pass.courant_row(j, k),
                &mut next[self.row_in_band(j)..],
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
        for j in self.task.rows.clone() {
            let row = self.row_in_band(j);
            update_row_pair::<V, R, RADIUS, IS_VARIABLE>(
                pass.stencil,
                pass.u,
                layout.row(j, k),
                strides,
                pass.courant_row(j, k),
                [&mut first[row..], &mut second[row..]],
                layout.nodes[0],
            );
        }
    }
}
