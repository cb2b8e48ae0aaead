//! Coordinates in which a force path computes: shifted to a centre and scaled by a power of two, so that f32
//! neither overflows in metres nor loses the digits of small differences.

use orrery_model::Vec3s;

use super::kernels::BodyList;
use super::{Forces, Problem};
use crate::settings::Precision;
use crate::simd::Real;
use crate::tree::Cube;

/// Scales for all bodies: `length` × coordinate and `mass` × mass are of order 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// Inverse of a power of two near the size of the system.
    pub length: f64,
    /// Inverse of a power of two near the total mass.
    pub mass: f64,
    /// The middle of the system.
    middle: [f64; 3],
    /// A scaled coordinate where no body is, in any frame.
    pub outside: f64,
}

/// The power of two at or below `x`; 1 where that has no meaning.
fn power_of_two(x: f64) -> f64 {
    if x.is_normal() { f64::from_bits(x.to_bits() & 0x7ff0_0000_0000_0000) } else { 1.0 }
}

impl Scaling {
    /// For bodies inside `cube` of `total_mass`. A softening that is longer than the cube sets the scale of length:
    /// its square must hold too.
    pub fn new(cube: &Cube, total_mass: f64, eps: f64) -> Self {
        let length = 1.0 / power_of_two(cube.side.max(eps));
        let middle = cube.corner.map(|c| c + 0.5 * cube.side);
        // Scaled coordinates lie within 2 of their centre, and within that of the far corner in f64's frame.
        let reach = cube.corner.iter().fold(0.0, |r: f64, c| r.max((c + cube.side).abs().max(c.abs())));
        Self { length, mass: 1.0 / power_of_two(total_mass), middle, outside: 8.0 + 2.0 * reach * length }
    }

    /// Whether squares of lengths, and masses times them, are well within f64's range, deep cells' too.
    pub fn squares_in_range(&self) -> bool {
        let square = self.length * self.length;
        [square, self.mass * square].iter().all(|unit| (1e-250..1e250).contains(unit))
    }

    /// The origin for targets around `group_centre`. In f64 it stays where it is: a shift would only round.
    pub fn frame_centre(&self, precision: Precision, group_centre: [f64; 3]) -> [f64; 3] {
        match precision {
            Precision::Single => self.middle,
            Precision::Mixed => group_centre,
            Precision::Double => [0.0; 3],
        }
    }

    /// A position in the frame about `centre`.
    #[inline(always)]
    pub fn to_local<R: Real>(&self, position: [f64; 3], centre: [f64; 3]) -> [R; 3] {
        std::array::from_fn(|c| R::from_f64((position[c] - centre[c]) * self.length))
    }

    /// Appends the bodies `range` to `list` in the frame about `centre`.
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
}

/// Brings results back to the user's units and order.
pub fn collect_forces(
    problem: &Problem,
    scaling: &Scaling,
    results: &[[f64; 4]],
    order: impl Iterator<Item = u32>,
) -> Forces {
    let n = results.len();
    // Divided first: the square of an inverse length may leave f64's range where the product does not.
    let potential = problem.g * (scaling.length / scaling.mass);
    let acceleration = potential * scaling.length;
    let mut forces =
        Forces { acceleration: Vec3s::zeros(n), potential: problem.with_potential.then(|| vec![0.0; n]) };
    for (result, i) in results.iter().zip(order) {
        let i = i as usize;
        forces.acceleration.set(i, [0, 1, 2].map(|c| acceleration * result[c]));
        if let Some(potentials) = &mut forces.potential {
            potentials[i] = potential * result[3];
        }
    }
    forces
}
