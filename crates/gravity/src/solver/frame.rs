//! Frames in which forces are computed: coordinates relative to a centre, scaled by a power of two.
//!
//! In such a frame f32 neither overflows (for example with lengths in metres) nor loses the digits
//! of small differences.

use orrery_model::analysis::max_or_nan;
use orrery_model::{Precision, Vec3s};
use orrery_simd::Real;
use rayon::prelude::*;

use super::kernels::{BodyList, NearBodyList, NearTarget};
use super::{ForceProblem, Forces};
use crate::tree::Cube;

/// Scale factors for all bodies: `length` × coordinate and `mass` × mass are of order 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Inverse of a power of two near the size of the system.
    pub length: f64,
    /// Inverse of a power of two near the total mass.
    pub mass: f64,
    /// Centre of the system.
    centre: [f64; 3],
    /// A scaled coordinate that is outside the system in every frame.
    pub outside: f64,
}

/// Returns the largest power of two at or below `x`, or 1 if `x` is zero, subnormal or not finite.
fn power_of_two(x: f64) -> f64 {
    if x.is_normal() { f64::from_bits(x.to_bits() & 0x7ff0_0000_0000_0000) } else { 1.0 }
}

impl Scaling {
    /// Chooses the scales for bodies inside `cube` with `total_mass`.
    ///
    /// If the softening is longer than the cube, it sets the length scale, because its square must
    /// be in range as well.
    pub fn new(cube: &Cube, total_mass: f64, eps: f64) -> Self {
        let length = 1.0 / power_of_two(cube.side.max(eps));
        let centre = cube.corner.map(|c| c + 0.5 * cube.side);
        // A scaled coordinate is at most 2 from the centre of its frame. The frame of f64 is not
        // shifted: there it is at most that of the far corner.
        let reach = cube.corner.iter().map(|c| (c + cube.side).abs().max(c.abs())).fold(0.0, max_or_nan);
        Self { length, mass: 1.0 / power_of_two(total_mass), centre, outside: 8.0 + 2.0 * reach * length }
    }

    /// Returns true if squares of lengths, and masses times such squares, are well within the range
    /// of f64, also for small cells.
    pub fn squares_in_range(&self) -> bool {
        let square = self.length * self.length;
        [square, self.mass * square].iter().all(|unit| (1e-250..1e250).contains(unit))
    }

    /// Returns the origin of the frame for targets around `group_centre`. In f64 there is no shift,
    /// because it would only add a rounding error.
    pub fn frame_centre(&self, precision: Precision, group_centre: [f64; 3]) -> [f64; 3] {
        match precision {
            Precision::Single => self.centre,
            Precision::Mixed => group_centre,
            Precision::Double => [0.0; 3],
        }
    }

    /// Converts a position to the frame around `centre`.
    #[inline(always)]
    pub fn local_position<R: Real>(&self, position: [f64; 3], centre: [f64; 3]) -> [R; 3] {
        std::array::from_fn(|c| R::from_f64((position[c] - centre[c]) * self.length))
    }

    /// Appends the bodies `range` to `list`, in the frame around `centre`.
    #[inline(always)]
    pub fn append_bodies<R: Real>(
        &self,
        list: &mut BodyList<R>,
        position: &Vec3s,
        mass: &[f64],
        range: std::ops::Range<usize>,
        centre: [f64; 3],
    ) {
        for (c, column) in [&position.x, &position.y, &position.z].into_iter().enumerate() {
            let shift = centre[c];
            list.position[c]
                .extend(column[range.clone()].iter().map(|&x| R::from_f64((x - shift) * self.length)));
        }
        list.mass.extend(mass[range].iter().map(|&m| R::from_f64(m * self.mass)));
    }

    /// Appends the bodies `range` to `list`. Its rounded positions are in the frame around
    /// `centre`.
    #[inline(always)]
    pub fn append_near_bodies(
        &self,
        list: &mut NearBodyList,
        position: &Vec3s,
        mass: &[f64],
        range: std::ops::Range<usize>,
        centre: [f64; 3],
    ) {
        self.append_bodies(&mut list.rounded, position, mass, range.clone(), centre);
        for (c, column) in [&position.x, &position.y, &position.z].into_iter().enumerate() {
            list.exact[c].extend(column[range.clone()].iter().map(|&x| x * self.length));
        }
    }

    /// Returns a target at `position` for a list with the frame around `centre`.
    #[inline(always)]
    pub fn near_target(&self, position: [f64; 3], centre: [f64; 3]) -> NearTarget {
        NearTarget {
            rounded: self.local_position(position, centre),
            exact: self.local_position(position, [0.0; 3]),
        }
    }

    /// Returns the scaled square of the distance `margin`.
    #[inline(always)]
    pub fn near_square(&self, margin: f64) -> f32 {
        f32::from_f64((margin * self.length).powi(2))
    }
}

/// Bodies whose results one thread converts at a time.
const CONVERSION_CHUNK: usize = 1024;

/// Converts results to the user's units and order, and writes them to `forces`. The memory of
/// `forces` is reused.
///
/// `results` contains ax, ay, az and φ of each body in solver order. `solver_index` returns the
/// index in that order of a body, given the user's index.
pub fn collect_forces(
    problem: &ForceProblem,
    scaling: &Scaling,
    results: &[[f64; 4]],
    solver_index: impl Fn(usize) -> usize + Sync,
    forces: &mut Forces,
) {
    let n = results.len();
    // The division comes first: the square of an inverse length may overflow where the product does
    // not.
    let potential_unit = problem.g * (scaling.length / scaling.mass);
    let acceleration_unit = potential_unit * scaling.length;
    let Vec3s { x, y, z } = &mut forces.acceleration;
    let potential = forces.potential.take().unwrap_or_default();
    let mut potential = if problem.with_potential { potential } else { Vec::new() };
    [&mut *x, &mut *y, &mut *z].into_iter().for_each(|column| column.resize(n, 0.0));
    potential.resize(if problem.with_potential { n } else { 0 }, 0.0);
    // Without potentials there is an empty chunk of them for each chunk of bodies.
    let mut potential_chunks: Vec<&mut [f64]> = potential.chunks_mut(CONVERSION_CHUNK).collect();
    potential_chunks.resize_with(n.div_ceil(CONVERSION_CHUNK), Default::default);
    let chunks = x.par_chunks_mut(CONVERSION_CHUNK).zip(y.par_chunks_mut(CONVERSION_CHUNK));
    let chunks = chunks.zip(z.par_chunks_mut(CONVERSION_CHUNK)).zip(potential_chunks).enumerate();
    chunks.for_each(|(chunk, (((x, y), z), potential))| {
        for k in 0..x.len() {
            let result = &results[solver_index(chunk * CONVERSION_CHUNK + k)];
            [x[k], y[k], z[k]] = [0, 1, 2].map(|c| acceleration_unit * result[c]);
            if let Some(potential) = potential.get_mut(k) {
                *potential = potential_unit * result[3];
            }
        }
    });
    forces.potential = problem.with_potential.then_some(potential);
}
