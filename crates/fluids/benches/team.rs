//! Seconds per step of the melt: one rank with two threads, and two ranks with one thread each.
//!
//! `N=262144 STEPS=100 cargo bench -p orrery-gravity --bench fluid_team`

use std::time::Instant;

use orrery_cluster::{Team, threads};
use orrery_fluids::sample::{MELT_DT, melt, melt_settings};
use orrery_fluids::{DeviceFluidError, Fluid, FluidTeam, follow};

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads")
}

/// Returns a number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// Returns seconds per step, after steps that melt the lattice.
fn time_steps(fluid: &mut Fluid, steps: u64) -> Result<f64, DeviceFluidError> {
    fluid.advance(MELT_DT, 0, 50)?;
    let start = Instant::now();
    fluid.advance(MELT_DT, 50, steps)?;
    Ok(start.elapsed().as_secs_f64() / steps as f64)
}

fn main() -> Result<(), DeviceFluidError> {
    let (n, steps, rounds) = (number("N", 1 << 18) as usize, number("STEPS", 100), number("ROUNDS", 3));
    let settings = melt_settings();
    for _ in 0..rounds {
        let one = pool(2).install(|| time_steps(&mut Fluid::new(melt(n), &settings, None)?, steps))?;
        let ranks = threads::run(2, |transport| {
            pool(1).install(|| {
                let team = Team::new(transport);
                let seconds = match team.is_leader() {
                    false => follow(&team, None).map(|()| 0.0)?,
                    true => {
                        let team = FluidTeam::lead(&team);
                        time_steps(&mut Fluid::new_on_team(&team, melt(n), &settings, None)?, steps)?
                    }
                };
                Ok::<_, DeviceFluidError>((seconds, transport.traffic()))
            })
        })?;
        let two = ranks[0].0;
        println!(
            "{n} particles: two threads {:.2} ms, two ranks {:.2} ms, ratio {:.3}",
            1e3 * one,
            1e3 * two,
            one / two
        );
        for (rank, (_, traffic)) in ranks.iter().enumerate() {
            println!("  rank {rank}: {traffic:?}");
        }
    }
    Ok(())
}
