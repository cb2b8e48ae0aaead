//! Checks of the insertion against direct summation, and of its tree, for `orrery selftest` and the
//! tests.

mod steps;
mod structure;

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError, DeviceKind, KernelBuilder};
use orrery_gravity::accuracy::{ErrorBounds, ForceErrors};
use orrery_gravity::settings::Acceptance;
use orrery_gravity::solver::device::DeviceSolver;
use orrery_gravity::solver::tree::device::{Order, TreeDeviceStrategy};
use orrery_model::{Precision, Vec3s};

use super::{BLOCKS_PER_SM, Insertion, InsertionOptions, Waiting, WarpWalk};
use crate::rungs::gravity::test_system::{LectureSystem, check_zeros};
use crate::rungs::gravity::tree::insertion_rungs;

use steps::{block_counts, check_steps};
use structure::check_tree;

/// Returns all checks of the insertion.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("tree: insertion, {name}"), run };
    vec![
        Check { name: "tree: groups and insertion agree".to_owned(), run: algorithms_agree },
        check("against direct summation", against_direct_summation),
        check("every body in one cell", check_tree),
        check("all cells opened", all_cells_opened),
        check("planes, lines and points", degenerate_systems),
        check("bodies that share positions", shared_positions),
        check("far bodies", far_bodies),
        check("unequal masses and massless bodies", unequal_masses),
        check("variants agree", variants_agree),
        check("numbers of blocks", block_counts),
        check("steps", check_steps),
        check("the same bits twice", same_bits_twice),
    ]
}

const ALL: InsertionOptions = InsertionOptions::COURSE;
const NONE: InsertionOptions = InsertionOptions::PLAIN;
/// The last program without polling.
const NO_WAITING: InsertionOptions = InsertionOptions { waiting: Waiting::None, ..ALL };

fn geometric(theta: f64) -> Acceptance {
    Acceptance::Geometric { theta }
}

/// Returns the bound of the error of accepted cells without quadrupoles, as a fraction of the sum
/// Σ |a_ij| of all pair forces on a body (see [`ErrorBounds`]).
///
/// The first neglected moment of a cell of side l at distance r gives a relative error of order
/// (l / r)², and l / r is below theta. The moments of cells are smaller than their largest possible
/// values, and errors of cells average out. The largest errors were 0.12 theta² (few bodies and
/// bodies on a line). The constant is about 3 times as large.
fn truncation_error(theta: f64) -> f64 {
    0.4 * theta.powi(2)
}

impl LectureSystem {
    /// Returns the accelerations computed by insertion, and the tree that computed them.
    fn insertion_forces(
        &self,
        device: &Device,
        options: InsertionOptions,
        theta: f64,
    ) -> Result<(Vec3s, Insertion), String> {
        let (mut builder, n) = (KernelBuilder::new(device), self.mass.len());
        let mut insertion = Insertion::new(&mut builder, n, options, BLOCKS_PER_SM).map_err(error_message)?;
        let found = self.evaluate(device, &mut insertion, geometric(theta)).map_err(error_message)?;
        Ok((found, insertion))
    }

    /// Checks the errors of a variant against direct summation.
    fn check_errors(
        &self,
        device: &Device,
        options: InsertionOptions,
        theta: f64,
        limits: InsertionErrorLimits,
    ) -> Result<(), String> {
        let found = self.insertion_forces(device, options, theta)?.0;
        let n = self.mass.len();
        self.compare(&found, theta, limits)
            .map_err(|message| format!("{options:?}, n = {n}, theta = {theta}: {message}"))
    }

    /// Compares the result of a walk with direct summation.
    fn compare(&self, found: &Vec3s, theta: f64, limits: InsertionErrorLimits) -> Result<(), String> {
        let expected = self.reference_accelerations();
        check_zeros(found, &expected)?;
        let largest = self.largest_error(found, &expected, truncation_error(theta));
        if largest.is_nan() || largest > 1.0 {
            return Err(format!("largest error {largest:.1e} of its bound"));
        }
        let ForceErrors { median, p99, max, .. } = self.relative_errors(found, &expected);
        if median <= limits.median && p99 <= limits.p99 && max <= limits.max {
            return Ok(());
        }
        Err(format!(
            "relative error: median {median:.1e}, p99 {p99:.1e}, max {max:.1e}, expected at most {limits:?}"
        ))
    }

