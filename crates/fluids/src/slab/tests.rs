//! Parts of a fluid: who has which particles, and which ghosts.

use orrery_cluster::threads;
use orrery_model::ic::lattice::{Lattice, set_maxwell_velocities};

use super::super::sample::melt_settings;
use super::super::tests::plain_settings;
use super::*;
use crate::potential::Truncation;
use crate::settings::{FluidSettings, PairSearch};

/// A melt whose box is 3.36 times as long along z as along the other axes.
fn long_melt() -> FluidParticles {
    let mut particles = Lattice::Fcc.fill([4, 4, 13], 0.8442);
    set_maxwell_velocities(&mut particles, &[1.0], 1.44, 5);
    particles
}

/// Runs `read` on each rank after `steps` steps of a fluid.
fn on_ranks<T: Send>(
    ranks: usize,
    particles: &FluidParticles,
    settings: &FluidSettings,
    steps: u64,
    read: impl Fn(&HostPart) -> T + Sync,
) -> Vec<T> {
    let (total, bounds) = (particles.len(), particles.bounds);
    let found = threads::run(ranks, |transport| {
        let records = share_particles(transport, (transport.rank() == 0).then_some(particles))?;
        assert_eq!(records.len(), total * (transport.rank() + 1) / ranks - total * transport.rank() / ranks);
        let part = HostPart::new(&records, bounds, settings, settings.uses_lists(total, &bounds));
        let mut slab = SlabFluid::new(transport, part, total)?;
        slab.advance(0.005, 0, steps)?;
        Ok::<_, DeviceFluidError>(read(slab.part()))
    });
    found.unwrap()
}

/// Each particle is on one rank, and ghosts are behind the particles of a rank, at the positions
/// that their ranks have.
#[test]
fn each_particle_has_one_rank_and_ghosts_follow_it() {
    let (particles, settings) = (long_melt(), melt_settings());
    for ranks in [1, 3, 4] {
        let found = on_ranks(ranks, &particles, &settings, 60, |part| {
            let fluid = &part.fluid;
            let at = |k: usize| (fluid.user_index(k), fluid.fractions(k));
            let own: Vec<_> = (0..fluid.len()).map(at).collect();
            let ghosts: Vec<_> = part.ghosts().map(at).collect();
            (own, ghosts, fluid.rebuilds())
        });
        let mut all: Vec<_> = found.iter().flat_map(|(own, ..)| own.clone()).collect();
        all.sort_unstable();
        assert!(all.iter().enumerate().all(|(index, &(user, _))| index == user), "{ranks} ranks");
        assert_eq!(all.len(), particles.len());
        for (own, ghosts, rebuilds) in &found {
            // The work per particle is equal here, and borders are rounded to parts of slabs.
            assert!(own.len().abs_diff(particles.len() / ranks) < 20, "{ranks} ranks: {}", own.len());
            assert!(ghosts.iter().all(|ghost| all[ghost.0] == *ghost && !own.contains(ghost)));
            assert!(*rebuilds > 4, "{rebuilds}");
            // A layer of the lists' radius on both sides, 2.8 of 21.8, and how far particles move.
            let share = ghosts.len() as f64 / particles.len() as f64;
            let expected = if ranks == 1 { 0.0 } else { 2.0 * 2.8 / particles.bounds.lengths[2] };
            assert!((share - expected).abs() < 0.04, "{ranks} ranks: {share} {expected}");
        }
    }
}

/// A dense drop in one half of the box and vapour in the other: slabs have unequal widths, and
/// about the same number of neighbours.
#[test]
fn slabs_have_the_same_work() {
    let mut particles = Lattice::Fcc.fill([4, 4, 13], 0.8442);
    let bounds = particles.bounds;
    // Every seventh particle in one half remains.
    let is_kept = |k: usize| particles.position[2][k] < 1 << 63 || k.is_multiple_of(7);
    let kept: Vec<usize> = (0..particles.len()).filter(|&k| is_kept(k)).collect();
    let mut thinned = FluidParticles::at_rest(bounds, &orrery_model::Vec3s::zeros(kept.len()));
    for (k, &old) in kept.iter().enumerate() {
        for axis in 0..3 {
            thinned.position[axis][k] = particles.position[axis][old];
        }
    }
    set_maxwell_velocities(&mut thinned, &[1.0], 1.0, 5);
    particles = thinned;
    let found = on_ranks(3, &particles, &melt_settings(), 40, |part| {
        let fluid = &part.fluid;
        ((0..fluid.len()).map(|k| fluid.work(k)).sum::<u64>(), fluid.len())
    });
    let mean = found.iter().map(|(work, _)| work).sum::<u64>() as f64 / 3.0;
    // One layer of the lattice at a border has 5% of the work of a rank.
    assert!(found.iter().all(|&(work, _)| (work as f64 / mean - 1.0).abs() < 0.1), "{found:?}");
    let lengths = found.iter().map(|&(_, len)| len);
    assert!(lengths.clone().max().unwrap() as f64 > 1.2 * lengths.min().unwrap() as f64, "{found:?}");
}

/// Without lists, all ranks have copies of all particles.
#[test]
fn without_lists_all_particles_are_ghosts() {
    let particles = Lattice::Fcc.fill([2, 2, 2], 0.3);
    let settings = FluidSettings { search: PairSearch::AllPairs, ..plain_settings(Truncation::Shifted) };
    let found = on_ranks(5, &particles, &settings, 3, |part| (part.len(), part.ghosts().count()));
    assert_eq!(found.iter().map(|(own, _)| own).sum::<usize>(), 32);
    assert!(found.iter().all(|(own, ghosts)| own + ghosts == 32 && (6..=7).contains(own)), "{found:?}");
}
