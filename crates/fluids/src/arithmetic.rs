//! Arithmetic of pair terms: floating-point terms, and sums in fixed point.
//!
//! A term depends only on the two stored positions, the box and the species. Every operation is
//! rounded once, in the order of [`PairConstants::term`], on every processor. Terms are then
//! rounded to multiples of 2^-[`force_bits`](PairArithmetic::force_bits) and summed as integers. A
//! sum of integers does not depend on its order. So forces have the same bits for any number of
//! threads, any instruction set, any device and any order of neighbours, and opposite forces cancel
//! exactly.
//!
//! Lengths are in units of the largest σ, and energies in units of the largest ε.

use std::ops::{Add, Div, Mul, Sub};

use orrery_model::simulation_box::SimulationBox;

use super::potential::{PairParameters, Potential, SwitchPolynomial, Truncation};
use super::sums::WideSum;

/// A number of the pair arithmetic: f32 or f64.
pub trait PairReal:
    Copy
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// Fewest bits of forces below the unit of force.
    const FORCE_BITS: i32;
    /// Bits of a fraction of the box that differences use.
    const POSITION_BITS: i32;
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// Rounds to this type.
    fn from_f64(x: f64) -> Self;
    /// Returns the difference of two fractions of the box, to the nearest image, in units of
    /// 2^-`POSITION_BITS` of the box.
    fn difference(a: u64, b: u64) -> Self;
    /// Returns self × b + c, rounded once.
    fn fused_mul_add(self, b: Self, c: Self) -> Self;
    /// Returns the square root.
    fn sqrt(self) -> Self;
    /// Rounds to the nearest integer up to `LARGEST_INTEGER`, and halves to even integers.
    fn round_to_i64(self) -> i64;
}

