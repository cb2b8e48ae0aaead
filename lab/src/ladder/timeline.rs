//! Time lines: intervals of host calls and device work on a common clock, as a text chart.

use orrery_model::analysis::max_or_nan;
use serde::Serialize;

use orrery_measure::format::{format_seconds, truncate_text};
use orrery_measure::text_table::WIDTH;

/// Width of the names of lanes.
const NAME_WIDTH: usize = 16;
/// Width of the chart: the rest of the line after two blanks, the name and a separator.
const CHART_WIDTH: usize = WIDTH - NAME_WIDTH - 5;

/// Intervals of several lanes, for example of the host and of two queues.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timeline {
    /// Title.
    pub title: String,
    /// Lanes, drawn from top to bottom.
    pub lanes: Vec<TimelineLane>,
}

/// Intervals that do not overlap, in order of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineLane {
    /// Name, for example `queue 1`.
    pub name: String,
    /// Intervals.
    pub spans: Vec<TimelineSpan>,
}

/// An interval in seconds. The origin of time is the same for all lanes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineSpan {
    /// Label, drawn inside the interval as far as it fits.
    pub label: String,
    /// Start.
    pub start: f64,
    /// End.
    pub end: f64,
}

impl Timeline {
    /// Formats the chart. A column is a fraction of the time from the first start to the last end.
    /// Every interval has at least one column.
    pub(super) fn lines(&self) -> Vec<String> {
        let spans = || self.lanes.iter().flat_map(|lane| &lane.spans);
        let first = spans().map(|span| span.start).fold(f64::INFINITY, f64::min);
        let last = spans().map(|span| span.end).fold(f64::NEG_INFINITY, max_or_nan);
        if last.is_nan() || last <= first {
            return Vec::new();
        }
        let column = |time: f64| ((time - first) / (last - first) * CHART_WIDTH as f64) as usize;
        let mut lines = vec![format!("{}, {} from left to right", self.title, format_seconds(last - first))];
        for lane in &self.lanes {
            let mut chart = vec![' '; CHART_WIDTH];
            for span in &lane.spans {
                let start = column(span.start).min(CHART_WIDTH - 1);
                let end = column(span.end).clamp(start + 1, CHART_WIDTH);
                draw_span(&mut chart[start..end], &span.label);
            }
            let name = truncate_text(&lane.name, NAME_WIDTH);
            let line = format!("  {name:<NAME_WIDTH$} |{}", chart.into_iter().collect::<String>());
            lines.push(line.trim_end().to_owned());
        }
        lines
    }
}

/// Draws an interval: its label between brackets, filled with dashes. In a narrow interval the
/// brackets or the label are missing.
fn draw_span(cells: &mut [char], label: &str) {
    cells.fill('-');
    let inner = match cells.len() {
        0..=2 => {
            cells.fill('#');
            return;
        }
        len => 1..len - 1,
    };
    cells[0] = '[';
    cells[inner.end] = ']';
    for (cell, letter) in cells[inner].iter_mut().zip(label.chars()) {
        *cell = letter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str, spans: &[(&str, f64, f64)]) -> TimelineLane {
        let span =
            |&(label, start, end): &(&str, f64, f64)| TimelineSpan { label: label.to_owned(), start, end };
        TimelineLane { name: name.to_owned(), spans: spans.iter().map(span).collect() }
    }

    #[test]
    fn intervals_are_drawn_in_proportion_to_their_length() {
        let lanes = vec![
            lane("host", &[("upload", 1.0, 1.5), ("x", 1.99, 2.0)]),
            lane("queue 1", &[("kernel", 1.5, 2.0)]),
        ];
        let lines = Timeline { title: "overlap".to_owned(), lanes }.lines();
        assert_eq!(lines[0], "overlap, 1 s from left to right");
        let upload = format!("[upload{}]", "-".repeat(21));
        let gap = " ".repeat(29);
        assert_eq!(lines[1], format!("  {:<16} |{upload}{gap}#", "host"));
        assert_eq!(lines[2], format!("  {:<16} |{gap}[kernel{}]", "queue 1", "-".repeat(22)));
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn a_time_line_without_intervals_is_not_drawn() {
        assert!(Timeline { title: String::new(), lanes: vec![lane("host", &[])] }.lines().is_empty());
    }
}