    /// Returns the largest error in units of its bound.
    fn largest_error(&self, found: &Vec3s, expected: &Vec3s, truncation: f64) -> f64 {
        ErrorBounds::new(&self.problem(), Precision::Single, truncation).largest_error(found, expected)
    }

    fn relative_errors(&self, found: &Vec3s, expected: &Vec3s) -> ForceErrors {
        ForceErrors::measure(found, &self.all_bodies(), expected)
    }
}

fn error_message(error: DeviceError) -> String {
    error.to_string()
}

/// Largest relative errors that a variant may have.
#[derive(Clone, Copy, Debug)]
struct InsertionErrorLimits {
    median: f64,
    p99: f64,
    max: f64,
}

impl InsertionErrorLimits {
    /// Returns the limits for clusters. The relative error of a cell without its quadrupole is
    /// about (l / r)². Measured on clusters of 33 to 5,000 bodies at theta from 0.3 to 0.9: at most
    /// 0.008, 0.045 and 0.08 theta².
    fn for_clusters(theta: f64) -> Self {
        let theta2 = theta * theta;
        Self { median: 0.016 * theta2, p99: 0.09 * theta2, max: 0.16 * theta2 }
    }

    /// Returns the limits for bodies in a plane or at a few positions: errors of few terms average
    /// out less.
    fn for_few_terms(theta: f64) -> Self {
        let theta2 = theta * theta;
        Self { median: 0.05 * theta2, p99: 0.25 * theta2, max: 0.4 * theta2 }
    }

    /// Returns the limits for bodies on a line. Forces from both sides cancel there, in places
    /// completely.
    fn for_lines(theta: f64) -> Self {
        Self { median: 0.15 * theta * theta, p99: f64::INFINITY, max: f64::INFINITY }
    }

    /// As for the direct sum: coordinates rounded to 2^-24 of their size, and a softening of 0.01.
    const ROUNDING: Self = Self { median: 2e-6, p99: 2e-5, max: 2e-4 };
}

/// Whether to check fewer combinations, because OpenCL on a CPU is slow.
fn is_slow(device: &Device) -> bool {
    device.properties().kind != DeviceKind::Gpu
}

fn against_direct_summation(device: &Device) -> Result<(), String> {
    for n in [1, 2, 33, 1000, 5000] {
        let system = LectureSystem::cluster(n);
        for theta in [0.3, 0.5, 0.7, 0.9] {
            let variants = if n == 5000 && is_slow(device) { &[ALL][..] } else { &[ALL, NONE] };
            for options in variants {
                system.check_errors(device, *options, theta, InsertionErrorLimits::for_clusters(theta))?;
            }
        }
    }
    // Without softening, rounded coordinates of a close pair have their full effect.
    let hard = LectureSystem { eps: 0.0, ..LectureSystem::cluster(1000) };
    hard.check_errors(
        device,
        ALL,
        0.5,
        InsertionErrorLimits { max: 0.4, ..InsertionErrorLimits::for_clusters(0.5) },
    )
}

/// With an opening angle so small that no cell is accepted, every variant computes the direct sum.
fn all_cells_opened(device: &Device) -> Result<(), String> {
    for (_, options, _) in insertion_rungs() {
        for n in [1, 32, 33, 256, if is_slow(device) { 300 } else { 2000 }] {
            LectureSystem::cluster(n).check_errors(device, options, 1e-9, InsertionErrorLimits::ROUNDING)?;
        }
    }
    Ok(())
}

