//! Layout of a plot: the positions of all lines, markers and texts, with y down, in pixels of the
//! SVG.

use super::ticks::{Range, Tick, can_show};
use super::{Plot, Series, Style, names};
use crate::picture::text_width;

/// Palette of Okabe & Ito without yellow, which is too pale on white. Black is last.
const COLOURS: [[u8; 3]; 7] =
    [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233], [0, 0, 0]];
pub(crate) const INK: [u8; 3] = [40, 42, 48];
const GRID: [u8; 3] = [228, 230, 234];
const FAINT_GRID: [u8; 3] = [243, 244, 246];
pub(crate) const SOFT_INK: [u8; 3] = [110, 114, 122];

/// Height of capitals in titles, axis labels (`LABEL`) and tick labels (`SMALL`).
const TITLE: f64 = 13.0;
pub(crate) const LABEL: f64 = 10.0;
pub(crate) const SMALL: f64 = 9.0;
/// Right margin.
const RIGHT: f64 = 24.0;
/// Length of a major tick.
pub(crate) const TICK: f64 = 5.0;

/// Point of a text that its position refers to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Direction in which the values of the vertical axis increase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum VerticalAxis {
    Up,
    Down,
}

/// One element to draw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Line {
        points: Vec<[f64; 2]>,
        colour: [u8; 3],
        width: f64,
        dashed: bool,
    },
    Marks {
        points: Vec<[f64; 2]>,
        colour: [u8; 3],
        radius: f64,
    },
    /// A polygon without a border.
    Area {
        points: Vec<[f64; 2]>,
        colour: [u8; 3],
    },
    Text {
        text: String,
        at: [f64; 2],
        size: f64,
        colour: [u8; 3],
        anchor: Anchor,
        upwards: bool,
        bold: bool,
    },
}

/// Layout of a whole plot. `curves` are drawn last and clipped at the `frame` (left, top, right,
/// bottom).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlotLayout {
    pub width: f64,
    pub height: f64,
    pub frame: [f64; 4],
    pub items: Vec<Item>,
    pub curves: Vec<Item>,
}

/// Computes the layout of a plot of this size.
pub(super) fn compute_layout(plot: &Plot, width: f64, height: f64) -> PlotLayout {
    let all = || plot.series.iter().flat_map(|s| &s.points);
    let drawable = |p: &&(f64, f64)| can_show(p.0, plot.x.log) && can_show(p.1, plot.y.log);
    let x = Range::covering(all().filter(drawable).map(|p| p.0), plot.x.log);
    let y = Range::covering(all().filter(drawable).map(|p| p.1), plot.y.log);
    let (x_ticks, y_ticks) = (x.ticks((width / 105.0) as usize), y.ticks((height / 75.0) as usize));

    let mut items = Vec::new();
    let frame = add_frame(plot, [&x_ticks, &y_ticks], [x, y], VerticalAxis::Up, [width, height], &mut items);
    let to_frame = |p: &(f64, f64)| {
        let (u, v) = (x.position_of(p.0)?, y.position_of(p.1)?);
        Some([frame[0] + u * (frame[2] - frame[0]), frame[3] - v * (frame[3] - frame[1])])
    };
    let mut curves = Vec::new();
    let mut named = Vec::new();
    for (k, series) in plot.series.iter().enumerate() {
        if series.style == Style::Named {
            named.extend(
                series.points.iter().filter_map(to_frame).map(|position| (position, series.name.as_str())),
            );
            continue;
        }
        let colour = COLOURS[k % COLOURS.len()];
        for points in series.points.iter().map(to_frame).collect::<Vec<_>>().split(Option::is_none) {
            let points: Vec<[f64; 2]> = points.iter().flatten().copied().collect();
            curves.extend(match (points.len(), series.style) {
                (0, _) => None,
                (_, Style::Points) => Some(Item::Marks { points, colour, radius: 3.2 }),
                // A line with one point would not be visible.
                (1, _) => Some(Item::Marks { points, colour, radius: 2.6 }),
                (_, style) => Some(Item::Line { points, colour, width: 1.8, dashed: style == Style::Dashed }),
            });
        }
    }
    let names = names::place_names(&named, &curves, frame);
    curves.extend(names);
    PlotLayout { width, height, frame, items, curves }
}

/// Adds heading, legend and axes of a plot with this width and height. Returns the frame.
pub(super) fn add_frame(
    plot: &Plot,
    ticks: [&[Tick]; 2],
    ranges: [Range; 2],
    direction: VerticalAxis,
    [width, height]: [f64; 2],
    items: &mut Vec<Item>,
) -> [f64; 4] {
    let widest = ticks[1].iter().map(|t| text_width(&t.text, SMALL)).fold(0.0, f64::max);
    let left = 16.0 + if plot.y.label.is_empty() { 0.0 } else { LABEL + 14.0 } + widest + TICK + 8.0;
    let top = add_heading(plot, items, left, width);
    let bottom = height - 22.0 - SMALL - if plot.x.label.is_empty() { 0.0 } else { LABEL + 16.0 };
    // An image too small for its texts still has a frame with a positive size.
    let frame = [
        left.min(0.6 * width),
        top.min(0.6 * height),
        (width - RIGHT).max(0.7 * width),
        bottom.max(0.7 * height),
    ];
    add_axes(plot, ticks, ranges, direction, frame, items);
    frame
}

