//! Roofline plot (Williams, Waterman & Patterson 2009): the FLOP/s that memory bandwidth and
//! arithmetic allow at each arithmetic intensity, and the rungs of a ladder below it.
//!
//! The intensity counts the bytes that threads *request* from device memory. Caches serve part of
//! the requests, so a rung may lie above the sloping roof. Sharing a tile moves a rung to the
//! right.

use orrery_io::plot::{Axis, Plot, Series, Style};

use super::{Ladder, Roofs};
use crate::format::{format_count, format_rate};

/// A rung in the plot.
struct RungPoint<'a> {
    intensity: f64,
    gflops: f64,
    name: &'a str,
}

impl Ladder {
    /// Draws the roofline plot. Rungs without an operation count or an intensity are left out.
    pub fn roofline(&self) -> Plot {
        let points: Vec<RungPoint> = self
            .rungs
            .iter()
            .filter_map(|rung| {
                let (intensity, gflops) = (rung.intensity?, rung.flops? / 1e9);
                Some(RungPoint { intensity, gflops, name: &rung.name })
            })
            .collect();
        let (low, high) = intensity_range(&points, &self.roofs);
        let mut series = roof_lines(&self.roofs, low, high);
        series.extend(points.into_iter().map(|point| Series {
            name: point.name.to_owned(),
            points: vec![(point.intensity, point.gflops)],
            style: Style::Named,
        }));
        let flops_per_item = self
            .flops_per_unit
            .map_or_else(String::new, |flops| format!(", {flops} flops per {}", self.unit.item_name()));
        Plot {
            title: format!("{}, {} {}", self.title, format_count(self.n), self.size_unit),
            subtitle: format!("{}{flops_per_item}", self.device),
            x: Axis::log("arithmetic intensity, flops per byte requested from device memory"),
            y: Axis::log("GFLOP/s"),
            series,
        }
    }
}

/// Returns the range of the x axis. It contains all rungs and ridges, with a margin on both sides.
fn intensity_range(points: &[RungPoint], roofs: &Roofs) -> (f64, f64) {
    let ridge = |flops: Option<f64>, bytes: Option<f64>| Some(flops? / bytes?);
    let ridges =
        [ridge(roofs.flops, roofs.bandwidth), ridge(roofs.theoretical_flops, roofs.theoretical_bandwidth)];
    let all = points.iter().map(|point| point.intensity).chain(ridges.into_iter().flatten());
    let (low, high) = all.fold((f64::INFINITY, 0.0), |(low, high), x| (x.min(low), x.max(high)));
    if low > high { (0.1, 100.0) } else { (low / 8.0, high * 30.0) }
}

fn roof_lines(roofs: &Roofs, low: f64, high: f64) -> Vec<Series> {
    let roof_line = |name: &str, bandwidth: Option<f64>, flops: Option<f64>, style| {
        let (bandwidth, flops) = (bandwidth?, flops?);
        let ridge = (flops / bandwidth).clamp(low, high);
        let point = |intensity: f64| (intensity, (bandwidth * intensity).min(flops) / 1e9);
        let name = format!("{name}: {}, {}", format_rate(bandwidth, "B/s"), format_rate(flops, "FLOP/s"));
        Some(Series { name, points: vec![point(low), point(ridge), point(high)], style })
    };
    let measured = roof_line("measured", roofs.bandwidth, roofs.flops, Style::Line);
    let theoretical =
        roof_line("theoretical", roofs.theoretical_bandwidth, roofs.theoretical_flops, Style::Dashed);
    measured.into_iter().chain(theoretical).collect()
}
