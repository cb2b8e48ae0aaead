//! Tests of the scheme against exact solutions.

use std::f64::consts::PI;

use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::{
    HostWave, Medium, SpaceOrder, StoredWave, Velocity, WaveProblem, WaveSource, WaveState, reference,
};
use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid, Wavelet};

use crate::wave_cpu::scattered;

const FREE_RIGID: Sides = Sides {
    x_min: SideCondition::Free,
    x_max: SideCondition::Free,
    y_min: SideCondition::Rigid,
    y_max: SideCondition::Rigid,
    z_min: SideCondition::Free,
    z_max: SideCondition::Rigid,
};

pub fn problem(
    grid: WaveGrid,
    sides: Sides,
    order: SpaceOrder,
    velocity: Velocity,
    points: [&[WaveSource]; 1],
    receivers: &[[f64; 3]],
) -> WaveProblem {
    let sources = points[0].to_vec();
    WaveProblem::new(grid, sides, order, velocity, sources, receivers.to_vec(), Precision::Double).unwrap()
}

/// Returns a wave sin(2π i/N) between free surfaces at i = 0 and i = 40, for N points per
/// wavelength. It is an eigenvector of the operator, because its images continue it.
fn standing_wave(order: SpaceOrder, points: f64, dt: f64) -> (Medium<f64>, Vec<f64>) {
    let grid = WaveGrid::plane([41, 9], [1.0; 2]);
    let problem = problem(grid, FREE_RIGID, order, Velocity::Uniform(1.0), [&[]], &[]);
    let wave = |index: usize| {
        // sin is exactly zero on the surfaces.
        let i = grid.node(index)[0];
        if i == 0 || i == 40 { 0.0 } else { (2.0 * PI * i as f64 / points).sin() }
    };
    (Medium::new(&problem, dt), (0..grid.len()).map(wave).collect())
}

/// Returns the index of the largest value.
fn crest_of(wave: &[f64]) -> usize {
    (0..wave.len()).max_by(|&a, &b| wave[a].total_cmp(&wave[b])).unwrap()
}

/// Returns the factor of a standing wave after one step, without the wave before it: 2 cos(ω dt).
fn step_factor(order: SpaceOrder, points: f64, dt: f64) -> f64 {
    let (medium, wave) = standing_wave(order, points, dt);
    let mut state = WaveState::start(&medium, wave.clone(), vec![0.0; wave.len()]);
    reference::step(&medium, &mut state);
    let factors = (0..wave.len()).filter(|&k| wave[k].abs() > 0.1).map(|k| state.now[k] / wave[k]);
    let crest = crest_of(&wave);
    let factor = state.now[crest] / wave[crest];
    // The wave keeps its shape, up to rounding of a few terms.
    factors.for_each(|found| assert!((found - factor).abs() < 1e-13, "{found} {factor}"));
    factor
}

#[test]
fn phase_velocities_are_the_tabulated_ones() {
    let dt = 0.4;
    for (points, expected) in [(4.0, 1.013676), (5.0, 1.010126), (8.0, 1.004138), (10.0, 1.002647)] {
        let frequency = (0.5 * step_factor(SpaceOrder::Eighth, points, dt)).acos() / dt;
        let phase_velocity = frequency * points / (2.0 * PI);
        // The table has seven digits.
        assert!((phase_velocity - expected).abs() < 6e-7, "{points}: {phase_velocity}");
    }
}

#[test]
fn standing_waves_oscillate_with_the_frequency_of_the_scheme() {
    let (dt, steps) = (0.4, 300);
    for points in [4.0, 8.0] {
        let (medium, wave) = standing_wave(SpaceOrder::Eighth, points, dt);
        let angle = (0.5 * step_factor(SpaceOrder::Eighth, points, dt)).acos();
        let mut state =
            WaveState::start(&medium, wave.clone(), wave.iter().map(|u| angle.cos() * u).collect());
        reference::advance(&medium, &mut state, steps);
        let expected = (steps as f64 * angle).cos();
        for k in 0..wave.len() {
            // 300 steps, whose rounding errors grow linearly.
            assert!((state.now[k] - expected * wave[k]).abs() < 300.0 * 300.0 * f64::EPSILON, "{points}");
        }
    }
}

