//! Seconds per leapfrog step of the tree: one rank with two threads, and two ranks with one each.

use std::time::Instant;

use orrery_cluster::{Team, threads};
use orrery_model::Precision;
use orrery_model::ic::Plummer;
use orrery_particles::bodies::{Bodies, BodiesError, BodiesTeam, follow};
use orrery_particles::integrator::leapfrog_step;
use orrery_particles::settings::{Acceptance, GravitySettings, SolverChoice};

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

fn time_steps(bodies: &mut Bodies, steps: u32) -> Result<f64, BodiesError> {
    leapfrog_step(bodies, 1e-4)?;
    leapfrog_step(bodies, 1e-4)?;
    let start = Instant::now();
    for _ in 0..steps {
        leapfrog_step(bodies, 1e-4)?;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(steps))
}

fn main() {
    let n = std::env::var("N").map_or(1_000_000, |n| n.parse().unwrap());
    let steps = std::env::var("STEPS").map_or(5, |n| n.parse().unwrap());
    let settings = GravitySettings {
        g: 1.0,
        eps: 1e-3,
        solver: SolverChoice::Tree,
        acceptance: Acceptance::Geometric { theta: 0.6 },
        precision: Precision::Mixed,
    };
    let plummer = || Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
    for round in 0..3 {
        let one = pool(2).install(|| {
            let mut bodies = Bodies::new(plummer(), &settings, None).unwrap();
            time_steps(&mut bodies, steps).unwrap()
        });
        let ranks = threads::run(2, |transport| {
            let transport = transport.clone();
            pool(1).install(|| {
                let team = Team::new(&transport);
                if !team.is_leader() {
                    return follow(&team, None).map(|()| (0.0, transport.traffic()));
                }
                let mut bodies = Bodies::new_on_team(&BodiesTeam::lead(&team), plummer(), &settings, None)?;
                Ok::<_, BodiesError>((time_steps(&mut bodies, steps)?, transport.traffic()))
            })
        })
        .unwrap();
        println!(
            "{round}: {n} bodies: two threads {one:.3} s, two ranks {:.3} s, ratio {:.3}",
            ranks[0].0,
            one / ranks[0].0
        );
        for (rank, (_, traffic)) in ranks.iter().enumerate() {
            println!("   rank {rank}: {traffic:?}");
        }
    }
}
