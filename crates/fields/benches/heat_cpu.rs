//! Speed of the heat solver on the CPU for a list of strategies.
//!
//!     cargo bench -p orrery-fields --bench heat_cpu -- [n] [variable|capacity] [cached]
//!
//! n x n nodes in f32, 16384 by default. `variable` has a conductivity per node, and `capacity` a
//! heat capacity per node too. `cached` writes results through the cache. The figure is that of the
//! fastest of several passes.

use std::time::Instant;

use orrery_fields::heat::cpu::HeatCpuStrategy;
use orrery_fields::heat::{Conductivity, HeatCapacity, HeatProblem, Plate};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid};
use orrery_simd::AlignedVec;

/// Least time per strategy.
const SECONDS: f64 = 4.0;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let n = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(16384);
    let conductivity = match arguments.iter().any(|argument| argument == "variable") {
        true => Conductivity::Field(vec![1.0; n * n]),
        false => Conductivity::Uniform(1.0),
    };
    let grid = Grid { nx: n, ny: n, hx: 1.0, hy: 1.0 };
    let boundaries = Boundaries::uniform(Boundary::fixed(0.0));
    let problem = HeatProblem::new(grid, boundaries, conductivity, None, Precision::Single);
    let mut problem = problem.expect("the problem is valid");
    if arguments.iter().any(|argument| argument == "capacity") {
        let capacity = (0..n * n).map(|k| 1.0 + (k % 2) as f64).collect();
        let field = problem.with_heat_capacity(HeatCapacity::Field(capacity));
        problem = field.expect("the heat capacity is valid");
    }
    let plate = Plate::<f32>::new(&problem);
    let mut fields = [AlignedVec::<f32>::zeros(n * n), AlignedVec::zeros(n * n)];
    for field in &mut fields {
        field.iter_mut().enumerate().for_each(|(k, u)| *u = (k % 97) as f32);
    }
    let [mut from, mut to] = fields;
    let is_cached = arguments.iter().any(|argument| argument == "cached");
    for strategy in HeatCpuStrategy::all(&plate) {
        let strategy = HeatCpuStrategy { is_streaming: !is_cached, ..strategy };
        let (mut fastest, start) = (f64::INFINITY, Instant::now());
        while start.elapsed().as_secs_f64() < SECONDS {
            let start = Instant::now();
            strategy.pass(&plate, plate.step_coefficients(0.2), strategy.steps_per_pass, &from, &mut to);
            fastest = fastest.min(start.elapsed().as_secs_f64());
            std::mem::swap(&mut from, &mut to);
        }
        let rate = (n * n * strategy.steps_per_pass) as f64 / fastest / 1e9;
        println!("{}: {rate:.2} Gpoint/s", strategy.name());
    }
}
