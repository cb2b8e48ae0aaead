//! `cargo bench -p orrery-gravity`: time of a step and of its check for non-finite values.
//!
//! Every step of a run includes the check, so the check must take less than 1% of the step. The
//! speed of the solvers is measured by `orrery bench`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use orrery_gravity::bodies::Bodies;
use orrery_gravity::integrator::leapfrog_step;
use orrery_gravity::settings::{Acceptance, GravitySettings, SolverChoice};
use orrery_model::ic::{Plummer, SolarSystem};
use orrery_model::{Particles, Precision};

/// Number of samples. The median is printed.
const SAMPLES: usize = 11;

/// Minimum time of a sample. Shorter tasks are repeated within a sample.
const SAMPLE_TIME: Duration = Duration::from_millis(100);

fn main() {
    let settings = GravitySettings {
        g: 1.0,
        eps: 0.01,
        solver: SolverChoice::Auto,
        acceptance: Acceptance::default(),
        precision: Precision::default(),
    };
    let planets = SolarSystem::default().generate(1.0).expect("valid parameters");
    for start in [planets, plummer(1000), plummer(30_000), plummer(1_000_000)] {
        let n = start.len();
        let mut bodies = Bodies::new(start, &settings, None).expect("the host does not fail");
        let step = median_secs(|| leapfrog_step(&mut bodies, 1e-6).expect("the host does not fail"));
        let check = median_secs(|| black_box(&bodies).check_finite().expect("finite numbers"));
        let solver = bodies.solver_name();
        let percent = 100.0 * check / step;
        println!("{n} bodies, {solver}: step {step:.2e} s, check {check:.2e} s ({percent:.2}%)");
    }
}

fn plummer(n: usize) -> Particles {
    Plummer { n, seed: 1, ..Plummer::default() }.generate(1.0).expect("valid parameters")
}

/// Returns the median time of one call of `task`, in seconds. The calls are made on a thread of the
/// pool, as in a simulation. Calls from another thread would each wake the pool.
fn median_secs(mut task: impl FnMut() + Send) -> f64 {
    rayon::scope(|_| {
        let mut time_calls = |count: u32| {
            let start = Instant::now();
            (0..count).for_each(|_| task());
            start.elapsed()
        };
        let mut count = 1;
        while time_calls(count) < SAMPLE_TIME {
            count *= 2;
        }
        let mut samples: Vec<f64> =
            (0..SAMPLES).map(|_| time_calls(count).as_secs_f64() / f64::from(count)).collect();
        samples.sort_by(f64::total_cmp);
        samples[SAMPLES / 2]
    })
}