impl PairReal for f32 {
    // Forces of up to 2^15 units fit into 32 bits. The resolution is 1.5e-5 units, and a typical
    // force in a liquid has 30 units. `WEAKEST_NARROW_FORCE` says when more bits are needed.
    const FORCE_BITS: i32 = 16;
    const POSITION_BITS: i32 = 32;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    #[inline(always)]
    fn difference(a: u64, b: u64) -> Self {
        upper_half(a).wrapping_sub(upper_half(b)) as f32
    }
    #[inline(always)]
    fn fused_mul_add(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    #[inline(always)]
    fn round_to_i64(self) -> i64 {
        const LARGEST: f32 = LARGEST_INTEGER as f32;
        self.clamp(-LARGEST, LARGEST).round_ties_even() as i64
    }
}

impl PairReal for f64 {
    const FORCE_BITS: i32 = 40;
    const POSITION_BITS: i32 = 64;
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn difference(a: u64, b: u64) -> Self {
        a.wrapping_sub(b) as i64 as f64
    }
    #[inline(always)]
    fn fused_mul_add(self, b: Self, c: Self) -> Self {
        self.mul_add(b, c)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    #[inline(always)]
    fn round_to_i64(self) -> i64 {
        self.clamp(-LARGEST_INTEGER, LARGEST_INTEGER).round_ties_even() as i64
    }
}

/// Largest integer of a pair force, 2^60: a million units of force with 40 bits. Seven of them do
/// not wrap around. Larger forces, below a distance of 0.47 σ, count as this one.
const LARGEST_INTEGER: f64 = 1_152_921_504_606_846_976.0;

/// Returns the upper 32 bits of a fraction, which f32 arithmetic uses.
#[inline(always)]
pub fn upper_half(fraction: u64) -> i32 {
    (fraction >> 32) as i32
}

/// Largest force of a pair, in units of force, that sums of 32 bits accept. A particle with a
/// larger one gets sums of 64 bits. 32 such forces fit into the range, and no particle has as many
/// neighbours at such a distance without two of them being nearer to each other.
pub const LARGEST_NARROW_FORCE: f64 = 1024.0;

/// Weakest attraction at a cutoff, in units of force, that 16 bits resolve: the error of a force is
/// at most 1e-3 of it. At a cutoff of 2.5 σ it is 0.039. Weaker ones, beyond 3.1 σ, without a
/// cutoff and of shallow species, have [`WIDE_FORCE_BITS`].
const WEAKEST_NARROW_FORCE: f64 = 1.0 / 128.0;

/// Bits of forces below the unit of force where they are summed in 64 bits.
pub const WIDE_FORCE_BITS: i32 = 40;

/// Largest force of a pair with [`WIDE_FORCE_BITS`], in units of force, that SIMD sums accept. Sums
/// of integers in f64 are exact up to 2^53, in which 32 such forces fit.
const LARGEST_WIDE_FORCE: f64 = 256.0;

/// Returns whether forces need [`WIDE_FORCE_BITS`]: whether the weakest attraction of a pair at its
/// cutoff is below [`WEAKEST_NARROW_FORCE`]. The attraction alone counts, because the force itself
/// is 0 at the minimum of the potential, which is the cutoff of purely repulsive particles.
fn needs_wide_sums(potential: &Potential) -> bool {
    let species = potential.species_count();
    let damping = potential.damping / potential.length_unit();
    let attraction = |index: usize| {
        let PairParameters { sigma, epsilon, cutoff } =
            reduced_pair(potential, index / species, index % species);
        let s2 = cutoff * cutoff + damping * damping;
        24.0 * epsilon * (sigma * sigma / s2).powi(3) * cutoff / s2
    };
    let attractions = (0..species * species).map(attraction);
    // Species without interaction have none.
    let weakest = attractions.filter(|&force| force > 0.0).fold(f64::INFINITY, f64::min);
    potential.truncation == Truncation::None || weakest < WEAKEST_NARROW_FORCE
}

/// Returns the force of one integer unit of forces with terms of type `R`, in the units of the
/// parameters of `potential`.
pub fn force_quantum<R: PairReal>(potential: &Potential) -> f64 {
    potential.energy_unit() / potential.length_unit() * 2f64.powi(-force_bits::<R>(potential))
}

fn force_bits<R: PairReal>(potential: &Potential) -> i32 {
    if needs_wide_sums(potential) { WIDE_FORCE_BITS } else { R::FORCE_BITS }
}

/// Constants of a pair of species.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairConstants<R> {
    /// Squared cutoff, infinite without truncation, and 0 without interaction.
    pub cutoff2: R,
    /// Squared distance below which forces may be too large for SIMD sums.
    pub near2: R,
    /// δ² of the damped form.
    pub damping2: R,
    /// 48 ε σ¹² in units of force, scaled by 2^`force_bits`.
    pub repulsion: R,
    /// 24 ε σ⁶, scaled in the same way.
    pub attraction: R,
    /// Start r₁ of the switch.
    pub switch_start: R,
    /// Coefficients A and B of the switch, scaled in the same way. Both are 0 without one.
    pub switch: [R; 2],
}

/// Constants of the energy of a pair of species, in units of energy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnergyConstants {
    /// 4 ε σ¹².
    pub repulsion: f64,
    /// 4 ε σ⁶.
    pub attraction: f64,
    /// Energy that is added within the cutoff.
    pub shift: f64,
    /// A / 3 and B / 4 of the switch.
    pub switch: [f64; 2],
}

impl<R: PairReal> PairConstants<R> {
    /// Returns the constants of parameters in reduced units.
    fn new(parameters: PairParameters, potential: &Potential, unit: f64) -> Self {
        let PairParameters { sigma, epsilon, cutoff } = parameters;
        let bits = force_bits::<R>(potential);
        let scale = 2f64.powi(bits);
        let largest = if bits == WIDE_FORCE_BITS { LARGEST_WIDE_FORCE } else { LARGEST_NARROW_FORCE };
        let damping = potential.damping / unit;
        let (cutoff2, switch, switch_start) = match potential.truncation {
            // Products of 0 with large powers of 1/r would be NaN.
            _ if epsilon == 0.0 => (0.0, [0.0; 2], 0.0),
            Truncation::None => (f64::INFINITY, [0.0; 2], f64::INFINITY),
            Truncation::Truncated | Truncation::Shifted => (cutoff * cutoff, [0.0; 2], cutoff),
            Truncation::Switched { start } => {
                let switch = SwitchPolynomial::new(sigma, epsilon, start * cutoff, cutoff, damping);
                let [a, b, _] = switch.coefficients();
                (cutoff * cutoff, [a * scale, b * scale], start * cutoff)
            }
        };
        Self {
            cutoff2: R::from_f64(cutoff2),
            near2: R::from_f64(near_distance(sigma, epsilon, damping, largest).powi(2)),
            damping2: R::from_f64(damping * damping),
            repulsion: R::from_f64(48.0 * epsilon * sigma.powi(12) * scale),
            attraction: R::from_f64(24.0 * epsilon * sigma.powi(6) * scale),
            switch_start: R::from_f64(switch_start),
            switch: switch.map(R::from_f64),
        }
    }