fn degenerate_systems(device: &Device) -> Result<(), String> {
    let flat = |_, [x, y, _]: [f64; 3]| [x, y, 0.3];
    let line = |_, [x, ..]: [f64; 3]| [1.0 + x, 1.0 + 2.0 * x, 1.0 - x];
    let axis = |_, [x, ..]: [f64; 3]| [0.0, x, 0.0];
    let point = |_, _| [0.4, -0.7, 12.3];
    for options in [ALL, NONE] {
        for n in [2, 33, 1000] {
            // No cell is accepted. Positions are away from the origin, where f32 has fewer digits.
            let limits = InsertionErrorLimits { p99: 1e-3, max: 1e-1, ..InsertionErrorLimits::ROUNDING };
            LectureSystem::cluster(n).moved(line).check_errors(device, options, 1e-9, limits)?;
            for theta in [0.3, 0.7] {
                LectureSystem::cluster(n).moved(flat).check_errors(
                    device,
                    options,
                    theta,
                    InsertionErrorLimits::for_few_terms(theta),
                )?;
                LectureSystem::cluster(n).moved(line).check_errors(
                    device,
                    options,
                    theta,
                    InsertionErrorLimits::for_lines(theta),
                )?;
                LectureSystem::cluster(n).moved(axis).check_errors(
                    device,
                    options,
                    theta,
                    InsertionErrorLimits::for_lines(theta),
                )?;
                for eps in [0.01, 0.0] {
                    let system = LectureSystem { eps, ..LectureSystem::cluster(n).moved(point) };
                    // The direct sum without softening is NaN.
                    let zeros = vec![0.0; n];
                    let found = system.insertion_forces(device, options, theta)?.0;
                    if [found.x, found.y, found.z].iter().any(|column| *column != zeros) {
                        return Err(format!(
                            "{options:?}, n = {n}, eps = {eps}: bodies at one position have accelerations"
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Returns a system with all bodies at 11 positions.
fn on_few_positions(n: usize) -> LectureSystem {
    let positions = LectureSystem::cluster(11).position;
    LectureSystem::cluster(n).moved(|i, _| positions.get(i * i % 11))
}

fn shared_positions(device: &Device) -> Result<(), String> {
    for options in [ALL, NONE] {
        for n in [2, 33, 1000] {
            on_few_positions(n).check_errors(
                device,
                options,
                0.5,
                InsertionErrorLimits::for_few_terms(0.5),
            )?;
            // Pairs so close that they are separated only at deep levels, and pairs that share a
            // grid point.
            for distance in [1e-7, 1e-12] {
                let pairs = LectureSystem::cluster(n).position;
                let beside = |i: usize, p: [f64; 3]| match i % 2 {
                    0 => p,
                    _ => pairs.get(i - 1).map(|c| c + distance),
                };
                LectureSystem::cluster(n).moved(beside).check_errors(
                    device,
                    options,
                    0.5,
                    InsertionErrorLimits::for_few_terms(0.5),
                )?;
            }
        }
    }
    Ok(())
}

/// One body is so far away that the others share few cells, few grid points, or one grid point.
fn far_bodies(device: &Device) -> Result<(), String> {
    for options in [ALL, NONE] {
        for distance in [1e6, 1e9, 1e10] {
            for i in [0, 17] {
                let far = |k, p: [f64; 3]| if k == i { [distance, -2.0 * distance, distance] } else { p };
                LectureSystem::cluster(300).moved(far).check_errors(
                    device,
                    options,
                    0.5,
                    InsertionErrorLimits::for_clusters(0.5),
                )?;
            }
        }
    }
    Ok(())
}

fn unequal_masses(device: &Device) -> Result<(), String> {
    for n in [33, 1000] {
        let system = LectureSystem::cluster(n).with_unequal_masses();
        for options in [ALL, NONE] {
            system.check_errors(device, options, 0.5, InsertionErrorLimits::for_few_terms(0.5))?;
        }
        let massless = LectureSystem { mass: vec![0.0; n], ..system };
        massless.check_errors(device, ALL, 0.5, InsertionErrorLimits::ROUNDING)?;
    }
    Ok(())
}

/// Neither throttling nor waiting changes a bit, nor does sorting if bodies walk alone. All walks
/// of whole warps visit the same nodes. Walking together can only open more cells.
fn variants_agree(device: &Device) -> Result<(), String> {
    let system = LectureSystem::cluster(if is_slow(device) { 1000 } else { 20_000 });
    let found = |options| system.insertion_forces(device, options, 0.6).map(|(found, _)| found);
    let (alone, together) = (found(NONE)?, found(ALL)?);
    for (name, options, _) in insertion_rungs() {
        let expected = if options.walk == WarpWalk::Alone { &alone } else { &together };
        if found(options)? != *expected {
            return Err(format!("{name}: results differ from those of the other rungs"));
        }
    }
    // Each of the two walks may have the largest error.
    let largest = system.largest_error(&together, &alone, 2.0 * truncation_error(0.6));
    let p99 = system.relative_errors(&together, &alone).p99;
    if p99 > InsertionErrorLimits::for_clusters(0.6).p99 || largest.is_nan() || largest > 1.0 {
        return Err(format!(
            "relative difference {p99:.1e} between walks of warps and of threads (99th percentile), largest \
             difference {largest:.1e} of its bound"
        ));
    }
    Ok(())
}

/// The insertion and the groups of the solver share hardly any code.
fn algorithms_agree(device: &Device) -> Result<(), String> {
    let (system, theta) = (LectureSystem::cube(2000), 0.25);
    let groups = TreeDeviceStrategy {
        order: Order::Monopole,
        ..TreeDeviceStrategy::default_for(device, Precision::Single)
    };
    let in_groups = DeviceSolver::new(device, system.mass.len(), &groups.into())
        .and_then(|mut solver| system.evaluate(device, &mut solver, geometric(theta)))
        .map_err(error_message)?;
    let by_insertion = system.insertion_forces(device, ALL, theta)?.0;
    check_zeros(&in_groups, &by_insertion)?;
    // Each of the two walks may have the errors of the bound.
    let largest = system.largest_error(&in_groups, &by_insertion, 2.0 * truncation_error(theta));
    let p99 = system.relative_errors(&in_groups, &by_insertion).p99;
    if p99 <= 5e-3 && largest <= 1.0 {
        return Ok(());
    }
    Err(format!(
        "difference of groups and insertion {p99:.1e} (99th percentile), expected at most 5e-3; largest \
         difference {largest:.1e} of its bound"
    ))
}

/// Results must not depend on races between threads or on a previous evaluation.
fn same_bits_twice(device: &Device) -> Result<(), String> {
    let n = 3000;
    for system in [LectureSystem::cluster(n), on_few_positions(n)] {
        for options in [ALL, NONE] {
            let (first, mut insertion) = system.insertion_forces(device, options, 0.7)?;
            let other = LectureSystem {
                eps: 1.0,
                ..LectureSystem::cluster(n).moved(|_, [x, y, z]| [9.0 * y, z, -x])
            };
            for _ in 0..3 {
                other.evaluate(device, &mut insertion, geometric(0.3)).map_err(error_message)?;
                let second = system.evaluate(device, &mut insertion, geometric(0.7));
                if second.map_err(error_message)? != first {
                    return Err(format!("{options:?}: two evaluations differ"));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rungs::gravity::test_system::with_one_nan;

    /// Bodies on a line have no limits of their relative errors.
    #[test]
    fn a_nan_in_any_column_fails_the_check() {
        for n in [1, 33] {
            let system = LectureSystem::cluster(n);
            let expected = system.reference_accelerations();
            assert_eq!(system.compare(&expected, 0.9, InsertionErrorLimits::for_lines(0.9)), Ok(()));
            for with_nan in with_one_nan(&expected) {
                system.compare(&with_nan, 0.9, InsertionErrorLimits::for_lines(0.9)).unwrap_err();
            }
        }
    }
}