#[test]
fn error_in_space_has_the_order_of_the_stencil() {
    for order in SpaceOrder::ALL {
        // The factor is 2 − v λ, where λ approximates (k h)².
        let error = |points: f64| {
            let dt = 0.4;
            let eigenvalue = (2.0 - step_factor(order, points, dt)) / (dt * dt);
            let exact = (2.0 * PI / points).powi(2);
            (eigenvalue / exact - 1.0).abs()
        };
        let measured = (error(10.0) / error(20.0)).log2();
        let expected = f64::from(order.number());
        // The next term of the error is (k h)² = 0.4 times a number below 1, at 10 points.
        assert!((measured - expected).abs() < 0.3, "{order:?}: {measured}");
        assert!(measured > expected - 0.3);
    }
}

#[test]
fn error_in_time_is_of_second_order() {
    // A zero of the cosine, where the error of the phase is largest.
    let end = 18.0;
    let error = |steps: u64| {
        let dt = end / steps as f64;
        // The frequency of the equation that is exact in time: ω² = λ.
        let frequency = (2.0 - step_factor(SpaceOrder::Eighth, 8.0, 0.4)).sqrt() / 0.4;
        let (medium, wave) = standing_wave(SpaceOrder::Eighth, 8.0, dt);
        let before = wave.iter().map(|u| (frequency * dt).cos() * u).collect();
        let mut state = WaveState::start(&medium, wave.clone(), before);
        reference::advance(&medium, &mut state, steps);
        let crest = crest_of(&wave);
        (state.now[crest] - (frequency * end).cos() * wave[crest]).abs()
    };
    let order = (error(40) / error(80)).log2();
    // The next term is (ω dt)² = 0.1 times a number below 1.
    assert!((order - 2.0).abs() < 0.1, "{order}");
}

/// Returns the largest third derivative of a function that is sampled with the interval `dt`.
fn largest_third_derivative(values: &[f64], dt: f64) -> f64 {
    let third = |w: &[f64]| (w[4] - 2.0 * w[3] + 2.0 * w[1] - w[0]).abs() / (2.0 * dt.powi(3));
    values.windows(5).map(third).fold(0.0, max_or_nan)
}

/// Returns the trace of a receiver, and the steps it has.
pub fn trace_of(problem: &WaveProblem, dt: f64, steps: u64) -> Vec<f64> {
    let medium = Medium::<f64>::new(problem, dt);
    let state = WaveState::at_rest(&medium);
    let mut host = HostWave::new(medium, &state, WaveCpuStrategy::resolve());
    host.advance(steps);
    host.samples().to_vec()
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, max_or_nan)
}

/// Waves of a scheme with steps of length dt are faster by (ω dt)²/24, so they arrive earlier by
/// that fraction of the time r/c. The difference from the exact wave u is (r/c) dt²/24 times
/// ∂³u/∂t³. The other errors are smaller: 20% at 16 points per wavelength.
fn compare_with_exact(trace: &[f64], exact: &[f64], travel_time: f64, dt: f64) {
    let expected = travel_time * dt * dt / 24.0 * largest_third_derivative(exact, dt);
    let found = largest_difference(trace, exact);
    let peak = exact.iter().copied().fold(0.0, max_or_nan);
    assert!(expected < 0.1 * peak);
    assert!((0.8 * expected..1.2 * expected).contains(&found), "{found} {expected} {peak}");
}

#[test]
fn point_source_in_space_decays_with_the_distance() {
    let h = 0.5;
    let grid = WaveGrid::volume([56, 57, 75], [h; 3]);
    let sides = Sides::uniform(SideCondition::Absorbing(AbsorbingLayer::new(10)));
    // 16 points per wavelength, and a source between nodes.
    let wavelet = Wavelet::ricker(3.0 / (16.0 * h));
    let source = WaveSource { position: [13.6, 14.2, 11.1], wavelet: wavelet.clone() };
    let receivers: Vec<[f64; 3]> = [8.0, 12.0, 16.0].map(|r| [13.6, 14.2, 11.1 + r * 0.9]).to_vec();
    let problem = problem(grid, sides, SpaceOrder::Eighth, Velocity::Uniform(3.0), [&[source]], &receivers);
    let (dt, steps) = (0.4 * h / 3.0, 220);
    let samples = trace_of(&problem, dt, steps);
    for (k, receiver) in receivers.iter().enumerate() {
        let r = receiver[2] - 11.1;
        let trace: Vec<f64> = samples.iter().skip(k).step_by(3).copied().collect();
        let exact = |step: u64| wavelet.at(step as f64 * dt - r / 3.0) / (4.0 * PI * r);
        let exact: Vec<f64> = (0..=steps).map(exact).collect();
        compare_with_exact(&trace, &exact, r / 3.0, dt);
    }
}

