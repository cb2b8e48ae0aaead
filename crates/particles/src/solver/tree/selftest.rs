//! Every form of the device's tree against the plain sum: `orrery selftest`, and the tests.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError};
use orrery_model::Vec3s;

use super::cpu;
use super::device::{Order, TreeAlgorithm, TreeDeviceStrategy, insertion_selftest};
use super::test_systems::TestSystem;
use crate::accuracy::ForceErrors;
use crate::settings::{Acceptance, Precision};
use crate::simd::InstructionSet;
use crate::tree::device::selftest as octree;

type Checked = Result<(), String>;

const PRECISIONS: [Precision; 3] = [Precision::Single, Precision::Mixed, Precision::Double];

/// All of them.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("tree: {name}"), run };
    let mut checks = octree::checks();
    checks.extend([
        check("walk at four angles", four_angles),
        check("walk, every order of multipoles", orders),
        check("walk, every precision with all cells opened", all_opened),
        check("walk, few bodies", few_bodies),
        check("walk, planes, lines, points and far bodies", awkward),
        check("walk, unequal masses and massless bodies", unequal_masses),
        check("walk, leaves and groups of any size", sizes),
        check("walk, potentials", potentials),
        check("walk, relative acceptance", relative),
        check("walk, scales of metres and parsecs", scales),
        check("walk, without softening", without_softening),
        check("walk, a close pair keeps its digits in mixed precision", close_pair),
        check("walk, terms are counted", terms),
        check("walk, the same bits twice", same_bits),
        check("strategies agree", strategies_agree),
    ]);
    checks.extend(insertion_selftest::checks());
    checks
}

fn said(error: DeviceError) -> String {
    error.to_string()
}

fn geometric(theta: f64) -> Acceptance {
    Acceptance::Geometric { theta }
}

fn strategy(device: &Device, precision: Precision) -> TreeDeviceStrategy {
    TreeDeviceStrategy::default_for(device, precision)
}

fn errors(found: &Vec3s, right: &Vec3s) -> ForceErrors {
    ForceErrors::measure(found, &(0..right.len()).collect::<Vec<_>>(), right)
}

/// Holds the 99th percentile of the forces' relative error below a bound.
fn hold(
    what: &str,
    system: &TestSystem,
    device: &Device,
    strategy: &TreeDeviceStrategy,
    acceptance: Acceptance,
    bound: f64,
) -> Checked {
    let (found, right) =
        (system.on(device, strategy, acceptance, false, None).map_err(said)?.0, system.right());
    let n = system.mass.len();
    for (i, right) in right.acceleration.iter().enumerate() {
        let found = found.acceleration.get(i);
        if right == [0.0; 3] && found != [0.0; 3] {
            return Err(format!("{what}, n = {n}: body {i} should feel nothing, found {found:?}"));
        }
    }
    let ForceErrors { p99, .. } = errors(&found.acceleration, &right.acceleration);
    if p99 <= bound {
        return Ok(());
    }
    Err(format!("{what}, n = {n}: relative error {p99:.1e} (99th percentile), expected at most {bound:.1e}"))
}

/// The 99th percentile of the error that the processor's tree has in the same arithmetic, with half as much again and what
/// roundings in another order come to.
fn as_on_the_processor(system: &TestSystem, acceptance: Acceptance, precision: Precision) -> f64 {
    let on_cpu =
        cpu::TreeCpuStrategy { acceptance, ..cpu::TreeCpuStrategy::new(precision, InstructionSet::best()) };
    let found = cpu::forces(&system.problem(), &on_cpu, None).0.acceleration;
    let rounding = if precision == Precision::Single { 1e-4 } else { 1e-6 };
    1.5 * errors(&found, &system.right().acceleration).p99 + rounding
}

fn four_angles(device: &Device) -> Checked {
    for theta in [0.3, 0.5, 0.7, 0.9] {
        for (name, system) in [("cluster", TestSystem::cluster(3000)), ("cube", TestSystem::cube(3000))] {
            for precision in PRECISIONS {
                let strategy = strategy(device, precision);
                let what = format!("{name}, {precision:?}, theta = {theta}");
                let bound = as_on_the_processor(&system, geometric(theta), precision);
                hold(&what, &system, device, &strategy, geometric(theta), bound)?;
            }
        }
    }
    Ok(())
}

