//! Warnings about parts of a case that have no effect or a wrong one: sources and receivers in
//! absorbing layers, on free surfaces and in walls, wavelets that are cut, regions without nodes,
//! waves that do not arrive, layers that reflect, and coordinates of a third axis that is not
//! there.
//!
//! The checks need no device.

mod arrival;
mod third_axis;

use orrery_fields::wave::WaveProblem;
use orrery_model::Units;
use orrery_model::wave::{AXIS_NAMES, Side, SideCondition, Sides, VelocityModel, Wavelet};

use crate::case::{Case, Plane, VelocityRegion, VelocityShape, VelocitySource, WaveCase};

/// Rounding errors of coordinates are far below this fraction of a spacing.
const TOLERANCE: f64 = 1e-6;
/// Value at the start or end of a wavelet, relative to its largest one, above which it has a jump.
const JUMP: f64 = 0.01;

/// Thickness of absorbing layers, in nodes, below which they reflect more than 1% of a wave.
const THIN_LAYER: usize = 6;

/// A part of the grid in which sources and receivers are useless.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Zone {
    /// The absorbing layer at a side.
    Layer(Side),
    /// The free surface at a side.
    Surface(Side),
    /// The wall of the region with this index.
    Wall(usize),
}

/// Returns the warnings of a case, one line each. `problem` has its wavelets.
pub(super) fn placement_warnings(case: &Case, wave: &WaveCase, problem: &WaveProblem) -> Vec<String> {
    let placement = Placement { wave, units: case.units };
    let mut warnings = Vec::new();
    let sources = problem.sources().iter().map(|source| source.position);
    warnings.extend(placement.point_warnings("source", sources));
    warnings.extend(placement.point_warnings("receiver", problem.receivers().iter().copied()));
    for source in problem.sources() {
        let at = placement.point_text(source.position);
        warnings.extend(wavelet_warning(&source.wavelet, &at, case.time.end, case.units));
    }
    for (index, region) in wave.regions.iter().enumerate() {
        warnings.extend(placement.region_warning(index, region));
    }
    warnings.extend(placement.velocity_layer_warnings());
    warnings.extend(placement.thickness_warning());
    warnings.extend(placement.slice_warning());
    warnings.extend(third_axis::warning(wave));
    warnings.extend(arrival::late_warning(problem, case.time.end, case.units));
    warnings.extend(arrival::faint_warning(problem, case.units));
    warnings
}

struct Placement<'a> {
    wave: &'a WaveCase,
    units: Units,
}