#[test]
fn point_source_in_the_plane_follows_the_green_function() {
    let grid = WaveGrid::plane([141, 131], [1.0, 1.0]);
    let sides = Sides::uniform(SideCondition::Absorbing(AbsorbingLayer::new(20)));
    let wavelet = Wavelet::ricker(1.0 / 16.0);
    let source = WaveSource { position: [60.3, 65.8, 0.0], wavelet: wavelet.clone() };
    let receiver = [60.3 + 24.0, 65.8 - 18.0, 0.0];
    let problem = problem(grid, sides, SpaceOrder::Eighth, Velocity::Uniform(1.0), [&[source]], &[receiver]);
    let (dt, steps) = (0.4, 300);
    let trace = trace_of(&problem, dt, steps);
    // G = H(t − r/c)/(2π √(t² − r²/c²)). With t = (r/c) cosh θ, u = ∫ f(t − (r/c) cosh θ) dθ/2π.
    let exact = |step: u64| {
        let step_of_angle = 1e-3;
        let value = |k: u64| wavelet.at(step as f64 * dt - 30.0 * (k as f64 * step_of_angle).cosh());
        // The integrand is even in θ and vanishes at the upper limit, cosh 3 = 10.
        (0.5 * value(0) + (1..3000).map(value).sum::<f64>()) * step_of_angle / (2.0 * PI)
    };
    let exact: Vec<f64> = (0..=steps).map(exact).collect();
    compare_with_exact(&trace, &exact, 30.0, dt);
}

#[test]
fn layers_reflect_and_transmit_with_the_known_coefficients() {
    let (c_1, c_2, width) = (1.0, 1.6, 10.0);
    let grid = WaveGrid::plane([801, 9], [1.0; 2]);
    let velocity = |index: usize| if grid.node(index)[0] < 400 { c_1 } else { c_2 };
    let velocity = Velocity::Field((0..grid.len()).map(velocity).collect());
    let problem = problem(grid, FREE_RIGID, SpaceOrder::Eighth, velocity, [&[]], &[]);
    let dt = 0.25;
    let medium = Medium::<f64>::new(&problem, dt);
    // A pulse that moves to the right and is at node 300.
    let pulse = |time: f64| {
        let value = |index: usize| {
            let x = grid.node(index)[0] as f64 - 300.0 - c_1 * time;
            (-0.5 * (x / width).powi(2)).exp()
        };
        (0..grid.len()).map(value).collect::<Vec<f64>>()
    };
    let state = WaveState::start(&medium, pulse(0.0), pulse(-dt));
    let mut host = HostWave::new(medium, &state, WaveCpuStrategy::resolve());
    host.advance(800);
    let u = host.values(StoredWave::State);
    let peak = |nodes: std::ops::Range<usize>| {
        nodes.map(|i| u[grid.index([i, 4, 0])]).fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a })
    };
    // u and its derivative are continuous.
    let (reflected, transmitted) = ((c_2 - c_1) / (c_2 + c_1), 2.0 * c_2 / (c_2 + c_1));
    // The interface is between two nodes: the error of a pulse is of order (h/width)².
    let tolerance = 1.0 / (width * width);
    assert!((peak(0..400) - reflected).abs() < tolerance, "{} {reflected}", peak(0..400));
    assert!((peak(400..801) - transmitted).abs() < tolerance, "{} {transmitted}", peak(400..801));
    // After 200 time units the reflected pulse is at 400 − 100, the other one at 400 + 100 × 1.6.
    for (node, expected) in [(300, reflected), (560, transmitted)] {
        assert!((u[grid.index([node, 4, 0])] - expected).abs() < 2.0 * tolerance, "{node}");
    }
}

#[test]
fn source_and_receiver_can_be_exchanged() {
    let grid = WaveGrid::volume([24, 20, 22], [1.0, 0.9, 1.1]);
    let velocity: Vec<f64> = scattered(grid.len(), 5).iter().map(|c| 2.0 + c).collect();
    // Near a free surface and a rigid side, and on a rigid side.
    let points = [[1.3, 5.2, 20.4], [15.7, 17.1, 3.8], [10.0, 0.0, 10.3]];
    for (a, b) in [(0, 1), (1, 2), (0, 2)] {
        let trace = |from: usize, to: usize| {
            let source = WaveSource { position: points[from], wavelet: Wavelet::ricker(0.2) };
            let velocity = Velocity::Field(velocity.clone());
            let problem = problem(grid, FREE_RIGID, SpaceOrder::Eighth, velocity, [&[source]], &[points[to]]);
            trace_of(&problem, 0.1, 200)
        };
        let (there, back) = (trace(a, b), trace(b, a));
        let peak = there.iter().map(|u| u.abs()).fold(0.0, max_or_nan);
        // Both have the rounding errors of 200 steps.
        assert!(peak > 1e-5, "{peak}");
        assert!(largest_difference(&there, &back) < 1e-11 * peak, "{a} {b}");
    }
}

