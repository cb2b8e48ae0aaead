//! Checks of the device tree against direct summation, for `orrery selftest` and the tests.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_model::{Precision, Vec3s};
use orrery_simd::InstructionSet;

use super::cpu;
use super::device::{Order, TreeDeviceStrategy, WalkOptions};
use super::test_systems::TestSystem;
use crate::accuracy::{ErrorBounds, ForceErrors, largest_relative_error};
use crate::settings::Acceptance;
use crate::tree::device::selftest as octree;

type CheckResult = Result<(), String>;

/// Returns all checks of the tree.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("tree: {name}"), run };
    let mut checks = octree::checks();
    checks.extend([
        check("walk at four angles", four_opening_angles),
        check("walk, every order of multipoles", orders_of_multipoles),
        check("walk, every precision with all cells opened", all_cells_opened),
        check("walk, few bodies", few_bodies),
        check("walk, planes, lines, points and far bodies", degenerate_systems),
        check("walk, unequal masses and massless bodies", unequal_masses),
        check("walk, other sizes of leaves and groups", leaf_and_group_sizes),
        check("walk, potentials", potentials_of_all_orders),
        check("walk, the same accelerations with potentials", accelerations_with_potentials),
        check("walk, relative acceptance", relative_acceptance),
        check("walk, smallest acceleration of a group", smallest_acceleration_decides),
        check("walk, scales of metres and parsecs", length_scales),
        check("walk, without softening", without_softening),
        check("walk, mixed precision resolves a close pair", close_pair),
        check("walk, terms are counted", counted_terms),
        check("walk, the same bits twice", same_bits_twice),
        check("walk, the same bits with other options", same_bits_with_other_options),
    ]);
    checks
}

fn error_message(error: DeviceError) -> String {
    error.to_string()
}

fn geometric(theta: f64) -> Acceptance {
    Acceptance::Geometric { theta }
}

fn default_strategy(device: &Device, precision: Precision) -> TreeDeviceStrategy {
    TreeDeviceStrategy::default_for(device, precision)
}

fn force_errors(found: &Vec3s, expected: &Vec3s) -> ForceErrors {
    ForceErrors::measure(found, &(0..expected.len()).collect::<Vec<_>>(), expected)
}

/// Checks that the 99th percentile of the relative force error is at most `p99_bound`, that every
/// error is within [`TestSystem::error_bounds`], and that bodies without a force have exactly zero
/// acceleration.
fn check_forces(
    label: &str,
    system: &TestSystem,
    device: &Device,
    strategy: &TreeDeviceStrategy,
    acceptance: Acceptance,
    p99_bound: f64,
) -> CheckResult {
    let found = system.forces_on(device, strategy, acceptance, false, None).map_err(error_message)?.0;
    let (Acceptance::Geometric { theta } | Acceptance::Relative { theta, .. }) = acceptance;
    let bounds = system.error_bounds(strategy.order, strategy.precision, theta);
    compare_accelerations(&found.acceleration, &system.reference_forces().acceleration, p99_bound, &bounds)
        .map_err(|message| format!("{label}, n = {}: {message}", system.mass.len()))
}

fn compare_accelerations(
    found: &Vec3s,
    expected: &Vec3s,
    p99_bound: f64,
    bounds: &ErrorBounds,
) -> CheckResult {
    for (i, expected) in expected.iter().enumerate() {
        let found = found.get(i);
        if expected == [0.0; 3] && found != [0.0; 3] {
            return Err(format!("acceleration of body {i} is {found:?}, expected 0"));
        }
    }
    let ForceErrors { p99, .. } = force_errors(found, expected);
    let largest = bounds.largest_error(found, expected);
    if p99 <= p99_bound && largest <= 1.0 {
        return Ok(());
    }
    Err(format!(
        "relative error {p99:.1e} (99th percentile), expected at most {p99_bound:.1e}; largest error \
         {largest:.1e} of its bound"
    ))
}

fn compare_potentials(found: &[f64], expected: &[f64], bound: f64) -> CheckResult {
    let largest = largest_relative_error(found, expected);
    if largest <= bound {
        return Ok(());
    }
    Err(format!("relative error of the potential {largest:.1e}, expected at most {bound:.0e}"))
}

