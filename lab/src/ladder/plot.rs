//! Plot of a ladder: a roofline, or rates where the operations or the bytes are not counted.
//!
//! The roofline (Williams, Waterman & Patterson 2009) shows the FLOP/s that memory bandwidth and
//! arithmetic allow at each arithmetic intensity, and the rungs of a ladder below it. The intensity
//! counts the bytes that threads *request* from device memory. Caches serve part of the requests,
//! so a rung may lie above the sloping roof. Sharing a tile moves a rung to the right.

use orrery_draw::plot::{Axis, Plot, Series, Style};
use orrery_measure::format::{format_rate, format_thousands};

use super::table::common_flops_per_item;
use super::{Ladder, Parameter, Roofs, RungResult};

/// A rung in the roofline plot.
struct RungPoint<'a> {
    intensity: f64,
    gflops: f64,
    name: &'a str,
}

impl Ladder {
    /// Draws all plots: the rungs, then each sweep.
    pub fn plots(&self) -> Vec<Plot> {
        std::iter::once(self.plot()).chain(self.sweeps.iter().map(|sweep| sweep.plot(&self.device))).collect()
    }

    /// Draws the rungs: the roofline if operations and bytes are counted, else the rates over a
    /// parameter with numeric values, else the rates from the first to the last rung.
    pub fn plot(&self) -> Plot {
        let points: Vec<RungPoint> = self
            .rungs
            .iter()
            .filter_map(|rung| {
                let (intensity, gflops) = (rung.intensity()?, rung.flops()? / 1e9);
                Some(RungPoint { intensity, gflops, name: &rung.name })
            })
            .collect();
        let (x, y, series) = if points.is_empty() {
            let numeric = self.parameter.as_ref().and_then(|parameter| {
                let numbers: Option<Vec<f64>> =
                    parameter.values.iter().map(|value| value.parse().ok()).collect();
                Some((parameter.name, numbers?))
            });
            let y = Axis::log(self.entry.counted.heading);
            match numeric {
                Some((name, values)) => (Axis::log(name), y, self.lines_over_values(&values)),
                None => (Axis::linear("rung"), y, self.lines_over_rungs()),
            }
        } else {
            let x = Axis::log("arithmetic intensity, flops per byte requested from device memory");
            (x, Axis::log("GFLOP/s"), self.roofline(&points))
        };
        let flops_per_item = common_flops_per_item(self)
            .filter(|_| self.entry.counted.item != "flop")
            .map_or_else(String::new, |flops| format!(", {flops} flops per {}", self.entry.counted.item));
        Plot {
            title: format!("{}, {} {}", self.entry.title, format_thousands(self.n), self.entry.size_unit),
            subtitle: format!("{}{flops_per_item}", self.device),
            x,
            y,
            series,
        }
    }

    fn roofline(&self, points: &[RungPoint]) -> Vec<Series> {
        let (low, high) = intensity_range(points, &[self.roofs, self.host_roofs]);
        let mut series = roof_lines("measured", &self.roofs, low, high);
        if self.host_roofs != self.roofs {
            series.extend(roof_lines("CPU", &self.host_roofs, low, high));
        }
        series.extend(points.iter().map(|point| Series {
            name: point.name.to_owned(),
            points: vec![(point.intensity, point.gflops)],
            style: Style::Named,
        }));
        series
    }

    /// Returns one line per rung over the values of the parameter. Rungs that do not depend on it
    /// are dashed lines.
    fn lines_over_values(&self, values: &[f64]) -> Vec<Series> {
        let to_column = self.entry.counted.to_column;
        let rung_line = |rung: &RungResult| {
            let is_swept = !rung.rates.is_empty();
            let rates = if is_swept { rung.rates.clone() } else { vec![Some(rung.rate); values.len()] };
            // A gap in the line marks a value that the device does not support.
            let points = values.iter().zip(rates).map(|(x, rate)| (*x, rate.map_or(f64::NAN, to_column)));
            let style = if is_swept { Style::Line } else { Style::Dashed };
            Series { name: rung.name.clone(), points: points.collect(), style }
        };
        self.rungs.iter().map(rung_line).collect()
    }

    /// Returns one line over the rungs, or one for each value of the parameter, and the names of
    /// the rungs.
    fn lines_over_rungs(&self) -> Vec<Series> {
        let to_column = self.entry.counted.to_column;
        let line = |name: &str, rate_of: &dyn Fn(&RungResult) -> Option<f64>| {
            let rates = self.rungs.iter().map(|rung| rate_of(rung).map_or(f64::NAN, to_column));
            Series::line(name, (1..).map(f64::from).zip(rates).collect())
        };
        let rate_for_value = |rung: &RungResult, value: usize| match rung.rates.get(value) {
            Some(rate) => *rate,
            None => Some(rung.rate),
        };
        let mut series: Vec<Series> = match &self.parameter {
            None => vec![line("", &|rung| Some(rung.rate))],
            Some(Parameter { values, .. }) => values
                .iter()
                .enumerate()
                .map(|(index, value)| line(value, &|rung| rate_for_value(rung, index)))
                .collect(),
        };
        series.extend(self.rungs.iter().enumerate().map(|(index, rung)| Series {
            name: rung.name.clone(),
            points: vec![((index + 1) as f64, to_column(rung.rate))],
            style: Style::Named,
        }));
        series
    }
}

/// Returns the range of the x axis. It contains all rungs and ridges, with a margin on both sides.
fn intensity_range(points: &[RungPoint], roofs: &[Roofs]) -> (f64, f64) {
    let ridge = |flops: Option<f64>, bytes: Option<f64>| Some(flops? / bytes?);
    let ridges_of = |roofs: &Roofs| {
        [ridge(roofs.flops, roofs.bandwidth), ridge(roofs.theoretical_flops, roofs.theoretical_bandwidth)]
    };
    let ridges = roofs.iter().flat_map(ridges_of).flatten();
    let all = points.iter().map(|point| point.intensity).chain(ridges);
    let (low, high) = all.fold((f64::INFINITY, 0.0), |(low, high), x| (x.min(low), x.max(high)));
    (low / 8.0, high * 30.0)
}

/// Returns the lines of the measured roof, which has the given name, and of the theoretical one.
fn roof_lines(measured_name: &str, roofs: &Roofs, low: f64, high: f64) -> Vec<Series> {
    let roof_line = |name: &str, bandwidth: Option<f64>, flops: Option<f64>, style| {
        let (bandwidth, flops) = (bandwidth?, flops?);
        let ridge = (flops / bandwidth).clamp(low, high);
        let point = |intensity: f64| (intensity, (bandwidth * intensity).min(flops) / 1e9);
        let name = format!("{name}: {}, {}", format_rate(bandwidth, "B/s"), format_rate(flops, "FLOP/s"));
        Some(Series { name, points: vec![point(low), point(ridge), point(high)], style })
    };
    let measured = roof_line(measured_name, roofs.bandwidth, roofs.flops, Style::Line);
    let theoretical =
        roof_line("theoretical", roofs.theoretical_bandwidth, roofs.theoretical_flops, Style::Dashed);
    measured.into_iter().chain(theoretical).collect()
}
