//! The CPU version gives the bits of the reference, for every strategy.

use orrery_fields::Scalar;
use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::{
    HostWave, Medium, SpaceOrder, StoredWave, Velocity, WaveProblem, WaveSource, WaveState, reference,
};
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid, Wavelet};
use orrery_simd::InstructionSet;
use proptest::prelude::*;

/// Returns numbers between −1 and 1 without order, the same for the same `seed`.
pub fn scattered(n: usize, seed: u64) -> Vec<f64> {
    (0..n as u64)
        .map(|k| (k ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .map(|bits| (bits ^ bits >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11)
        .map(|bits| bits as f64 / (1u64 << 52) as f64 - 1.0)
        .collect()
}

/// Returns the values, with the last quarter scaled to numbers around the limit of
/// [`Scalar::zero_if_tiny`].
pub fn with_tiny_end<R: Scalar>(values: Vec<f64>) -> Vec<R> {
    let first = values.len() / 4 * 3;
    let scale = |index: usize| if index < first { 1.0 } else { 2.0 * R::TINY.to_f64() };
    values.into_iter().enumerate().map(|(index, value)| R::from_f64(scale(index) * value)).collect()
}

/// Returns a condition of each kind.
pub fn condition(kind: usize) -> SideCondition {
    match kind % 5 {
        0 => SideCondition::Free,
        1 => SideCondition::Rigid,
        2 => SideCondition::Absorbing(AbsorbingLayer::new(1)),
        3 => SideCondition::Absorbing(AbsorbingLayer { shift: 2.0, ..AbsorbingLayer::new(5) }),
        _ => SideCondition::Absorbing(AbsorbingLayer::new(10)),
    }
}

/// Returns sides that differ, from the digits of `kinds`.
pub fn sides_of(kinds: usize) -> Sides {
    let kind = |power: u32| condition(kinds / 5_usize.pow(power));
    Sides { x_min: kind(0), x_max: kind(1), y_min: kind(2), y_max: kind(3), z_min: kind(4), z_max: kind(5) }
}

/// Returns a problem with sources and receivers near all sides, and a state without order.
pub fn problem_of<R: Scalar>(
    grid: WaveGrid,
    sides: Sides,
    order: SpaceOrder,
    is_variable: bool,
) -> (Medium<R>, WaveState<R>) {
    let n = grid.len();
    let velocity = match is_variable {
        true => Velocity::Field(scattered(n, 1).iter().map(|c| 1.5 + c).collect()),
        false => Velocity::Uniform(1.2),
    };
    let at = |fractions: [f64; 3]| {
        let extent = |axis| if grid.nodes[axis] == 1 { 0.0 } else { grid.extent(axis) };
        std::array::from_fn(|axis| fractions[axis] * extent(axis))
    };
    let points = [[0.03, 0.98, 0.5], [0.5, 0.5, 0.5], [0.51, 0.04, 0.97], [1.0, 0.3, 0.02], [0.0, 0.0, 1.0]];
    let source = |k: usize| WaveSource {
        position: at(points[k]),
        wavelet: Wavelet::Ricker { frequency: 0.3, delay: 0.5 + k as f64, amplitude: 3.0 },
    };
    let sources = (0..points.len()).chain([1]).map(source).collect();
    let receivers = points.iter().map(|point| at([point[2], point[0], point[1]])).collect();
    let problem = WaveProblem::new(grid, sides, order, velocity, sources, receivers, R::PRECISION).unwrap();
    let medium = Medium::<R>::new(&problem, 0.9 * problem.max_stable_step());
    let field = |seed| with_tiny_end(scattered(n, seed));
    let state = WaveState::start(&medium, field(2), field(3));
    (medium, state)
}

fn bits<R: Scalar>(values: &[R]) -> Vec<u64> {
    values.iter().map(|u| u.to_f64().to_bits()).collect()
}

/// Requires the same bits in all parts of two states.
pub fn assert_same_bits<R: Scalar>(found: &WaveState<R>, expected: &WaveState<R>, text: &str) {
    assert_eq!(found.step, expected.step);
    assert!(bits(&found.now) == bits(&expected.now), "{text}: u differs");
    assert!(bits(&found.previous) == bits(&expected.previous), "{text}: previous u differs");
    assert!(bits(&found.samples) == bits(&expected.samples), "{text}: samples differ");
    assert_eq!(found.layers.len(), expected.layers.len());
    for (found, expected) in found.layers.iter().zip(&expected.layers) {
        let side = expected.side.as_str();
        assert!(bits(&found.psi) == bits(&expected.psi), "{text}: psi of {side} differs");
        assert!(bits(&found.zeta) == bits(&expected.zeta), "{text}: zeta of {side} differs");
    }
}

/// Requires the bits of the reference after some steps, for all strategies.
fn compare<R: Scalar>(
    (medium, state): (Medium<R>, WaveState<R>),
    strategies: impl IntoIterator<Item = WaveCpuStrategy>,
    steps: u64,
) {
    let mut expected = state.clone();
    reference::advance(&medium, &mut expected, steps);
    assert!(expected.now.iter().all(|u| u.to_f64().abs() < 1e3), "the reference is unstable");
    for strategy in strategies {
        let mut host = HostWave::new(medium.clone(), &state, strategy);
        host.advance(steps);
        let text = format!("{:?}, {strategy:?}", medium.grid.nodes);
        assert_same_bits(&host.state(), &expected, &text);
    }
}

#[test]
fn every_order_side_and_instruction_set_gives_the_bits_of_the_reference() {
    let mut kinds = 0;
    for order in SpaceOrder::ALL {
        for (grid, is_variable) in [
            (WaveGrid::plane([50, 33], [0.1, 0.13]), false),
            (WaveGrid::plane([31, 34], [0.2, 0.13]), true),
            (WaveGrid::volume([29, 30, 31], [0.1, 0.13, 0.12]), true),
            (WaveGrid::volume([33, 28, 29], [0.1, 0.13, 0.12]), false),
        ] {
            let strategies = || {
                InstructionSet::available().flat_map(|instruction_set| {
                    [1, 4].map(|planes_per_sweep| WaveCpuStrategy {
                        instruction_set,
                        planes_per_sweep,
                        cache_bytes: 1 << 14,
                    })
                })
            };
            kinds += 2477;
            compare(problem_of::<f32>(grid, sides_of(kinds), order, is_variable), strategies(), 5);
            kinds += 2477;
            compare(problem_of::<f64>(grid, sides_of(kinds), order, is_variable), strategies(), 5);
        }
    }
}

#[test]
fn threads_do_not_change_bits() {
    let grid = WaveGrid::volume([40, 37, 70], [0.1; 3]);
    let (medium, state) = problem_of::<f32>(grid, sides_of(14_444), SpaceOrder::Eighth, true);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut host = HostWave::new(medium.clone(), &state, WaveCpuStrategy::resolve());
            host.advance(12);
            (host.state(), host.measures(StoredWave::State))
        })
    };
    let (one, measures) = run(1);
    for threads in [2, 7] {
        let (state, other) = run(threads);
        assert_same_bits(&state, &one, &format!("{threads} threads"));
        assert_eq!(other, measures);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_grid_and_strategy_gives_the_bits_of_the_reference(
        nodes in (28_usize..60, 28_usize..50, 28_usize..40),
        is_volume: bool,
        kinds in 0_usize..15_625,
        is_variable: bool,
        radius in 0_usize..4,
        sweep in 0_usize..2,
        cache_bytes in 1_usize..1 << 18,
    ) {
        let nodes = [nodes.0, nodes.1, if is_volume { nodes.2 } else { 1 }];
        let grid = WaveGrid::volume(nodes, [0.1, 0.13, 0.09]);
        let strategy = WaveCpuStrategy {
            instruction_set: InstructionSet::best(),
            planes_per_sweep: [1, 4][sweep],
            cache_bytes,
        };
        let problem = problem_of::<f32>(grid, sides_of(kinds), SpaceOrder::ALL[radius], is_variable);
        compare(problem, [strategy], 3);
    }
}