impl Placement<'_> {
    fn length(&self, length: f64) -> String {
        self.units.format_length(length)
    }

    /// Formats a position, for example "(100 m, 20 m)".
    fn point_text(&self, point: [f64; 3]) -> String {
        let coordinates = point[..self.wave.grid.dimensions()].iter().map(|x| self.length(*x));
        format!("({})", coordinates.collect::<Vec<_>>().join(", "))
    }

    /// Returns the zone of a point.
    fn zone(&self, point: [f64; 3]) -> Option<Zone> {
        let grid = &self.wave.grid;
        for &side in Sides::used(grid) {
            let axis = side.axis();
            let distance = if side.is_max() { grid.extent(axis) - point[axis] } else { point[axis] };
            let nodes = distance / grid.spacing[axis];
            match self.wave.sides.on(side) {
                SideCondition::Absorbing(layer) if nodes < layer.thickness as f64 - TOLERANCE => {
                    return Some(Zone::Layer(side));
                }
                SideCondition::Free if nodes < TOLERANCE => return Some(Zone::Surface(side)),
                _ => {}
            }
        }
        let dimensions = grid.dimensions();
        let is_inside = |region: &VelocityRegion| region.shape.contains(point, dimensions);
        let last = self.wave.regions.iter().rposition(is_inside)?;
        self.wave.regions[last].velocity.is_none().then_some(Zone::Wall(last))
    }

    /// Returns a warning for each zone with points. `kind` is "source" or "receiver".
    fn point_warnings(&self, kind: &str, points: impl Iterator<Item = [f64; 3]>) -> Vec<String> {
        let mut total = 0;
        let mut found: Vec<(Zone, usize, [f64; 3])> = Vec::new();
        for point in points {
            total += 1;
            let Some(zone) = self.zone(point) else { continue };
            match found.iter_mut().find(|(other, ..)| *other == zone) {
                Some((_, count, _)) => *count += 1,
                None => found.push((zone, 1, point)),
            }
        }
        let warning = |(zone, count, first): (Zone, usize, [f64; 3])| {
            let at = self.point_text(first);
            let (place, effect) = self.zone_text(zone, kind);
            match (total, count) {
                (1, _) => format!("the {kind} at {at} is {place}: {effect}"),
                (_, 1) => format!("1 of {total} {kind}s is {place}, at {at}: {effect}"),
                _ => format!("{count} of {total} {kind}s are {place}, the first at {at}: {effect}"),
            }
        };
        found.into_iter().map(warning).collect()
    }

    /// Returns the place of a zone, and its effect with the remedy.
    fn zone_text(&self, zone: Zone, kind: &str) -> (String, String) {
        let grid = &self.wave.grid;
        let is_source = kind == "source";
        match zone {
            Zone::Layer(side) => {
                let axis = side.axis();
                let nodes = self.wave.sides.on(side).layer().map_or(0, |layer| layer.thickness);
                let thickness = nodes as f64 * grid.spacing[axis];
                let inside = match side.is_max() {
                    true => format!("<= {}", self.length(grid.extent(axis) - thickness)),
                    false => format!(">= {}", self.length(thickness)),
                };
                let place = format!(
                    "in the absorbing layer at {}, which is {} thick ({nodes} nodes)",
                    side.as_str(),
                    self.length(thickness)
                );
                let effect = if is_source { "its waves are damped" } else { "the traces are damped" };
                let name = AXIS_NAMES[axis];
                (
                    place,
                    format!("{effect}; expected {name} {inside}, a larger grid or fewer wave.layer_nodes"),
                )
            }
            Zone::Surface(side) => {
                let effect = if is_source { "it emits nothing" } else { "the traces are zero" };
                let spacing = self.length(grid.spacing[side.axis()]);
                (
                    format!("on the free surface {}, where u is 0", side.as_str()),
                    format!("{effect}; expected a depth of at least one spacing, {spacing}"),
                )
            }
            Zone::Wall(index) => {
                let effect = if is_source { "its waves stay there" } else { "no wave arrives" };
                let place = format!("in the wall of wave.region[{}]", index + 1);
                (place, format!("{effect}; expected a position outside of it"))
            }
        }
    }

    /// Returns a warning if a region has no nodes, or is thinner than a cell.
    fn region_warning(&self, index: usize, region: &VelocityRegion) -> Option<String> {
        let grid = &self.wave.grid;
        let name = format!("wave.region[{}]", index + 1);
        for axis in 0..grid.dimensions() {
            let (low, size) = match region.shape {
                VelocityShape::Box { corner, size } => (corner[axis], size[axis]),
                VelocityShape::Ball { centre, radius } => (centre[axis] - radius, 2.0 * radius),
            };
            let (extent, h, axis_name) = (grid.extent(axis), grid.spacing[axis], AXIS_NAMES[axis]);
            let (from, to) = (self.length(low), self.length(low + size));
            if low > extent || low + size < 0.0 {
                let extent = self.length(extent);
                return Some(format!(
                    "{name} is outside of the grid and has no effect: it has {axis_name} from {from} to {to}, expected \
                     within 0 to {extent}"
                ));
            }
            if size < (1.0 - TOLERANCE) * h {
                let (size, h) = (self.length(size), self.length(h));
                let effect = match self.covers_a_node(region) {
                    true => "and covers one node there, which has the effect of a full cell",
                    false => "and is between two nodes, so it has no effect",
                };
                return Some(format!(
                    "{name} is thinner than a cell, {size} along {axis_name} with a spacing of {h}, {effect}; expected \
                     at least one spacing"
                ));
            }
        }
        (!self.covers_a_node(region)).then(|| format!("{name} covers no node of the grid and has no effect"))
    }

    /// Returns true if a node of the grid is in the region.
    fn covers_a_node(&self, region: &VelocityRegion) -> bool {
        let grid = &self.wave.grid;
        let nearest_node = |axis: usize, x: f64| {
            let (h, last) = (grid.spacing[axis], grid.nodes[axis].saturating_sub(1) as f64);
            (x / h).clamp(0.0, last)
        };
        let node = match region.shape {
            // The first node after the lower corner.
            VelocityShape::Box { corner, .. } => {
                [0, 1, 2].map(|axis| (nearest_node(axis, corner[axis]) - TOLERANCE).ceil())
            }
            VelocityShape::Ball { centre, .. } => {
                [0, 1, 2].map(|axis| nearest_node(axis, centre[axis]).round())
            }
        };
        let point = [0, 1, 2].map(|axis| node[axis] * grid.spacing[axis]);
        region.shape.contains(point, grid.dimensions())
    }

    /// Returns warnings about layers of velocity between two nodes or below the grid.
    fn velocity_layer_warnings(&self) -> Vec<String> {
        let VelocitySource::Model(VelocityModel::Layered { layers }) = &self.wave.velocity else {
            return Vec::new();
        };
        let axis = self.wave.grid.depth_axis();
        let (extent, h) = (self.wave.grid.extent(axis), self.wave.grid.spacing[axis]);
        let first_node = |depth: f64| (depth / h - TOLERANCE).ceil();
        let warning = |(index, layer): (usize, &orrery_model::wave::VelocityLayer)| {
            let end = layers.get(index + 1).map_or(f64::INFINITY, |next| next.top);
            let (name, top) = (format!("wave.layer[{}]", index + 1), self.length(layer.top));
            if layer.top > extent * (1.0 + TOLERANCE) {
                let extent = self.length(extent);
                return Some(format!(
                    "{name} starts at a depth of {top}, below the grid, and has no effect; expected at most {extent}"
                ));
            }
            (first_node(end) <= first_node(layer.top)).then(|| {
                let (end, h) = (self.length(end), self.length(h));
                format!(
                    "{name} from {top} to {end} is between two nodes and has no effect; expected at least one spacing, {h}"
                )
            })
        };
        layers.iter().enumerate().filter_map(warning).collect()
    }

    /// Returns a warning if absorbing layers are so thin that they reflect.
    fn thickness_warning(&self) -> Option<String> {
        let layers = Sides::used(&self.wave.grid).iter().filter_map(|&side| self.wave.sides.on(side).layer());
        let thinnest = layers.map(|layer| layer.thickness).min().filter(|nodes| *nodes < THIN_LAYER)?;
        Some(format!(
            "wave.layer_nodes = {thinnest} is so thin that the layers reflect: traces are wrong by about 10% with 3 nodes \
             and 0.7% with 6; expected at least 10"
        ))
    }

    /// Returns a warning if the plane of images is outside of the grid.
    fn slice_warning(&self) -> Option<String> {
        let grid = &self.wave.grid;
        let position = self.wave.slice.position.filter(|_| grid.dimensions() == 3)?;
        let normal = match self.wave.slice.plane {
            Plane::Xy => 2,
            Plane::Xz => 1,
            Plane::Yz => 0,
        };
        let extent = grid.extent(normal);
        if (-TOLERANCE * extent..=extent * (1.0 + TOLERANCE)).contains(&position) {
            return None;
        }
        let [position, extent] = [position, extent].map(|x| self.length(x));
        Some(format!(
            "image.position = {position} is outside of the grid, so images show its last plane; expected 0 to {extent}"
        ))
    }
}