/// Returns 1.5 times the 99th percentile of the error of the CPU tree in the same arithmetic, plus
/// the effect of rounding in another order.
fn bound_from_cpu(system: &TestSystem, acceptance: Acceptance, precision: Precision) -> f64 {
    let strategy =
        cpu::TreeCpuStrategy { acceptance, ..cpu::TreeCpuStrategy::new(precision, InstructionSet::best()) };
    let found = cpu::forces(&system.problem(), &strategy, None).0.acceleration;
    let rounding = if precision == Precision::Single { 1e-4 } else { 1e-6 };
    1.5 * force_errors(&found, &system.reference_forces().acceleration).p99 + rounding
}

fn four_opening_angles(device: &Device) -> CheckResult {
    for theta in [0.3, 0.5, 0.7, 0.9] {
        for (name, system) in [("cluster", TestSystem::cluster(3000)), ("cube", TestSystem::cube(3000))] {
            for precision in Precision::ALL {
                let strategy = default_strategy(device, precision);
                let label = format!("{name}, {precision:?}, theta = {theta}");
                let bound = bound_from_cpu(&system, geometric(theta), precision);
                check_forces(&label, &system, device, &strategy, geometric(theta), bound)?;
            }
        }
    }
    Ok(())
}

/// The rms error at least halves from one order of multipoles to the next.
fn orders_of_multipoles(device: &Device) -> CheckResult {
    let system = TestSystem::cluster(3000);
    let expected = system.reference_forces();
    let mut before = f64::INFINITY;
    for order in Order::ALL {
        let strategy = TreeDeviceStrategy { order, ..default_strategy(device, Precision::Mixed) };
        let found =
            system.forces_on(device, &strategy, geometric(0.4), false, None).map_err(error_message)?.0;
        let rms = force_errors(&found.acceleration, &expected.acceleration).rms;
        if rms.is_nan() || rms > 0.5 * before || rms == 0.0 {
            return Err(format!("{order:?}: rms error {rms:.1e}, expected at most half of {before:.1e}"));
        }
        before = rms;
    }
    Ok(())
}

fn all_cells_opened(device: &Device) -> CheckResult {
    for (precision, bound) in
        [(Precision::Single, 2e-4), (Precision::Mixed, 1e-6), (Precision::Double, 1e-13)]
    {
        let strategy = default_strategy(device, precision);
        check_forces(
            &format!("{precision:?}, theta = 0"),
            &TestSystem::cluster(1000),
            device,
            &strategy,
            geometric(0.0),
            bound,
        )?;
    }
    Ok(())
}

fn few_bodies(device: &Device) -> CheckResult {
    for n in [0, 1, 2, 3, 16, 17, 31, 32, 33, 63, 65, 257] {
        for precision in Precision::ALL {
            let strategy = default_strategy(device, precision);
            check_forces(
                &format!("{precision:?}"),
                &TestSystem::cluster(n),
                device,
                &strategy,
                geometric(0.5),
                5e-3,
            )?;
        }
    }
    Ok(())
}

fn degenerate_systems(device: &Device) -> CheckResult {
    for n in [33, 1500] {
        for (name, system) in TestSystem::degenerate(n) {
            for precision in Precision::ALL {
                // For so few bodies the CPU makes one group, which interacts with every body
                // directly.
                let bound = match n {
                    33 if name != "one far away" => 2e-3,
                    _ => bound_from_cpu(&system, geometric(0.5), precision),
                };
                let strategy = default_strategy(device, precision);
                check_forces(
                    &format!("{name}, {precision:?}"),
                    &system,
                    device,
                    &strategy,
                    geometric(0.5),
                    bound,
                )?;
            }
        }
    }
    Ok(())
}

fn unequal_masses(device: &Device) -> CheckResult {
    let strategy = default_strategy(device, Precision::Mixed);
    check_forces(
        "",
        &TestSystem::cluster(2000).with_unequal_masses(),
        device,
        &strategy,
        geometric(0.4),
        2e-3,
    )?;
    let massless = TestSystem { mass: vec![0.0; 100], ..TestSystem::cluster(100) };
    check_forces("no mass at all", &massless, device, &strategy, geometric(0.5), 0.0)
}