/// Adds title, subtitle and legend. Returns the top of the frame.
fn add_heading(plot: &Plot, items: &mut Vec<Item>, left: f64, width: f64) -> f64 {
    let mut y = 14.0;
    let mut line = |text: &str, size: f64, colour, bold| {
        if !text.is_empty() {
            y += size + 3.0;
            let (text, at) = (text.to_owned(), [left, y]);
            items.push(Item::Text { text, at, size, colour, anchor: Anchor::Start, upwards: false, bold });
            y += 7.0;
        }
    };
    line(&plot.title, TITLE, INK, true);
    line(&plot.subtitle, SMALL, SOFT_INK, false);
    let in_legend = |s: &Series| !s.name.is_empty() && s.style != Style::Named;
    let named: Vec<_> = plot.series.iter().enumerate().filter(|(_, s)| in_legend(s)).collect();
    // A single series needs no legend if there is a title.
    if named.is_empty() || (named.len() == 1 && plot.series.len() == 1 && !plot.title.is_empty()) {
        return y + 10.0;
    }
    y += SMALL + 6.0;
    let mut x = left;
    for (k, series) in named {
        let (sample, name_width) = (22.0, text_width(&series.name, SMALL));
        if x > left && x + sample + 7.0 + name_width > width - RIGHT {
            (x, y) = (left, y + SMALL + 9.0);
        }
        let (colour, middle) = (COLOURS[k % COLOURS.len()], y - 0.45 * SMALL);
        items.push(match series.style {
            Style::Points => Item::Marks { points: vec![[x + 0.5 * sample, middle]], colour, radius: 3.2 },
            style => Item::Line {
                points: vec![[x, middle], [x + sample, middle]],
                colour,
                width: 2.2,
                dashed: style == Style::Dashed,
            },
        });
        items.push(Item::Text {
            text: series.name.clone(),
            at: [x + sample + 7.0, y],
            size: SMALL,
            colour: INK,
            anchor: Anchor::Start,
            upwards: false,
            bold: false,
        });
        x += sample + 7.0 + name_width + 22.0;
    }
    y + 14.0
}

/// Adds grid lines, ticks, tick labels, axis lines and axis labels.
fn add_axes(
    plot: &Plot,
    ticks: [&[Tick]; 2],
    ranges: [Range; 2],
    direction: VerticalAxis,
    frame: [f64; 4],
    items: &mut Vec<Item>,
) {
    let [left, top, right, bottom] = frame;
    let line = |from, to, colour, width| Item::Line { points: vec![from, to], colour, width, dashed: false };
    let mut marks = Vec::new();
    for major in [false, true] {
        for (axis, ticks) in ticks.into_iter().enumerate() {
            for tick in ticks.iter().filter(|t| t.text.is_empty() != major) {
                let Some(position) = ranges[axis].position_of(tick.value) else { continue };
                let (grid, length) = if major { (GRID, TICK) } else { (FAINT_GRID, 0.6 * TICK) };
                let (from, to, out) = if axis == 0 {
                    let x = left + position * (right - left);
                    ([x, top], [x, bottom], [x, bottom + length])
                } else {
                    let y = match direction {
                        VerticalAxis::Up => bottom - position * (bottom - top),
                        VerticalAxis::Down => top + position * (bottom - top),
                    };
                    ([right, y], [left, y], [left - length, y])
                };
                items.push(line(from, to, grid, 1.0));
                marks.push(line(to, out, INK, 1.0));
                if major {
                    let (at, anchor) = if axis == 0 {
                        ([to[0], bottom + TICK + 6.0 + SMALL], Anchor::Middle)
                    } else {
                        ([left - TICK - 6.0, to[1] + 0.5 * SMALL], Anchor::End)
                    };
                    let text = tick.text.clone();
                    marks.push(Item::Text {
                        text,
                        at,
                        size: SMALL,
                        colour: INK,
                        anchor,
                        upwards: false,
                        bold: false,
                    });
                }
            }
        }
    }
    items.append(&mut marks);
    items.push(line([left, top], [left, bottom], INK, 1.2));
    items.push(line([left, bottom], [right, bottom], INK, 1.2));
    let mut label = |text: &str, at, upwards| {
        if !text.is_empty() {
            let text = text.to_owned();
            items.push(Item::Text {
                text,
                at,
                size: LABEL,
                colour: INK,
                anchor: Anchor::Middle,
                upwards,
                bold: false,
            });
        }
    };
    label(&plot.x.label, [0.5 * (left + right), bottom + TICK + 6.0 + SMALL + 16.0 + LABEL], false);
    label(&plot.y.label, [16.0 + LABEL, 0.5 * (top + bottom)], true);
}