/// Returns a warning about a wavelet that a run until `end` does not contain, or that is cut.
fn wavelet_warning(wavelet: &Wavelet, at: &str, end: f64, units: Units) -> Option<String> {
    let time = |t: f64| units.format_time_in_message(t);
    let ends = format!("the run ends at {}", time(end));
    match wavelet {
        Wavelet::Ricker { amplitude: 0.0, .. } | Wavelet::Sine { amplitude: 0.0, .. } => {
            Some(format!("the source at {at} emits nothing: its amplitude is 0"))
        }
        Wavelet::Ricker { frequency, delay, .. } if *delay > end => {
            let usual = 1.5 / frequency;
            let shorter = match usual < 0.99 * delay && usual < end {
                true => format!("a delay of about {}, or ", time(usual)),
                false => String::new(),
            };
            Some(format!(
                "the wavelet of the source at {at} has its maximum at {}, and {ends}; expected {shorter}a later end",
                time(*delay)
            ))
        }
        Wavelet::Sine { delay, .. } if *delay >= end => Some(format!(
            "the wavelet of the source at {at} starts at {}, and {ends}; expected an earlier start or a later end",
            time(*delay)
        )),
        Wavelet::Ricker { frequency, amplitude, .. } => {
            let jump = (wavelet.at(0.0) / amplitude).abs();
            (jump > JUMP).then(|| {
                format!(
                    "the wavelet of the source at {at} starts with a jump to {:.0}% of its amplitude, which has all \
                     frequencies; expected a delay of at least {}",
                    100.0 * jump,
                    time(1.5 / frequency)
                )
            })
        }
        Wavelet::Sine { .. } => None,
        Wavelet::Sampled { interval, values } => {
            let late = largest_sample(values).map(|(index, _)| index as f64 * interval);
            match late.filter(|late| *late > end) {
                Some(late) => Some(format!(
                    "the wavelet of the source at {at} has its largest sample at {}, and {ends}; expected an interval \
                     shorter than {}, or a later end",
                    time(late),
                    time(*interval)
                )),
                None => sampled_warning(values, at),
            }
        }
    }
}

/// Returns the index of the first largest sample, and its magnitude. `None` if all are 0.
fn largest_sample(values: &[f64]) -> Option<(usize, f64)> {
    let later = |found: Option<(usize, f64)>, (index, value): (usize, &f64)| {
        let is_larger = value.abs() > found.map_or(0.0, |(_, largest)| largest);
        if is_larger { Some((index, value.abs())) } else { found }
    };
    values.iter().enumerate().fold(None, later)
}

fn sampled_warning(values: &[f64], at: &str) -> Option<String> {
    let Some((_, largest)) = largest_sample(values) else {
        return Some(format!("the source at {at} emits nothing: all samples of its wavelet are 0"));
    };
    let edge = |value: Option<&f64>| value.map_or(0.0, |value| value.abs() / largest);
    let (name, jump) = match (edge(values.first()), edge(values.last())) {
        (first, last) if first >= last => ("starts", first),
        (_, last) => ("ends", last),
    };
    (jump > JUMP).then(|| {
        format!(
            "the wavelet of the source at {at} {name} with a jump of {:.0}% of its largest sample, which has all \
             frequencies; expected samples that start and end at 0",
            100.0 * jump
        )
    })
}

#[cfg(test)]
mod tests;