#[test]
fn energy_is_constant_without_absorption() {
    let velocity =
        |grid: &WaveGrid| Velocity::Field(scattered(grid.len(), 5).iter().map(|c| 2.0 + c).collect());
    for (order, grid) in SpaceOrder::ALL.into_iter().zip([
        WaveGrid::plane([40, 31], [1.0, 0.8]),
        WaveGrid::volume([20, 18, 23], [1.0, 0.8, 1.1]),
        WaveGrid::plane([40, 31], [1.0, 1.3]),
        WaveGrid::volume([20, 18, 23], [1.0, 0.8, 1.1]),
    ]) {
        let problem = problem(grid, FREE_RIGID, order, velocity(&grid), [&[]], &[]);
        let medium = Medium::<f64>::new(&problem, 0.99 * problem.max_stable_step());
        let mut now = scattered(grid.len(), 2);
        // Free surfaces are at zero.
        for (index, u) in now.iter_mut().enumerate() {
            let [i, _, k] = grid.node(index);
            if i == 0 || i == grid.nodes[0] - 1 || (k == 0 && grid.dimensions() == 3) {
                *u = 0.0;
            }
        }
        let state = WaveState::start(&medium, now.clone(), now);
        let mut host = HostWave::new(medium, &state, WaveCpuStrategy::resolve());
        let start = host.measures(StoredWave::State).energy;
        assert!(start > 0.0);
        host.advance(2000);
        let end = host.measures(StoredWave::State).energy;
        // 2000 steps, each with an error of a few ε.
        assert!((end / start - 1.0).abs() < 2000.0 * 8.0 * f64::EPSILON, "{order:?}: {start} {end}");
    }
}

#[test]
fn energy_of_a_standing_wave_is_that_of_the_equation() {
    // u = sin(k x) at its largest: E = ½ ∫ k² cos² dV = k² V/4, with V = 40 × 8.
    let points = 20.0;
    let (medium, wave) = standing_wave(SpaceOrder::Eighth, points, 0.01);
    let state = WaveState::start(&medium, wave.clone(), wave);
    let host = HostWave::new(medium, &state, WaveCpuStrategy::resolve());
    let k = 2.0 * PI / points;
    let expected = k * k * 40.0 * 8.0 / 4.0;
    let found = host.measures(StoredWave::State);
    // The error of the eigenvalue at 20 points is 3e-8.
    assert!((found.energy / expected - 1.0).abs() < 1e-7, "{} {expected}", found.energy);
    assert!((found.largest - 1.0).abs() < 1e-12);
}

/// Ahead of a wave the field decreases to zero without subnormal numbers. After k steps of order 8
/// the scheme has reached 4k nodes, and the wave less than one per step.
#[test]
fn values_ahead_of_a_wave_are_normal_or_zero() {
    let (grid, steps) = (WaveGrid::plane([400, 20], [1.0; 2]), 80);
    let velocity = Velocity::Uniform(1.0);
    let source = WaveSource {
        position: [5.0, 9.0, 0.0],
        wavelet: Wavelet::Ricker { frequency: 0.1, delay: 12.0, amplitude: 1.0 },
    };
    let (sources, precision) = (vec![source], Precision::Single);
    let absorbing = Sides::uniform(SideCondition::Absorbing(AbsorbingLayer::new(4)));
    for sides in [FREE_RIGID, absorbing] {
        let order = SpaceOrder::Eighth;
        let problem =
            WaveProblem::new(grid, sides, order, velocity.clone(), sources.clone(), vec![], precision);
        let problem = problem.unwrap();
        let medium = Medium::<f32>::new(&problem, 0.9 * problem.max_stable_step());
        let mut state = WaveState::at_rest(&medium);
        reference::advance(&medium, &mut state, steps);
        let largest = state.now.iter().map(|value| f64::from(value.abs())).fold(0.0, max_or_nan);
        assert!(largest > 1e-3, "the largest value is {largest}");
        assert!(state.now.iter().filter(|value| **value == 0.0).count() > 1000, "nodes ahead are zero");
        let memory = state.layers.iter().flat_map(|layer| layer.psi.iter().chain(&layer.zeta));
        for &value in state.now.iter().chain(memory) {
            assert!(!value.is_subnormal(), "{value:e}");
        }
    }
}
