//! Tests of absorbing layers: reflection, and stability over long times.

use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::{HostWave, Medium, SpaceOrder, StoredWave, Velocity, WaveSource, WaveState};
use orrery_model::analysis::max_or_nan;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid, Wavelet};

use crate::wave_reference::{problem, trace_of};

const STEPS: u64 = 700;

/// Returns u along a square 24 nodes inside of a grid of 101² nodes, at all steps. The grid is in
/// the middle of one of `n`² nodes, which has layers of `thickness` nodes. The source is 30 nodes
/// from the edge of the smaller grid, with 8 points per wavelength.
fn square_traces(n: usize, thickness: usize) -> Vec<f64> {
    let grid = WaveGrid::plane([n, n], [1.0; 2]);
    let sides = Sides::uniform(SideCondition::Absorbing(AbsorbingLayer::new(thickness)));
    let offset = ((n - 101) / 2) as f64;
    let position = [offset + 50.0, offset + 30.0, 0.0];
    let source = WaveSource { position, wavelet: Wavelet::ricker(1.0 / 8.0) };
    let ends = [24.0, 76.0];
    let receivers: Vec<[f64; 3]> = (24..=76)
        .flat_map(|k| ends.into_iter().flat_map(move |end| [[f64::from(k), end], [end, f64::from(k)]]))
        .map(|[x, y]| [offset + x, offset + y, 0.0])
        .collect();
    let problem = problem(grid, sides, SpaceOrder::Eighth, Velocity::Uniform(1.0), [&[source]], &receivers);
    trace_of(&problem, 0.4, STEPS)
}

#[test]
fn layers_reflect_less_than_the_stated_amplitude() {
    // Waves travel 280 nodes, so those that return from the edge of a larger grid come too late.
    let open = square_traces(501, 10);
    let peak = open.iter().map(|u| u.abs()).fold(0.0, max_or_nan);
    for (thickness, stated) in [(10, 2e-5), (20, 1e-5)] {
        let traces = square_traces(101, thickness);
        let reflected = open.iter().zip(&traces).map(|(a, b)| (a - b).abs()).fold(0.0, max_or_nan);
        assert!(reflected < stated * peak, "{thickness} nodes reflect {:.2e}", reflected / peak);
        assert!(reflected > 0.1 * stated * peak, "{thickness} nodes reflect {:.2e}", reflected / peak);
    }
}

/// Runs a source at the stability limit, and requires that the energy falls from each of the given
/// steps to the next one.
fn require_decay(grid: WaveGrid, sides: Sides, times: &[u64]) {
    let position = std::array::from_fn(|axis| (0.4 * grid.nodes[axis] as f64).floor());
    let source = WaveSource { position, wavelet: Wavelet::ricker(1.0 / 6.0) };
    let problem = problem(grid, sides, SpaceOrder::Eighth, Velocity::Uniform(1.0), [&[source]], &[]);
    let medium = Medium::<f64>::new(&problem, problem.max_stable_step());
    let state = WaveState::at_rest(&medium);
    let mut host = HostWave::new(medium, &state, WaveCpuStrategy::resolve());
    let mut largest = f64::INFINITY;
    for &time in times {
        host.advance(time - host.step());
        let now = host.measures(StoredWave::State).largest;
        assert!(now < largest, "{now} after {time} steps, {largest} before");
        largest = now;
    }
    assert!(largest < 1e-5, "{largest}");
}

#[test]
fn waves_decay_for_a_long_time() {
    let require = |thickness, shift, nodes, times: &[u64]| {
        let layer = AbsorbingLayer { shift, ..AbsorbingLayer::new(thickness) };
        let sides = Sides::uniform(SideCondition::Absorbing(layer));
        require_decay(WaveGrid::plane(nodes, [1.0; 2]), sides, times);
    };
    require(10, 0.0, [44, 46], &[100, 1000, 5000, 20_000]);
    require(10, 0.5, [44, 46], &[100, 1000, 5000]);
    require(20, 0.0, [64, 70], &[100, 1000, 5000]);
}

#[test]
fn waves_decay_below_a_free_surface() {
    let layer = SideCondition::Absorbing(AbsorbingLayer::new(10));
    let sides = Sides { z_min: SideCondition::Free, ..Sides::uniform(layer) };
    require_decay(WaveGrid::volume([30, 29, 24], [1.0; 3]), sides, &[100, 1000, 3000]);
}