/// Sizes of leaves and groups other than the default ones.
pub(crate) const LEAF_AND_GROUP_SIZES: [(u32, u32); 3] = [(1, 1), (24, 31), (200, 16)];

fn leaf_and_group_sizes(device: &Device) -> CheckResult {
    for (leaf_size, group_size) in LEAF_AND_GROUP_SIZES {
        let strategy =
            TreeDeviceStrategy { leaf_size, group_size, ..default_strategy(device, Precision::Mixed) };
        let label = format!("leaves of {leaf_size}, groups of {group_size}");
        check_forces(&label, &TestSystem::cluster(1000), device, &strategy, geometric(0.4), 8e-3)?;
    }
    Ok(())
}

fn potentials_of_all_orders(device: &Device) -> CheckResult {
    let system = TestSystem::cluster(2000);
    let expected = system.reference_forces().potential.expect("requested");
    let quadrupole = Precision::ALL.map(|precision| (Order::Quadrupole, precision));
    let others = [(Order::Monopole, Precision::Single), (Order::Octupole, Precision::Mixed)];
    for (order, precision) in quadrupole.into_iter().chain(others) {
        let strategy = TreeDeviceStrategy { order, ..default_strategy(device, precision) };
        let found = system.forces_on(device, &strategy, geometric(0.5), true, None).map_err(error_message)?.0;
        let found = found.potential.expect("requested");
        let bound = if order == Order::Monopole { 1e-2 } else { 1e-3 };
        compare_potentials(&found, &expected, bound)
            .map_err(|message| format!("{order:?}, {precision:?}: {message}"))?;
    }
    Ok(())
}

/// A run computes potentials in some of its steps, which must not change the motion.
fn accelerations_with_potentials(device: &Device) -> CheckResult {
    let system = TestSystem::cluster(2000);
    let previous = system.reference_forces().acceleration;
    let relative = Acceptance::Relative { alpha: 1e-3, theta: 0.6 };
    let default = default_strategy(device, Precision::Mixed);
    // The kernels of the geometric acceptance are those of other checks.
    let mut cases = vec![(default, relative)];
    cases.extend(Order::ALL.map(|order| (TreeDeviceStrategy { order, ..default }, geometric(0.6))));
    for (strategy, acceptance) in cases {
        let forces = |with_potential: bool| {
            let found = system.forces_on(device, &strategy, acceptance, with_potential, Some(&previous));
            found.map(|(forces, _)| forces.acceleration).map_err(error_message)
        };
        if forces(false)? != forces(true)? {
            return Err(format!("{:?}, {acceptance:?}: other bits with potentials", strategy.order));
        }
    }
    Ok(())
}

/// A tenth of the tolerance gives smaller errors. Without accelerations of a previous step, the
/// opening angle applies.
fn relative_acceptance(device: &Device) -> CheckResult {
    let system = TestSystem::cluster(3000);
    let expected = system.reference_forces().acceleration;
    let strategy = default_strategy(device, Precision::Mixed);
    let mut before = 1e-2;
    for alpha in [1e-2, 1e-3, 1e-4] {
        let acceptance = Acceptance::Relative { alpha, theta: 0.9 };
        let (found, tree) =
            system.forces_on(device, &strategy, acceptance, false, Some(&expected)).map_err(error_message)?;
        let rms = force_errors(&found.acceleration, &expected).rms;
        let cells = tree.report().map_err(error_message)?.cell_terms;
        if rms.is_nan() || rms > before || cells == 0 {
            return Err(format!(
                "alpha = {alpha}: rms error {rms:.1e}, expected at most {before:.1e}; {cells} cell terms"
            ));
        }
        before = 0.7 * rms;
    }
    let acceptance = Acceptance::Relative { alpha: 1e-4, theta: 0.9 };
    let first = system.forces_on(device, &strategy, acceptance, false, None).map_err(error_message)?.0;
    let by_angle = system.forces_on(device, &strategy, geometric(0.9), false, None).map_err(error_message)?.0;
    if first != by_angle {
        return Err(
            "without previous accelerations, the relative acceptance must use its opening angle".to_owned()
        );
    }
    Ok(())
}

