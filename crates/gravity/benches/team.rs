//! Seconds per leapfrog step of the tree: one rank with two threads, and two ranks with one each.
//! Before, the stages of one evaluation with one and with two threads: every rank builds the tree.
//!
//! `cargo bench -p orrery-gravity --bench team -- 1000000 5` for 1,000,000 bodies and 5 steps.

use std::time::Instant;

use orrery_cluster::{Team, threads};
use orrery_gravity::bodies::{Bodies, BodiesError, BodiesTeam, follow};
use orrery_gravity::integrator::leapfrog_step;
use orrery_gravity::settings::{Acceptance, GravitySettings, SolverChoice};
use orrery_gravity::solver::tree::{TreeCpuStrategy, forces_into};
use orrery_gravity::solver::{CpuMemory, ForceProblem, Forces};
use orrery_model::ic::Plummer;
use orrery_model::{Particles, Precision};
use orrery_simd::InstructionSet;

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// Returns the time that this thread has computed, in seconds. Other programs do not affect it.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).map_or(0.0, |ns: f64| 1e-9 * ns)
}

/// Returns the time of all threads of this pool.
fn cpu_seconds_of_pool() -> f64 {
    rayon::broadcast(|_| cpu_seconds()).iter().sum()
}

/// Returns the seconds per step, and the sum of the seconds of all threads of the pool per step.
fn time_steps(bodies: &mut Bodies, steps: u32) -> Result<[f64; 2], BodiesError> {
    for _ in 0..4 {
        leapfrog_step(bodies, 1e-4)?;
    }
    let (start, cpu_start) = (Instant::now(), cpu_seconds_of_pool());
    for _ in 0..steps {
        leapfrog_step(bodies, 1e-4)?;
    }
    let seconds = [start.elapsed().as_secs_f64(), cpu_seconds_of_pool() - cpu_start];
    Ok(seconds.map(|seconds| seconds / f64::from(steps)))
}

/// Prints the times of the stages of the third evaluation.
fn print_stages(settings: &GravitySettings, Particles { position, mass, .. }: &Particles, threads: usize) {
    let mut strategy = TreeCpuStrategy::new(settings.precision, InstructionSet::best());
    strategy.acceptance = settings.acceptance;
    let problem = ForceProblem { position, mass, g: settings.g, eps: settings.eps, with_potential: false };
    pool(threads).install(|| {
        let (mut memory, mut forces) = (CpuMemory::default(), Forces::default());
        forces_into(&problem, &strategy, None, &mut memory, &mut forces);
        forces_into(&problem, &strategy, None, &mut memory, &mut forces);
        let report = forces_into(&problem, &strategy, None, &mut memory, &mut forces);
        let (build, walk) = (report.build_secs, report.walk_secs);
        println!("{threads} threads: build {build:.4} s, walk and conversion {walk:.4} s");
    });
}

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u32>().ok());
    let n = numbers.next().unwrap_or(1_000_000) as usize;
    let steps = numbers.next().unwrap_or(5);
    let settings = GravitySettings {
        g: 1.0,
        eps: 1e-3,
        solver: SolverChoice::Tree,
        acceptance: Acceptance::Geometric { theta: 0.6 },
        precision: Precision::Mixed,
    };
    let plummer = || Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
    for threads in [1, 2] {
        print_stages(&settings, &plummer(), threads);
    }
    for round in 0..2 {
        let one = pool(2).install(|| {
            let mut bodies = Bodies::new(plummer(), &settings, None).unwrap();
            time_steps(&mut bodies, steps).unwrap()
        });
        let ranks = threads::run(2, |transport| {
            let transport = transport.clone();
            pool(1).install(|| {
                let team = Team::new(&transport);
                if !team.is_leader() {
                    return follow(&team, None).map(|()| ([0.0; 2], transport.traffic()));
                }
                let mut bodies = Bodies::new_on_team(&BodiesTeam::lead(&team), plummer(), &settings, None)?;
                Ok::<_, BodiesError>((time_steps(&mut bodies, steps)?, transport.traffic()))
            })
        })
        .unwrap();
        let two = ranks[0].0;
        let [seconds_of_one, cpu_of_one] = one;
        let [seconds_of_two, cpu_of_two] = two;
        println!(
            "{round}: {n} bodies: two threads {seconds_of_one:.3} s, two ranks {seconds_of_two:.3} s, ratio {:.3}",
            seconds_of_one / seconds_of_two
        );
        println!(
            "   computing: half of two threads {:.3} s, rank 0 {cpu_of_two:.3} s, ratio {:.3}",
            cpu_of_one / 2.0,
            cpu_of_one / 2.0 / cpu_of_two
        );
        for (rank, (_, traffic)) in ranks.iter().enumerate() {
            println!("   rank {rank}: {traffic:?}");
        }
    }
}
