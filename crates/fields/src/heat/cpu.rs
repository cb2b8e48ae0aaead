//! Steps on all cores of the CPU, with SIMD and several steps per pass over the memory.
//!
//! The rows are divided into bands, and each task updates the tiles of one band (`tile`).
//! Results have the same bits for every strategy, number of threads and division into bands.
//!
//! Cost of uniform conductivity: 10 flops per node and step, and one read and one write of the
//! state per pass. One step per pass is limited by the memory, 16 steps by loads from the caches.

use std::ops::Range;

use orrery_simd::{InstructionSet, SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

use super::tile::{MAX_STEPS_PER_PASS, PlatePass, Rows, Workspace};
use super::{Plate, StepCoefficients, single_step, tile};
use crate::Scalar;

/// How the CPU computes steps. It is plain data, so that benchmarks and tests can enumerate
/// strategies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeatCpuStrategy {
    /// SIMD instruction set.
    pub instruction_set: InstructionSet,
    /// Steps per pass over the memory, from 1 to [`HeatCpuStrategy::MAX_STEPS_PER_PASS`].
    pub steps_per_pass: usize,
    /// Columns of a tile. Rounded up to a multiple of 16, and to at least 32.
    pub tile_width: usize,
    /// Whether results bypass the cache. This avoids reading the memory that is overwritten, and is
    /// slower if the fields fit in the cache.
    pub is_streaming: bool,
}

impl HeatCpuStrategy {
    /// Most steps per pass.
    pub const MAX_STEPS_PER_PASS: usize = MAX_STEPS_PER_PASS;

    /// Returns the strategy for `plate` on this machine.
    ///
    /// Measured on two AVX-512 cores with 2 MiB of second-level cache each, 16384² nodes in f32 and
    /// uniform conductivity (`cargo bench -p orrery-fields --bench heat_cpu`), in Gpoint/s: 9.2
    /// with 16 steps per pass and tiles of 1024 columns, 8.9 with 8 steps, 5.9 with 4 steps, 3.7
    /// with 1 step. Tiles of 512 and of 2048 columns were 10% slower. Without streaming stores, 1
    /// step reached 2.7 to 3.2.
    pub fn resolve<R: Scalar>(plate: &Plate<R>) -> Self {
        Self {
            instruction_set: InstructionSet::best(),
            steps_per_pass: MAX_STEPS_PER_PASS,
            tile_width: TILE_BYTES / size_of::<R>(),
            is_streaming: plate.grid.len() * size_of::<R>() > STREAMING_BYTES,
        }
    }

    /// Returns strategies worth comparing, for the ladder and the self-test: every instruction set
    /// with one step per pass, and the widest one with more.
    pub fn all<R: Scalar>(plate: &Plate<R>) -> Vec<Self> {
        let best = Self::resolve(plate);
        let one_step = InstructionSet::available().map(|instruction_set| Self {
            instruction_set,
            steps_per_pass: 1,
            ..best
        });
        let more_steps = [2, 4, 8, 16].map(|steps_per_pass| Self { steps_per_pass, ..best });
        one_step.chain(more_steps).collect()
    }

    /// Returns a name for reports, for example "AVX-512, 8 steps per pass".
    pub fn name(&self) -> String {
        let steps = orrery_model::format_count(self.steps_per_pass as u64, "step", "steps");
        format!("{}, {steps} per pass", self.instruction_set.name())
    }

    /// Computes `steps` steps from the state `from` into `to`, in one pass. Both have one value per
    /// node, and `steps` is at most `steps_per_pass`.
    pub fn pass<R: Scalar>(
        &self,
        plate: &Plate<R>,
        coefficients: StepCoefficients<R>,
        steps: usize,
        from: &[R],
        to: &mut [R],
    ) {
        let rows = Rows { values: from, first: 0 };
        self.update_rows(plate, coefficients, steps, rows, 0..plate.grid.ny, to);
    }

    /// Computes `steps` steps for the rows `rows` in one pass.
    ///
    /// `from` contains the state of these rows and of `steps` rows on either side, as far as the
    /// plate extends. `to` receives the new state of `rows`, and contains nothing else.
    pub fn update_rows<R: Scalar>(
        &self,
        plate: &Plate<R>,
        coefficients: StepCoefficients<R>,
        steps: usize,
        from: Rows<R>,
        rows: Range<usize>,
        to: &mut [R],
    ) {
        assert!((1..=self.steps_per_pass).contains(&steps) && steps <= MAX_STEPS_PER_PASS);
        let pass = PlatePass { plate, coefficients, steps, from, is_streaming: self.is_streaming };
        R::update_heat_rows(self, pass, rows, to);
    }

    /// The loops of [`Self::update_rows`].
    pub(crate) fn run_loops<R: Scalar>(&self, pass: PlatePass<R>, rows: Range<usize>, to: &mut [R]) {
        let PlatePass { plate, steps, .. } = pass;
        let nx = plate.grid.nx;
        let band_rows = band_rows(rows.len(), steps);
        to.par_chunks_mut(band_rows * nx).enumerate().for_each_init(
            || Workspace::new(plate, steps, self.tile_width),
            |workspace, (band, to)| {
                let first = rows.start + band * band_rows;
                let rows = first..first + to.len() / nx;
                dispatch(self.instruction_set, UpdateBand { pass, rows, to, workspace });
            },
        );
    }
}

/// Width of a tile. 17 levels of four such rows take 272 KiB, and the rows that one level reads and
/// writes fit in the first-level cache.
const TILE_BYTES: usize = 4096;

/// Size of a field from which results bypass the cache. Two smaller fields usually fit in it.
const STREAMING_BYTES: usize = 32 << 20;

/// Returns the height of a band. Four bands per thread balance the load, and bands much higher than
/// the halo of `steps` rows make it cheap.
fn band_rows(rows: usize, steps: usize) -> usize {
    rows.div_ceil(4 * rayon::current_num_threads()).max(8 * steps).max(1)
}

struct UpdateBand<'a, R> {
    pass: PlatePass<'a, R>,
    rows: Range<usize>,
    to: &'a mut [R],
    workspace: &'a mut Workspace<R>,
}

impl<R: Scalar> SimdKernel for UpdateBand<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        let plate = self.pass.plate;
        if self.pass.steps == 1 && plate.resistivity.is_none() && plate.source.is_none() {
            let ghost = &mut Vec::new();
            single_step::update_band::<R::Register<S, D>, R>(&self.pass, self.rows, self.to, ghost);
        } else {
            tile::update_band::<R::Register<S, D>, R>(&self.pass, self.rows, self.to, self.workspace);
        }
    }
}
