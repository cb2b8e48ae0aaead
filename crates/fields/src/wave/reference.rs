//! Reference implementation: plain serial loops, one node at a time.
//!
//! It defines the results. The module [`super`] has the equations and the order of operations.

use orrery_model::wave::Side;

use super::{LayerCoefficients, Medium, WaveState};
use crate::Scalar;

/// Computes one step.
pub fn step<R: Scalar>(medium: &Medium<R>, state: &mut WaveState<R>) {
    advance_nodes(medium, state);
    for layer in 0..medium.layers.len() {
        absorb(medium, state, layer);
    }
    inject(medium, state);
    std::mem::swap(&mut state.now, &mut state.previous);
    state.step += 1;
    let WaveState { now, samples, .. } = state;
    let receivers = &medium.receivers;
    samples.extend((0..receivers.len()).map(|receiver| receivers.value(receiver, |node| now[node])));
}

/// Computes `steps` steps.
pub fn advance<R: Scalar>(medium: &Medium<R>, state: &mut WaveState<R>, steps: u64) {
    for _ in 0..steps {
        step(medium, state);
    }
}

/// Replaces u one step earlier by u one step later, without absorption and sources.
fn advance_nodes<R: Scalar>(medium: &Medium<R>, state: &mut WaveState<R>) {
    let two = R::from_f64(2.0);
    for index in 0..medium.grid.len() {
        let node = medium.grid.node(index).map(|k| k as isize);
        let u = state.now[index];
        let mut sum = medium.stencil.centre * u;
        for axis in (0..medium.grid.dimensions()).rev() {
            let weights = &medium.stencil.neighbours[axis];
            sum = add_pairs(medium, weights, &state.now, node, axis, sum);
        }
        let extrapolated = two.fused_mul_add(u, -state.previous[index]);
        let next = medium.squared_courant.at(index).fused_mul_add(sum, extrapolated);
        state.previous[index] = next.zero_if_tiny();
    }
}

/// Returns `sum` + Σ w_r (u_−r + u_r) along an axis.
fn add_pairs<R: Scalar>(
    medium: &Medium<R>,
    weights: &[R],
    u: &[R],
    node: [isize; 3],
    axis: usize,
    mut sum: R,
) -> R {
    for r in 1..=medium.stencil.radius {
        let [before, after] = neighbours(medium, u, node, axis, r as isize);
        sum = weights[r - 1].fused_mul_add(before + after, sum);
    }
    sum
}

/// Returns the values `distance` nodes before and after a node.
fn neighbours<R: Scalar>(
    medium: &Medium<R>,
    u: &[R],
    node: [isize; 3],
    axis: usize,
    distance: isize,
) -> [R; 2] {
    [-distance, distance].map(|offset| {
        let mut node = node;
        node[axis] += offset;
        value(medium, u, node)
    })
}

/// Returns u at a node that may be beyond one side. There it is the image of a node inside, or zero
/// if the side absorbs.
fn value<R: Scalar>(medium: &Medium<R>, u: &[R], mut node: [isize; 3]) -> R {
    let mut sign = None;
    for axis in 0..3 {
        let last = medium.grid.nodes[axis] as isize - 1;
        let (side, image) = match node[axis] {
            k if k < 0 => (2 * axis, -k),
            k if k > last => (2 * axis + 1, 2 * last - k),
            _ => continue,
        };
        match medium.sides.on(Side::ALL[side]).image_sign() {
            None => return R::default(),
            image_sign => sign = image_sign,
        }
        node[axis] = image;
    }
    let u = u[medium.grid.index(node.map(|k| k as usize))];
    sign.map_or(u, |sign| R::from_f64(sign) * u)
}