/// The relative acceptance uses the smallest acceleration of a group, whichever body has it. The
/// group is a clump in the first corner of the cube, where the Hilbert curve starts.
fn smallest_acceleration_decides(device: &Device) -> CheckResult {
    const CLUMP: usize = 12;
    let system =
        TestSystem::cube(1000).moved(|i, x| if i < CLUMP { x.map(|c| 1.9 + 1e-3 * (c - 2.0)) } else { x });
    let strategy = default_strategy(device, Precision::Single);
    let acceptance = Acceptance::Relative { alpha: 1e-2, theta: 0.9 };
    // Forces on the clump if the acceleration of `calm_body` was small in the previous step.
    let forces_on_clump = |calm_body: Option<usize>| {
        let n = system.mass.len();
        let mut previous = Vec3s { x: vec![100.0; n], ..Vec3s::zeros(n) };
        if let Some(body) = calm_body {
            previous.x[body] = 0.01;
        }
        let (found, _) =
            system.forces_on(device, &strategy, acceptance, false, Some(&previous)).map_err(error_message)?;
        Ok::<_, String>((0..CLUMP).map(|i| found.acceleration.get(i)).collect::<Vec<_>>())
    };
    let first = forces_on_clump(Some(0))?;
    if first == forces_on_clump(None)? {
        return Err("a small acceleration in the previous step changes no force".to_owned());
    }
    for body in 1..CLUMP {
        if forces_on_clump(Some(body))? != first {
            return Err(format!("forces depend on whether body 0 or body {body} has the smallest one"));
        }
    }
    Ok(())
}

fn length_scales(device: &Device) -> CheckResult {
    for scale in [1e-12, 3e16] {
        for precision in Precision::ALL {
            let mut system = TestSystem::cluster(600).moved(|_, x| x.map(|c| c * scale));
            system.eps *= scale;
            system.mass.iter_mut().for_each(|m| *m *= scale * scale);
            let strategy = default_strategy(device, precision);
            check_forces(
                &format!("{precision:?}, lengths of {scale:e}"),
                &system,
                device,
                &strategy,
                geometric(0.5),
                5e-3,
            )?;
        }
    }
    // A softening length much larger than the system.
    let system = TestSystem { eps: 1e6, ..TestSystem::cluster(600) };
    check_forces(
        "eps = 1e6",
        &system,
        device,
        &default_strategy(device, Precision::Double),
        geometric(0.5),
        5e-3,
    )
}

fn without_softening(device: &Device) -> CheckResult {
    for precision in Precision::ALL {
        let system = TestSystem { eps: 0.0, ..TestSystem::cluster(1500) };
        check_forces(
            &format!("{precision:?}"),
            &system,
            device,
            &default_strategy(device, precision),
            geometric(0.5),
            5e-3,
        )?;
    }
    Ok(())
}

/// With coordinates relative to the centre of the cube, as in single precision, the force between
/// bodies at the first of these distances would have three correct digits, and at the others none.
fn close_pair(device: &Device) -> CheckResult {
    let pair = [10, 700];
    let strategy = default_strategy(device, Precision::Mixed);
    for offset in [1e-4, 1e-8, 1e-11] {
        let mut system = TestSystem { eps: 0.0, ..TestSystem::cluster(1000) };
        system.position.set(pair[1], system.position.get(pair[0]).map(|c| c + offset));
        let expected = system.reference_forces().acceleration;
        let select_pair = |all: &Vec3s| {
            let mut selected = Vec3s::default();
            pair.iter().for_each(|&i| selected.push(all.get(i)));
            selected
        };
        let found = system.forces_on(device, &strategy, geometric(0.5), false, None);
        let found = found.map_err(error_message)?.0.acceleration;
        let ForceErrors { max, .. } = force_errors(&select_pair(&found), &select_pair(&expected));
        if max.is_nan() || max > 1e-5 {
            let distance = 3f64.sqrt() * offset;
            return Err(format!(
                "bodies {distance:.1e} apart: relative error {max:.1e}, expected at most 1e-5"
            ));
        }
    }
    Ok(())
}