    /// Returns the force divided by the distance at the squared distance `r2`, which is below the
    /// cutoff. `is_switched` tells whether the force has a switch.
    #[inline(always)]
    pub fn term(&self, r2: R, is_switched: bool) -> R {
        let inv_r2 = R::ONE / (r2 + self.damping2);
        let inv_r6 = inv_r2 * inv_r2 * inv_r2;
        let plain = inv_r2 * inv_r6 * self.repulsion.fused_mul_add(inv_r6, R::ZERO - self.attraction);
        if !is_switched {
            return plain;
        }
        let r = r2.sqrt();
        let beyond = r - self.switch_start;
        if beyond <= R::ZERO {
            return plain;
        }
        plain + beyond * beyond * self.switch[1].fused_mul_add(beyond, self.switch[0]) / r
    }
}

/// Returns the distance below which the repulsion may exceed `largest`, found by bisection. The
/// force without attraction is larger than the force itself.
fn near_distance(sigma: f64, epsilon: f64, damping: f64, largest: f64) -> f64 {
    let force = |r: f64| {
        let s2 = r * r + damping * damping;
        48.0 * epsilon * (sigma * sigma / s2).powi(6) / s2 * r
    };
    // The force r / s¹⁴ of a damped potential decreases beyond r = δ / √13.
    let (mut low, mut high) = (damping / 13f64.sqrt(), 10.0 * sigma + damping);
    if force(low) <= largest && damping > 0.0 {
        return 0.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if force(middle) > largest { low = middle } else { high = middle }
    }
    high
}

/// The pair arithmetic of a potential in a box.
#[derive(Clone, Debug, PartialEq)]
pub struct PairArithmetic<R> {
    /// Lengths of the box in units of length, divided by the number of differences.
    pub scale: [R; 3],
    /// Constants of species (a, b) at a × species + b.
    pub pairs: Vec<PairConstants<R>>,
    /// Number of species.
    pub species: usize,
    /// Whether forces have a switch.
    pub is_switched: bool,
    /// Bits of forces below the unit of force.
    pub force_bits: i32,
}

impl<R: PairReal> PairArithmetic<R> {
    /// Returns the arithmetic of `potential` in `bounds`.
    pub fn new(potential: &Potential, bounds: &SimulationBox) -> Self {
        let unit = potential.length_unit();
        let scale = |axis: usize| {
            if axis < bounds.dimensions {
                R::from_f64(bounds.lengths[axis] / unit * 2f64.powi(-R::POSITION_BITS))
            } else {
                R::ZERO
            }
        };
        let species = potential.species_count();
        let pairs = (0..species * species)
            .map(|index| {
                let reduced = reduced_pair(potential, index / species, index % species);
                PairConstants::new(reduced, potential, unit)
            })
            .collect();
        let is_switched = matches!(potential.truncation, Truncation::Switched { .. });
        let force_bits = force_bits::<R>(potential);
        Self { scale: [0, 1, 2].map(scale), pairs, species, is_switched, force_bits }
    }

    /// Returns whether sums of forces have 64 bits for all particles.
    pub fn has_wide_sums(&self) -> bool {
        self.force_bits == WIDE_FORCE_BITS
    }

    /// Returns the vector from `b` to `a` and its squared length.
    #[inline(always)]
    pub fn separation(&self, a: [u64; 3], b: [u64; 3]) -> ([R; 3], R) {
        // Closures would be compiled without the instruction set of the caller.
        let x = R::difference(a[0], b[0]) * self.scale[0];
        let y = R::difference(a[1], b[1]) * self.scale[1];
        let z = R::difference(a[2], b[2]) * self.scale[2];
        ([x, y, z], x.fused_mul_add(x, y.fused_mul_add(y, z * z)))
    }

    /// Returns the constants between species `a` and `b`.
    #[inline(always)]
    pub fn pair(&self, a: u8, b: u8) -> &PairConstants<R> {
        &self.pairs[usize::from(a) * self.species + usize::from(b)]
    }