/// Each order is better than the one before, by what theory has for angles this small.
fn orders(device: &Device) -> Checked {
    let system = TestSystem::cluster(3000);
    let right = system.right();
    let mut before = f64::INFINITY;
    for order in Order::ALL {
        let strategy = TreeDeviceStrategy { order, ..strategy(device, Precision::Mixed) };
        let found = system.on(device, &strategy, geometric(0.4), false, None).map_err(said)?.0;
        let rms = errors(&found.acceleration, &right.acceleration).rms;
        if rms.is_nan() || rms > 0.5 * before || rms == 0.0 {
            return Err(format!("{order:?}: rms error {rms:.1e}, of the order below {before:.1e}"));
        }
        before = rms;
    }
    Ok(())
}

fn all_opened(device: &Device) -> Checked {
    for (precision, bound) in
        [(Precision::Single, 2e-4), (Precision::Mixed, 1e-6), (Precision::Double, 1e-13)]
    {
        let strategy = strategy(device, precision);
        hold(
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

fn few_bodies(device: &Device) -> Checked {
    for n in [0, 1, 2, 3, 16, 17, 31, 32, 33, 63, 65, 257] {
        for precision in PRECISIONS {
            let strategy = strategy(device, precision);
            hold(
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

fn awkward(device: &Device) -> Checked {
    for n in [33, 1500] {
        for (name, system) in TestSystem::awkward(n) {
            for precision in PRECISIONS {
                // Of so few bodies the processor makes one group, which meets every body.
                let bound = match n {
                    33 if name != "one far away" => 2e-3,
                    _ => as_on_the_processor(&system, geometric(0.5), precision),
                };
                let strategy = strategy(device, precision);
                hold(&format!("{name}, {precision:?}"), &system, device, &strategy, geometric(0.5), bound)?;
            }
        }
    }
    Ok(())
}

fn unequal_masses(device: &Device) -> Checked {
    let strategy = strategy(device, Precision::Mixed);
    hold("", &TestSystem::cluster(2000).with_unequal_masses(), device, &strategy, geometric(0.4), 2e-3)?;
    let massless = TestSystem { mass: vec![0.0; 100], ..TestSystem::cluster(100) };
    hold("no mass at all", &massless, device, &strategy, geometric(0.5), 0.0)
}

fn sizes(device: &Device) -> Checked {
    for (leaf_size, group_size) in [(1, 1), (24, 31), (200, 16)] {
        let strategy = TreeDeviceStrategy { leaf_size, group_size, ..strategy(device, Precision::Mixed) };
        let what = format!("leaves of {leaf_size}, groups of {group_size}");
        hold(&what, &TestSystem::cluster(1000), device, &strategy, geometric(0.4), 8e-3)?;
    }
    Ok(())
}

fn potentials(device: &Device) -> Checked {
    let system = TestSystem::cluster(2000);
    let right = system.right().potential.expect("asked for");
    let quadrupole = PRECISIONS.map(|precision| (Order::Quadrupole, precision));
    let others = [(Order::Monopole, Precision::Single), (Order::Octupole, Precision::Mixed)];
    for (order, precision) in quadrupole.into_iter().chain(others) {
        let strategy = TreeDeviceStrategy { order, ..strategy(device, precision) };
        let found = system.on(device, &strategy, geometric(0.5), true, None).map_err(said)?.0;
        let found = found.potential.expect("asked for");
        let worst =
            found.iter().zip(&right).map(|(found, right)| (found / right - 1.0).abs()).fold(0.0, f64::max);
        let bound = if order == Order::Monopole { 1e-2 } else { 1e-3 };
        if worst.is_nan() || worst > bound {
            return Err(format!(
                "{order:?}, {precision:?}: relative error {worst:.1e}, expected at most {bound:.0e}"
            ));
        }
    }
    Ok(())
}

/// A tenth of the tolerance gives smaller errors; without accelerations of a step before its angle applies.
fn relative(device: &Device) -> Checked {
    let system = TestSystem::cluster(3000);
    let right = system.right().acceleration;
    let strategy = strategy(device, Precision::Mixed);
    let mut before = 1e-2;
    for alpha in [1e-2, 1e-3, 1e-4] {
        let acceptance = Acceptance::Relative { alpha, theta: 0.9 };
        let (found, tree) = system.on(device, &strategy, acceptance, false, Some(&right)).map_err(said)?;
        let rms = errors(&found.acceleration, &right).rms;
        let cells = tree.report().map_err(said)?.cell_terms;
        if rms.is_nan() || rms > before || cells == 0 {
            return Err(format!(
                "alpha = {alpha}: rms error {rms:.1e}, expected at most {before:.1e}; {cells} cell terms"
            ));
        }
        before = 0.7 * rms;
    }
    let acceptance = Acceptance::Relative { alpha: 1e-4, theta: 0.9 };
    let first = system.on(device, &strategy, acceptance, false, None).map_err(said)?.0;
    let by_angle = system.on(device, &strategy, geometric(0.9), false, None).map_err(said)?.0;
    if first != by_angle {
        return Err("without accelerations of a step before, the relative form must use its angle".to_owned());
    }
    Ok(())
}

fn scales(device: &Device) -> Checked {
    for scale in [1e-12, 3e16] {
        for precision in PRECISIONS {
            let mut system = TestSystem::cluster(600).moved(|_, x| x.map(|c| c * scale));
            system.eps *= scale;
            system.mass.iter_mut().for_each(|m| *m *= scale * scale);
            let strategy = strategy(device, precision);
            hold(
                &format!("{precision:?}, lengths of {scale:e}"),
                &system,
                device,
                &strategy,
                geometric(0.5),
                5e-3,
            )?;
        }
    }
    // A softening far longer than everything else.
    let system = TestSystem { eps: 1e6, ..TestSystem::cluster(600) };
    hold("eps = 1e6", &system, device, &strategy(device, Precision::Double), geometric(0.5), 5e-3)
}

fn without_softening(device: &Device) -> Checked {
    for precision in PRECISIONS {
        let system = TestSystem { eps: 0.0, ..TestSystem::cluster(1500) };
        hold(&format!("{precision:?}"), &system, device, &strategy(device, precision), geometric(0.5), 5e-3)?;
    }
    Ok(())
}

/// Counted from the cube's middle, as in single precision, a pair so close would keep three digits.
fn close_pair(device: &Device) -> Checked {
    let mut system = TestSystem { eps: 0.0, ..TestSystem::cluster(1000) };
    let pair = [10, 700];
    system.position.set(pair[1], system.position.get(pair[0]).map(|c| c + 1e-4));
    let right = system.right().acceleration;
    let of_pair = |all: &Vec3s| {
        let mut some = Vec3s::default();
        pair.iter().for_each(|&i| some.push(all.get(i)));
        some
    };
    let strategy = strategy(device, Precision::Mixed);
    let found = system.on(device, &strategy, geometric(0.5), false, None).map_err(said)?.0.acceleration;
    let ForceErrors { max, .. } = errors(&of_pair(&found), &of_pair(&right));
    if max > 1e-4 {
        return Err(format!("bodies 1.7e-4 apart: relative error {max:.1e}, expected at most 1e-4"));
    }
    Ok(())
}

/// With all cells opened every pair is met, and no more.
fn terms(device: &Device) -> Checked {
    let (n, strategy) = (777, strategy(device, Precision::Single));
    let tree = TestSystem::cluster(n).on(device, &strategy, geometric(0.0), false, None).map_err(said)?.1;
    let report = tree.report().map_err(said)?;
    let pairs = (n * (n - 1)) as u64;
    let got = (report.body_terms, report.cell_terms, report.most_terms);
    if got != (pairs, 0, n as u64 - 1) {
        return Err(format!("body, cell and most terms {got:?}, expected ({pairs}, 0, {})", n - 1));
    }
    Ok(())
}

fn same_bits(device: &Device) -> Checked {
    let system = TestSystem::cluster(5000).with_unequal_masses();
    for precision in PRECISIONS {
        let strategy = strategy(device, precision);
        let once =
            || Ok::<_, String>(system.on(device, &strategy, geometric(0.6), true, None).map_err(said)?.0);
        let (first, second) = (once()?, once()?);
        if first != second {
            return Err(format!("{precision:?}: two evaluations of the same bodies differ"));
        }
    }
    Ok(())
}

/// The forms have little in common but the answer.
fn strategies_agree(device: &Device) -> Checked {
    let system = TestSystem::cube(2000);
    let groups = TreeDeviceStrategy { order: Order::Monopole, ..strategy(device, Precision::Single) };
    let form = TreeAlgorithm::Insertion { sorted: true, vote: true, throttled: true };
    let insertion = TreeDeviceStrategy { form, ..groups };
    let by = |strategy| {
        Ok::<_, String>(
            system.on(device, strategy, geometric(0.25), false, None).map_err(said)?.0.acceleration,
        )
    };
    let ForceErrors { p99, .. } = errors(&by(&groups)?, &by(&insertion)?);
    if p99 > 5e-3 {
        return Err(format!(
            "groups and insertion differ by {p99:.1e} (99th percentile), expected at most 5e-3"
        ));
    }
    Ok(())
}