/// With all cells opened, every pair is counted exactly once.
fn counted_terms(device: &Device) -> CheckResult {
    let (n, strategy) = (777, default_strategy(device, Precision::Single));
    let tree = TestSystem::cluster(n)
        .forces_on(device, &strategy, geometric(0.0), false, None)
        .map_err(error_message)?
        .1;
    let report = tree.report().map_err(error_message)?;
    let pairs = (n * (n - 1)) as u64;
    let got = (report.body_terms, report.cell_terms, report.most_terms);
    if got != (pairs, 0, n as u64 - 1) {
        return Err(format!(
            "body terms, cell terms and most terms {got:?}, expected ({pairs}, 0, {})",
            n - 1
        ));
    }
    Ok(())
}

fn same_bits_twice(device: &Device) -> CheckResult {
    let system = TestSystem::cluster(5000).with_unequal_masses();
    for precision in Precision::ALL {
        let strategy = default_strategy(device, precision);
        let evaluate = || {
            Ok::<_, String>(
                system.forces_on(device, &strategy, geometric(0.6), true, None).map_err(error_message)?.0,
            )
        };
        let (first, second) = (evaluate()?, evaluate()?);
        if first != second {
            return Err(format!("{precision:?}: two evaluations of the same bodies differ"));
        }
    }
    Ok(())
}

/// Registers and unrolled loops of the walk do not change results, so the tuner may choose them.
fn same_bits_with_other_options(device: &Device) -> CheckResult {
    let system = TestSystem::cluster(2000).with_unequal_masses();
    let is_gpu = device.properties().kind == DeviceKind::Gpu;
    // PoCL takes long to compile unrolled loops.
    let precisions = if is_gpu { &Precision::ALL[..] } else { &[Precision::Mixed] };
    for &precision in precisions {
        let default = default_strategy(device, precision);
        let forces = |walk_options| {
            let strategy = TreeDeviceStrategy { walk_options, ..default };
            let found = system.forces_on(device, &strategy, geometric(0.6), true, None);
            found.map(|(forces, _)| forces).map_err(error_message)
        };
        let expected = forces(None)?;
        // The fewest warps and the most, with the most unrolled iterations.
        let candidates = WalkOptions::candidates(device, precision);
        let mut options: Vec<_> = candidates.first().into_iter().chain(candidates.last()).copied().collect();
        if !is_gpu {
            options.push(WalkOptions { warps_per_sm: 16, unroll_bodies: 2, unroll_cells: 2 });
        }
        for options in options {
            if forces(Some(options))? != expected {
                return Err(format!("{precision:?}: other bits with {options:?}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::{column_with_one_nan, with_one_nan};

    #[test]
    fn a_nan_in_any_column_fails_the_checks() {
        // The acceleration of a single body is 0, which has no relative error.
        for n in [1, 33] {
            let system = TestSystem::cluster(n);
            let expected = system.reference_forces();
            let bounds = system.error_bounds(Order::Quadrupole, Precision::Double, 0.9);
            let check =
                |found: &Vec3s, expected: &Vec3s| compare_accelerations(found, expected, f64::MAX, &bounds);
            assert_eq!(check(&expected.acceleration, &expected.acceleration), Ok(()));
            for with_nan in with_one_nan(&expected.acceleration) {
                check(&with_nan, &expected.acceleration).unwrap_err();
                // Also in the second of two results of a device.
                check(&expected.acceleration, &with_nan).unwrap_err();
            }
            let potential = expected.potential.unwrap();
            assert_eq!(compare_potentials(&potential, &potential, f64::MAX), Ok(()));
            for with_nan in column_with_one_nan(&potential) {
                compare_potentials(&with_nan, &potential, f64::MAX).unwrap_err();
            }
        }
    }

    /// One wrong body among a thousand is far below the 99th percentile.
    #[test]
    fn one_wrong_body_fails_the_check() {
        let system = TestSystem::cluster(1000);
        let expected = system.reference_forces().acceleration;
        let bounds = system.error_bounds(Order::Quadrupole, Precision::Single, 0.0);
        let mut found = expected.clone();
        found.set(500, expected.get(500).map(|c| 1.1 * c));
        compare_accelerations(&found, &expected, 1e-15, &bounds).unwrap_err();
    }
}