/// Updates ψ and ζ of a layer, and adds v (Dψ + ζ) to the new values.
///
/// `state.previous` contains them, and `state.now` is u at the time of the step.
fn absorb<R: Scalar>(medium: &Medium<R>, state: &mut WaveState<R>, layer: usize) {
    let coefficients = &medium.layers[layer];
    let (axis, nodes) = (coefficients.side.axis(), medium.grid.nodes);
    let thickness = coefficients.thickness();
    let mut extents = nodes;
    extents[axis] = 1;
    // Index of node n of the line that starts at `line`.
    let memory_index = |line: [usize; 3], n: usize| {
        let (mut size, mut at) = (nodes, line);
        (size[axis], at[axis]) = (thickness, n);
        (at[2] * size[1] + at[1]) * size[0] + at[0]
    };
    for k in 0..extents[2] {
        for j in 0..extents[1] {
            for i in 0..extents[0] {
                let line = [i, j, k];
                absorb_line(medium, coefficients, state, layer, line, |n| memory_index(line, n));
            }
        }
    }
}

/// Updates one line of nodes, from the outside of a layer inwards.
fn absorb_line<R: Scalar>(
    medium: &Medium<R>,
    coefficients: &LayerCoefficients<R>,
    state: &mut WaveState<R>,
    layer: usize,
    line: [usize; 3],
    memory_index: impl Fn(usize) -> usize,
) {
    let (side, radius) = (coefficients.side, medium.stencil.radius);
    let axis = side.axis();
    let thickness = coefficients.thickness();
    let node = |n: usize| {
        let mut node = line.map(|k| k as isize);
        node[axis] = if side.is_max() { (medium.grid.nodes[axis] - 1 - n) as isize } else { n as isize };
        node
    };
    // Neighbours in the order outside, inside.
    let u_pair = |u: &[R], n: usize, r: usize| {
        let [before, after] = neighbours(medium, u, node(n), axis, r as isize);
        if side.is_max() { [after, before] } else { [before, after] }
    };
    let derivative = |pair: &dyn Fn(usize) -> [R; 2]| {
        let [outside, inside] = pair(1);
        let mut sum = coefficients.first[0] * (inside - outside);
        for r in 2..=radius {
            let [outside, inside] = pair(r);
            sum = coefficients.first[r - 1].fused_mul_add(inside - outside, sum);
        }
        sum
    };
    let WaveState { now, previous: next, layers, .. } = state;
    let memory = &mut layers[layer];
    for n in 0..thickness {
        let slope = derivative(&|r| u_pair(now, n, r));
        let psi = &mut memory.psi[memory_index(n)];
        *psi = coefficients.b[n].fused_mul_add(*psi, coefficients.a[n] * slope).zero_if_tiny();
    }
    for n in 0..thickness + radius {
        let psi = |n: isize| match usize::try_from(n) {
            Ok(n) if n < thickness => memory.psi[memory_index(n)],
            _ => R::default(),
        };
        let mut term = derivative(&|r| [psi(n as isize - r as isize), psi(n as isize + r as isize)]);
        let index = medium.grid.index(node(n).map(|k| k as usize));
        if n < thickness {
            let curvature = coefficients.second_centre * now[index];
            let curvature = add_pairs(medium, &coefficients.second, now, node(n), axis, curvature);
            let zeta = &mut memory.zeta[memory_index(n)];
            let source = coefficients.a[n] * (curvature + term);
            *zeta = coefficients.b[n].fused_mul_add(*zeta, source).zero_if_tiny();
            term = term + *zeta;
        }
        next[index] = medium.squared_courant.at(index).fused_mul_add(term, next[index]);
    }
}

/// Adds the sources at the time of the step to the new values.
fn inject<R: Scalar>(medium: &Medium<R>, state: &mut WaveState<R>) {
    let amplitudes = medium.amplitudes(state.step);
    for (entry, &node) in medium.sources.nodes.iter().enumerate() {
        let force = medium.sources.sum(entry, &amplitudes);
        let next = &mut state.previous[node];
        *next = medium.squared_courant.at(node).fused_mul_add(force, *next);
    }
}