    /// Returns the force on a particle at `a` due to one at `b`, as integers. This is the reference
    /// of all solvers.
    #[inline(always)]
    pub fn pair_force(&self, a: [u64; 3], species_a: u8, b: [u64; 3], species_b: u8) -> [i64; 3] {
        let (d, r2) = self.separation(a, b);
        let pair = self.pair(species_a, species_b);
        if r2 < pair.cutoff2 {
            let weight = pair.term(r2, self.is_switched);
            [(weight * d[0]).round_to_i64(), (weight * d[1]).round_to_i64(), (weight * d[2]).round_to_i64()]
        } else {
            [0; 3]
        }
    }
}

/// Returns parameters in units of the largest σ and ε.
fn reduced_pair(potential: &Potential, a: usize, b: usize) -> PairParameters {
    let (length, energy) = (potential.length_unit(), potential.energy_unit());
    let PairParameters { sigma, epsilon, cutoff } = potential.pair(a, b);
    PairParameters { sigma: sigma / length, epsilon: epsilon / energy, cutoff: cutoff / length }
}

/// Energy and virial r · f of one pair, in f64.
#[derive(Clone, Debug, PartialEq)]
pub struct EnergyArithmetic {
    /// Arithmetic of the forces in f64.
    pub forces: PairArithmetic<f64>,
    /// Constants of species (a, b) at a × species + b.
    pub energies: Vec<EnergyConstants>,
}

impl EnergyArithmetic {
    /// Returns the arithmetic of `potential` in `bounds`.
    pub fn new(potential: &Potential, bounds: &SimulationBox) -> Self {
        let species = potential.species_count();
        let constants = |index: usize| {
            let PairParameters { sigma, epsilon, cutoff } =
                reduced_pair(potential, index / species, index % species);
            let damping = potential.damping / potential.length_unit();
            let (repulsion, attraction) = (4.0 * epsilon * sigma.powi(12), 4.0 * epsilon * sigma.powi(6));
            let (shift, switch) = match potential.truncation {
                Truncation::None | Truncation::Truncated => (0.0, [0.0; 2]),
                Truncation::Shifted => {
                    let inv_r6 = (cutoff * cutoff + damping * damping).powi(-3);
                    (-(repulsion * inv_r6 - attraction) * inv_r6, [0.0; 2])
                }
                Truncation::Switched { start } => {
                    let switch = SwitchPolynomial::new(sigma, epsilon, start * cutoff, cutoff, damping);
                    let [a, b, c] = switch.coefficients();
                    (-c, [a / 3.0, b / 4.0])
                }
            };
            EnergyConstants { repulsion, attraction, shift, switch }
        };
        Self {
            forces: PairArithmetic::new(potential, bounds),
            energies: (0..species * species).map(constants).collect(),
        }
    }

    /// Returns energy and virial of a pair, in units of energy.
    #[inline(always)]
    pub fn pair_energy(&self, a: [u64; 3], species_a: u8, b: [u64; 3], species_b: u8) -> [WideSum; 2] {
        let (_, r2) = self.forces.separation(a, b);
        let pair = self.forces.pair(species_a, species_b);
        if r2 >= pair.cutoff2 {
            return [WideSum::default(); 2];
        }
        let constants = &self.energies[usize::from(species_a) * self.forces.species + usize::from(species_b)];
        let inv_r2 = 1.0 / (r2 + pair.damping2);
        let inv_r6 = inv_r2 * inv_r2 * inv_r2;
        let mut energy =
            inv_r6.mul_add(constants.repulsion.mul_add(inv_r6, -constants.attraction), constants.shift);
        if self.forces.is_switched {
            let beyond = r2.sqrt() - pair.switch_start;
            if beyond > 0.0 {
                energy -= beyond * beyond * beyond * constants.switch[1].mul_add(beyond, constants.switch[0]);
            }
        }
        let virial = pair.term(r2, self.forces.is_switched) * r2;
        [WideSum::of(energy), WideSum::of(virial * 2f64.powi(-f64::FORCE_BITS))]
    }
}

#[cfg(test)]
mod tests {
    use orrery_model::rng::Draws;

    use super::*;

    fn random_fractions(index: u64) -> [u64; 3] {
        let mut draws = Draws::new(5, 0, index);
        [(); 3].map(|()| (draws.uniform() * 18_446_744_073_709_551_616.0) as u64)
    }

