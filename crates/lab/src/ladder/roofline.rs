//! The roofline (Williams, Waterman & Patterson 2009): what memory and arithmetic allow at each intensity, and
//! where the rungs lie under it.
//!
//! The intensity is of the bytes that threads *ask* of the device's memory. A rung above the sloping roof is
//! served by caches; sharing a tile moves a rung to the right.

use orrery_io::plot::{Axis, Plot, Series, Style};

use super::{Ladder, Roofs};
use crate::show::{count, rate_of};

impl Ladder {
    /// The plot; rungs without a count of operations or bytes are not on it.
    pub fn roofline(&self) -> Plot {
        let places: Vec<(f64, f64, &str)> = self
            .rungs
            .iter()
            .filter_map(|rung| Some((rung.intensity?, rung.flops? / 1e9, rung.name.as_str())))
            .collect();
        let (low, high) = span(&places, &self.roofs);
        let mut series = roofs(&self.roofs, low, high);
        series.extend(places.into_iter().map(|(x, y, name)| Series {
            name: name.to_owned(),
            points: vec![(x, y)],
            style: Style::Named,
        }));
        let convention =
            self.flops_per_unit.map_or_else(String::new, |flops| format!(", {flops} flops a pair"));
        Plot {
            title: format!("{}, {} {}", self.title, count(self.n), self.counted),
            subtitle: format!("{}{convention}", self.device),
            x: Axis::log("flops a byte asked of the device's memory"),
            y: Axis::log("GFLOP/s"),
            series,
        }
    }
}

/// The intensities shown: all rungs and the ridges, with room beside them.
fn span(places: &[(f64, f64, &str)], roofs: &Roofs) -> (f64, f64) {
    let ridge = |flops: Option<f64>, bytes: Option<f64>| Some(flops? / bytes?);
    let ridges =
        [ridge(roofs.flops, roofs.bandwidth), ridge(roofs.theoretical_flops, roofs.theoretical_bandwidth)];
    let all = places.iter().map(|place| place.0).chain(ridges.into_iter().flatten());
    let (low, high) = all.fold((f64::INFINITY, 0.0), |(low, high), x| (x.min(low), x.max(high)));
    if low > high { (0.1, 100.0) } else { (low / 8.0, high * 30.0) }
}

fn roofs(roofs: &Roofs, low: f64, high: f64) -> Vec<Series> {
    let roof = |name: &str, bandwidth: Option<f64>, flops: Option<f64>, style| {
        let (bandwidth, flops) = (bandwidth?, flops?);
        let ridge = (flops / bandwidth).clamp(low, high);
        let at = |x: f64| (x, (bandwidth * x).min(flops) / 1e9);
        let name = format!("{name}: {}, {}", rate_of(bandwidth, "B/s"), rate_of(flops, "FLOP/s"));
        Some(Series { name, points: vec![at(low), at(ridge), at(high)], style })
    };
    let measured = roof("measured", roofs.bandwidth, roofs.flops, Style::Line);
    let theory = roof("theoretical", roofs.theoretical_bandwidth, roofs.theoretical_flops, Style::Dashed);
    measured.into_iter().chain(theory).collect()
}
