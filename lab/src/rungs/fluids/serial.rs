//! The course's forces on one CPU core: every pair once, with the reaction by Newton's third law.
//!
//! The course's code has three errors, which are corrected here:
//!
//! - Its force (A / r⁸ − B / r¹⁴) (x_i − x_j) has the wrong sign: it attracts where it should
//!   repel. The force on i is (B / r¹⁴ − A / r⁸) (x_i − x_j), with A = 24 ε σ⁶ and B = 48 ε σ¹².
//! - After the inner loop it assigns the sum to particle i. That overwrites the reactions of all
//!   pairs with lower indices. The sum must be added.
//! - Its integrator adds a half step of the velocity before the drift and another one after it,
//!   both with the old force. The drift adds dt² a / 2 once more, which the first half step already
//!   contains. Velocity Verlet computes new forces before the second half step ([`orrery_fluids`]).

use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;

use super::{ATTRACTION, REPULSION, RungBox};

/// A particle as the course stores it: all of its numbers together.
#[derive(Clone, Copy, Debug)]
struct SerialParticle {
    /// Fractions of the box.
    position: [u32; 3],
    force: [f32; 3],
}

/// Particles on the CPU.
#[derive(Clone, Debug)]
pub struct SerialFluid {
    particles: Vec<SerialParticle>,
    bounds: RungBox,
}

impl SerialFluid {
    /// Copies the particles. They have one species with σ = ε = 1.
    pub fn new(particles: &FluidParticles, cutoff: f64) -> Self {
        let particle = |k: usize| SerialParticle {
            position: particles.fractions(k).map(|fraction| (fraction >> 32) as u32),
            force: [0.0; 3],
        };
        Self {
            particles: (0..particles.len()).map(particle).collect(),
            bounds: RungBox::new(&particles.bounds, cutoff),
        }
    }

    /// Computes all forces, one pair after another.
    pub fn update_forces(&mut self) {
        let RungBox { scale, cutoff2 } = self.bounds;
        self.particles.iter_mut().for_each(|particle| particle.force = [0.0; 3]);
        for index in 0..self.particles.len() {
            let (before, sources) = self.particles.split_at_mut(index + 1);
            let target = &mut before[index];
            let mut sum = [0.0f32; 3];
            for source in sources {
                let d = [0, 1, 2].map(|axis| {
                    let difference = target.position[axis].wrapping_sub(source.position[axis]);
                    difference as i32 as f32 * scale[axis]
                });
                let r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                let r4 = r2 * r2;
                let r8 = r4 * r4;
                let r14 = r8 * r4 * r2;
                let term = REPULSION / r14 - ATTRACTION / r8;
                let weight = if r2 < cutoff2 { term } else { 0.0 };
                for axis in 0..3 {
                    sum[axis] += weight * d[axis];
                    source.force[axis] -= weight * d[axis];
                }
            }
            (0..3).for_each(|axis| target.force[axis] += sum[axis]);
        }
    }

    /// Returns the forces of the latest update.
    pub fn forces(&self) -> Vec3s {
        let column =
            |axis: usize| self.particles.iter().map(|particle| f64::from(particle.force[axis])).collect();
        Vec3s { x: column(0), y: column(1), z: column(2) }
    }
}