    fn potentials() -> Vec<Potential> {
        let truncations = [
            Truncation::None,
            Truncation::Truncated,
            Truncation::Shifted,
            Truncation::Switched { start: 0.8 },
        ];
        let mut all = Vec::new();
        for truncation in truncations {
            for damping in [0.0, 0.2e-9] {
                let species = [(3.4e-10, 1.65e-21), (2.8e-10, 0.5e-21)];
                all.push(Potential::mixed(&species, 2.5, truncation).damped(damping));
            }
        }
        all
    }

    /// In SI units and with two species, terms agree with the reference in f64: to the rounding
    /// errors of f32, of which s⁻¹⁴ multiplies those of the distance by 14, and of f64.
    #[test]
    fn forces_and_energies_agree_with_the_reference() {
        let bounds = SimulationBox::periodic([1.2e-9, 1.3e-9, 1.1e-9], 3);
        for potential in potentials() {
            let unit_force = potential.energy_unit() / potential.length_unit();
            let single = PairArithmetic::<f32>::new(&potential, &bounds);
            let double = PairArithmetic::<f64>::new(&potential, &bounds);
            let energies = EnergyArithmetic::new(&potential, &bounds);
            for k in 0..400 {
                let (a, b) = (random_fractions(2 * k), random_fractions(2 * k + 1));
                let (sa, sb) = ((k % 2) as u8, (k / 2 % 2) as u8);
                let d = bounds.separation(a, b);
                let r2: f64 = d.iter().map(|x| x * x).sum();
                if r2.sqrt() < 2.4e-10 {
                    continue;
                }
                let exact = potential.pair_term(sa.into(), sb.into(), r2);
                let energy = energies.pair_energy(a, sa, b, sb).map(WideSum::value);
                let unit = potential.energy_unit();
                assert!((energy[0] - exact.energy / unit).abs() < 1e-9 * (1.0 + energy[0].abs()));
                let virial = exact.force_over_r * r2 / unit;
                assert!((energy[1] - virial).abs() < 1e-9 * (1.0 + virial.abs()));
                let size = exact.force_over_r.abs() * r2.sqrt() / unit_force;
                for axis in 0..3 {
                    let expected = exact.force_over_r * d[axis] / unit_force;
                    let quantum = 2f64.powi(-single.force_bits);
                    let found = single.pair_force(a, sa, b, sb)[axis] as f64 * quantum;
                    assert!((found - expected).abs() < 1e-5 * size + 3e-5, "{found} {expected}");
                    let found = double.pair_force(a, sa, b, sb)[axis] as f64 * 2f64.powi(-f64::FORCE_BITS);
                    assert!((found - expected).abs() < 1e-11 * (1.0 + size), "{found} {expected}");
                }
            }
        }
    }

    #[test]
    fn forces_are_opposite_to_the_last_bit() {
        let bounds = SimulationBox::periodic([5.0, 6.0, 7.0], 3);
        let potential = Potential::mixed(&[(1.0, 1.0)], 2.5, Truncation::Switched { start: 0.7 });
        let (single, double) = (
            PairArithmetic::<f32>::new(&potential, &bounds),
            PairArithmetic::<f64>::new(&potential, &bounds),
        );
        let mut nonzero = 0;
        for k in 0..200 {
            let (a, b) = (random_fractions(2 * k), random_fractions(2 * k + 1));
            let forth = single.pair_force(a, 0, b, 0);
            assert_eq!(forth.map(|f| -f), single.pair_force(b, 0, a, 0));
            assert_eq!(double.pair_force(a, 0, b, 0).map(|f| -f), double.pair_force(b, 0, a, 0));
            nonzero += usize::from(forth != [0; 3]);
        }
        assert!(nonzero > 20);
    }

