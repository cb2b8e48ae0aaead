use orrery_cluster::threads;
use orrery_model::{Precision, Vec3s};
use orrery_simd::InstructionSet;

use super::*;
use crate::settings::Acceptance;
use crate::solver::direct::DirectCpuStrategy;
use crate::solver::tests::cluster;
use crate::solver::tree::TreeCpuStrategy;
use crate::solver::{CpuMemory, ForceProblem, Forces, GravityCpuStrategy};

/// Borders that are snapped to multiples of 10 cover all targets, also if there are fewer multiples
/// than ranks.
#[test]
fn parts_cover_all_targets() {
    for size in [1, 2, 3, 4] {
        let parts = threads::run(size, |transport| {
            let share = TargetShare::new(transport);
            let division = |n: usize| {
                let parts = share.of(Evaluation::Forces).divide(n, |border| border.next_multiple_of(10));
                (parts.own(), parts.lengths(3).iter().sum::<usize>())
            };
            Ok::<_, ClusterError>([0, 1, 9, 25, 1000].map(division))
        });
        for parts_of_n in [0, 1, 2, 3, 4].map(|k| parts.as_ref().unwrap().iter().map(move |ranks| &ranks[k]))
        {
            let mut end = 0;
            for (own, total) in parts_of_n {
                assert_eq!(own.start, end, "{size} ranks");
                assert!(own.start.is_multiple_of(10) || own.is_empty());
                end = own.end;
                assert_eq!(total % 3, 0);
            }
        }
        let ends = parts.unwrap().pop().unwrap().map(|(own, total)| (own.end, total));
        assert_eq!(ends, [0, 1, 9, 25, 1000].map(|n| (n, 3 * n)));
    }
}

#[test]
fn each_kind_of_evaluation_is_balanced_separately() {
    let borders = threads::run(2, |transport| {
        let share = TargetShare::new(transport);
        let own_of = |kind| share.of(kind).divide(100, |border| border).own();
        // Rank 0 is three times as slow.
        let seconds = [3.0, 1.0][transport.rank()];
        for _ in 0..20 {
            // Work is proportional to the number of targets.
            let targets = own_of(Evaluation::Forces).len() as f64;
            share.of(Evaluation::Forces).agree(Ok::<_, ClusterError>(seconds * targets))?;
        }
        Ok::<_, ClusterError>((own_of(Evaluation::Forces), own_of(Evaluation::Jerks)))
    });
    assert_eq!(borders.unwrap(), [(0..25, 0..50), (25..100, 50..100)]);
}

/// The followers skip the evaluation and take part in the next one.
#[test]
fn a_failure_of_rank_0_is_no_failure_of_the_others() {
    let failed = ClusterError::SeparateMemory;
    let results = threads::run(3, |transport| {
        let share = TargetShare::new(transport);
        let evaluation = share.of(Evaluation::Energies);
        let part = if transport.rank() == 0 { Err(failed.clone()) } else { Ok(1.0) };
        let first = evaluation.agree(part).unwrap_err();
        // The same without a part.
        let second = if transport.rank() == 0 {
            evaluation.fail(failed.clone())
        } else {
            evaluation.agree(Ok(1.0)).unwrap_err()
        };
        assert_eq!(first, second);
        evaluation.agree(Ok::<_, ClusterError>(1.0))?;
        Ok::<_, ClusterError>(first)
    });
    let skipped = ClusterError::Aborted { rank: 0, message: PART_FAILED.to_owned() };
    assert_eq!(results.unwrap(), [failed, skipped.clone(), skipped]);
}

/// Rank 0 gets the message of the follower that failed.
#[test]
fn a_failure_of_a_follower_ends_the_group() {
    let result: Result<Vec<()>, ClusterError> = threads::run(3, |transport| {
        let share = TargetShare::new(transport);
        let part = if transport.rank() == 1 { Err(ClusterError::SeparateMemory) } else { Ok(1.0) };
        let error = share.of(Evaluation::Forces).agree(part).unwrap_err();
        if transport.rank() != 1 {
            let message = ClusterError::SeparateMemory.to_string();
            assert_eq!(error, ClusterError::Aborted { rank: 1, message });
        }
        Err(error)
    });
    assert_eq!(result, Err(ClusterError::SeparateMemory));
}

/// Strategies of all solvers on the CPU.
fn strategies() -> Vec<GravityCpuStrategy> {
    let set = InstructionSet::best();
    let relative = Acceptance::Relative { alpha: 0.01, theta: 0.7 };
    let trees = Precision::ALL.map(|precision| TreeCpuStrategy::new(precision, set));
    let relative = TreeCpuStrategy { acceptance: relative, ..trees[1] };
    let direct = Precision::ALL.map(|precision| DirectCpuStrategy::new(precision, set));
    let trees = trees.into_iter().chain([relative]).map(GravityCpuStrategy::Tree);
    trees.chain(direct.map(GravityCpuStrategy::Direct)).collect()
}

/// Parts of any size, also empty ones, have the forces of one rank.
#[test]
fn bits_do_not_depend_on_the_borders() {
    let n = 600;
    let (position, mass) = cluster(n, 3);
    let previous = Vec3s { x: vec![1.0; n], y: vec![0.1; n], z: vec![2.0; n] };
    let problem = ForceProblem { position: &position, mass: &mass, g: 1.5, eps: 0.01, with_potential: true };
    let borders = [[0.0, 0.01, 0.5, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.7, 0.7, 1.0], [0.0, 0.999, 1.0, 1.0]];
    for strategy in strategies() {
        let expected = strategy.forces(&problem, Some(&previous));
        let found = threads::run(3, |transport| {
            let share = TargetShare::new(transport);
            let (mut memory, mut forces) = (CpuMemory::default(), Forces::default());
            let mut all = Vec::new();
            for borders in borders {
                share.of(Evaluation::Forces).with_balance(|balance| *balance = Balance::new(&borders));
                let evaluation = share.of(Evaluation::Forces);
                strategy.shared_forces_into(
                    &problem,
                    Some(&previous),
                    evaluation,
                    &mut memory,
                    &mut forces,
                )?;
                all.push(forces.clone());
            }
            Ok::<_, ClusterError>(all)
        });
        for forces in found.unwrap().into_iter().flatten() {
            assert!(forces == expected, "{strategy:?}");
        }
    }
}