    #[test]
    fn forces_beyond_the_near_distance_fit_into_simd_sums() {
        let bounds = SimulationBox::periodic([10.0; 3], 3);
        for (potential, largest) in [
            (Potential::mixed(&[(1.0, 1.0), (0.9, 0.6)], 2.5, Truncation::Truncated), LARGEST_NARROW_FORCE),
            (Potential::mixed(&[(1.0, 1.0)], 2.5, Truncation::Truncated).damped(0.1), LARGEST_NARROW_FORCE),
            (Potential::mixed(&[(1.0, 1.0)], 2.5, Truncation::Truncated).damped(0.6), LARGEST_NARROW_FORCE),
            (Potential::mixed(&[(1.0, 1.0), (0.5, 0.2)], 5.0, Truncation::Shifted), LARGEST_WIDE_FORCE),
            (Potential::mixed(&[(1.0, 1.0)], 2.5, Truncation::None).damped(0.1), LARGEST_WIDE_FORCE),
        ] {
            let arithmetic = PairArithmetic::<f32>::new(&potential, &bounds);
            for (index, pair) in arithmetic.pairs.iter().enumerate() {
                let near = f64::from(pair.near2).sqrt();
                let species = potential.species_count();
                let reduced = |r: f64| {
                    let (a, b) = (index / species, index % species);
                    potential.pair_term(a, b, r * r).force_over_r * r
                };
                assert!(near > 0.0 && reduced(near) < largest, "{near}");
                assert!(reduced(0.9 * near) > largest);
            }
        }
    }

    #[test]
    fn a_flat_box_has_no_forces_along_z() {
        let bounds = SimulationBox::periodic([8.0, 8.0, 1.0], 2);
        let potential = Potential::mixed(&[(1.0, 1.0)], 2.5, Truncation::Truncated);
        let arithmetic = PairArithmetic::<f32>::new(&potential, &bounds);
        let force = arithmetic.pair_force([1 << 61, 1 << 60, 0], 0, [0, 0, 0], 0);
        assert!(force[0] != 0 && force[1] != 0 && force[2] == 0);
    }

    /// The usual cutoffs keep 16 bits: those of liquids, of purely repulsive particles and of the
    /// mixture of Kob and Andersen.
    #[test]
    fn bits_of_forces_follow_from_the_weakest_attraction() {
        let bits = |species: &[(f64, f64)], cutoff: f64, truncation: Truncation| {
            let potential = Potential::mixed(species, cutoff, truncation);
            let quantum = 2f64.powi(-force_bits::<f32>(&potential));
            let expected = quantum * potential.energy_unit() / potential.length_unit();
            assert_eq!(force_quantum::<f32>(&potential), expected);
            force_bits::<f32>(&potential)
        };
        let argon = &[(3.4e-10, 1.65e-21)][..];
        for cutoff in [2f64.powf(1.0 / 6.0), 2.25, 2.5, 3.0] {
            assert_eq!(bits(argon, cutoff, Truncation::Shifted), 16, "{cutoff}");
        }
        assert_eq!(bits(&[(1.0, 1.5), (0.88, 0.5)], 2.5, Truncation::Shifted), 16);
        assert_eq!(bits(&[(1.0, 1.0), (1.0, 0.0)], 2.5, Truncation::Shifted), 16);
        assert_eq!(bits(argon, 3.2, Truncation::Truncated), 40);
        assert_eq!(bits(argon, 2.5, Truncation::None), 40);
        assert_eq!(bits(&[(1.0, 1.0), (1.0, 1e-3)], 2.5, Truncation::Switched { start: 0.5 }), 40);
    }

    /// f32 forces at all distances within the cutoff agree with the potential. The error of each
    /// component is at most half a quantum, and rounding errors of f32.
    #[test]
    fn far_forces_are_resolved() {
        let bounds = SimulationBox::periodic([100.0, 99.0, 98.0], 3);
        for (cutoff, truncation) in [
            (2.5, Truncation::None),
            (30.0, Truncation::Shifted),
            (5.0, Truncation::Truncated),
            (3.0, Truncation::Truncated),
        ] {
            let potential = Potential::mixed(&[(1.0, 1.0)], cutoff, truncation);
            let arithmetic = PairArithmetic::<f32>::new(&potential, &bounds);
            for r in [0.9, 1.5, 2.5, 2.999, 4.0, 4.9, 8.0, 10.0, 15.0, 20.0, 29.0] {
                let along = (r / 100.0 * 2f64.powi(64)) as u64;
                let force = arithmetic.pair_force([along, 5, 7], 0, [0, 5, 7], 0);
                let found = force[0] as f64 * force_quantum::<f32>(&potential);
                let expected = potential.pair_term(0, 0, r * r).force_over_r * r;
                let bound = 2e-6 * expected.abs() + 0.5 * force_quantum::<f32>(&potential);
                assert!((found - expected).abs() <= bound, "{truncation:?}, {r}: {found} {expected}");
                assert!(bound < 1e-3 * expected.abs() || expected == 0.0, "{truncation:?}, {r}");
            }
        }
    }
}
