//! Marks with names next to them, placed so that no name covers another name, a mark or a curve.
//!
//! Close marks have their names in one list next to them. The list has the order of the marks from
//! top to bottom, so that the thin lines from marks to names do not cross. A list gets the nearest
//! free position. The search is greedy and starts with the largest list, so the same plot always
//! has the same layout.

use super::layout::{Anchor, INK, Item, SMALL, SOFT_INK};
use crate::picture::text_width;

/// Radius of a mark.
const RADIUS: f64 = 3.2;
/// Height of a name in a list.
const ROW: f64 = 1.5 * SMALL;
/// Marks closer than this, horizontally and vertically, share a list.
const CLOSE: [f64; 2] = [24.0, ROW];
/// Horizontal distances of a list from its marks that are tried.
const DISTANCES: [f64; 7] = [8.0, 20.0, 34.0, 50.0, 70.0, 100.0, 140.0];
/// Vertical shifts that are tried, in half rows up and down.
const HALF_ROWS: i32 = 60;
/// A single name closer than this to its mark needs no line.
const NEAR: f64 = 14.0;
/// Spacing of the points that represent a curve.
const CURVE_SPACING: f64 = 5.0;

/// Left, top, right, bottom.
type Area = [f64; 4];

/// A mark and its name.
type Named<'a> = ([f64; 2], &'a str);

/// Returns the marks and names for positions inside `frame`, in which `curves` are drawn, too.
pub(super) fn place_names(named: &[Named], curves: &[Item], frame: Area) -> Vec<Item> {
    let mut occupied: Vec<Area> = named.iter().map(|(mark, _)| square_around(*mark, RADIUS + 1.0)).collect();
    occupied.extend(curves.iter().flat_map(points_along).map(|point| square_around(point, 2.0)));
    let mut items = Vec::new();
    for list in group_close_marks(named) {
        let label_position = label_position(&list, &occupied, &frame);
        occupied.push(label_position.area);
        items.extend(
            list.iter()
                .enumerate()
                .flat_map(|(row, named)| label_position.name_items(row, list.len(), named)),
        );
    }
    if !named.is_empty() {
        let points = named.iter().map(|(mark, _)| *mark).collect();
        items.push(Item::Marks { points, colour: INK, radius: RADIUS });
    }
    items
}

/// Returns lists of close marks, each from top to bottom, the largest first.
fn group_close_marks<'a>(named: &[Named<'a>]) -> Vec<Vec<Named<'a>>> {
    let is_close = |a: &Named, b: &Named| (0..2).all(|c| (a.0[c] - b.0[c]).abs() < CLOSE[c]);
    let mut lists: Vec<Vec<Named>> = Vec::new();
    for item in named {
        let (near, mut others): (Vec<_>, Vec<_>) =
            lists.into_iter().partition(|list| list.iter().any(|other| is_close(item, other)));
        others.push(near.into_iter().flatten().chain([*item]).collect());
        lists = others;
    }
    lists.iter_mut().for_each(|list| list.sort_by(|a, b| a.0[1].total_cmp(&b.0[1])));
    lists.sort_by_key(|list| std::cmp::Reverse(list.len()));
    lists
}

/// Position of a list, and the side of its marks on which it is.
struct LabelPosition {
    area: Area,
    to_the_right: bool,
}

/// Returns the nearest free position, or the nearest position if none is free.
fn label_position(list: &[Named], occupied: &[Area], frame: &Area) -> LabelPosition {
    let width = list.iter().map(|(_, name)| text_width(name, SMALL)).fold(0.0, f64::max);
    let height = ROW * list.len() as f64;
    let bound =
        |c: usize, pick: fn(f64, f64) -> f64| list.iter().map(|item| item.0[c]).reduce(pick).unwrap_or(0.0);
    let (left, right) = (bound(0, f64::min), bound(0, f64::max));
    let middle = 0.5 * (bound(1, f64::min) + bound(1, f64::max) - height);
    let mut positions: Vec<(f64, LabelPosition)> = Vec::new();
    for distance in DISTANCES {
        for half_row in -HALF_ROWS..=HALF_ROWS {
            for to_the_right in [true, false] {
                let down = 0.5 * ROW * f64::from(half_row);
                let x = if to_the_right { right + distance } else { left - distance - width };
                let area = [x, middle + down, x + width, middle + down + height];
                positions.push((distance + down.abs(), LabelPosition { area, to_the_right }));
            }
        }
    }
    positions.sort_by(|a, b| a.0.total_cmp(&b.0));
    let is_free =
        |area: &Area| is_inside(area, frame) && !occupied.iter().any(|other| areas_overlap(area, other));
    let index = positions.iter().position(|(_, label_position)| is_free(&label_position.area)).unwrap_or(0);
    positions.swap_remove(index).1
}

impl LabelPosition {
    /// Returns a name of the list, and the line to it from its mark.
    fn name_items(&self, row: usize, rows: usize, (mark, name): &Named) -> Vec<Item> {
        let [left, top, right, _] = self.area;
        let (x, anchor, outwards) =
            if self.to_the_right { (left, Anchor::Start, -2.5) } else { (right, Anchor::End, 2.5) };
        let base = top + ROW * row as f64 + 0.5 * (ROW + SMALL);
        let end = [x + outwards, base - 0.5 * SMALL];
        let text = Item::Text {
            text: (*name).to_owned(),
            at: [x, base],
            size: SMALL,
            colour: INK,
            anchor,
            upwards: false,
            bold: false,
        };
        let distance = (end[0] - mark[0]).hypot(end[1] - mark[1]);
        let line = Item::Line { points: vec![*mark, end], colour: SOFT_INK, width: 0.6, dashed: false };
        let needs_line = rows > 1 || distance > NEAR;
        needs_line.then_some(line).into_iter().chain([text]).collect()
    }
}

/// Returns points along a curve, close enough to represent it.
fn points_along(curve: &Item) -> Vec<[f64; 2]> {
    let Item::Line { points, .. } = curve else { return Vec::new() };
    let between = |pair: &[[f64; 2]]| {
        let [a, b] = [pair[0], pair[1]];
        let steps = ((b[0] - a[0]).hypot(b[1] - a[1]) / CURVE_SPACING).ceil().clamp(1.0, 1000.0);
        let at = move |k: i32| {
            let t = f64::from(k) / steps;
            [a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])]
        };
        (0..=steps as i32).map(at).collect::<Vec<_>>()
    };
    points.windows(2).flat_map(between).collect()
}

fn square_around([x, y]: [f64; 2], r: f64) -> Area {
    [x - r, y - r, x + r, y + r]
}

fn areas_overlap(a: &Area, b: &Area) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

fn is_inside(a: &Area, frame: &Area) -> bool {
    a[0] >= frame[0] && a[1] >= frame[1] && a[2] <= frame[2] && a[3] <= frame[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Area = [50.0, 20.0, 680.0, 400.0];

    fn text_areas(items: &[Item]) -> Vec<(Area, String)> {
        let area = |item: &Item| match item {
            Item::Text { text, at: [x, y], size, anchor, .. } => {
                let width = text_width(text, *size);
                let left = if *anchor == Anchor::End { x - width } else { *x };
                Some(([left, y - size, left + width, *y], text.clone()))
            }
            _ => None,
        };
        items.iter().filter_map(area).collect()
    }

    /// Two vertical rows of marks with a spacing below the height of names, some separate marks,
    /// and a curve above.
    #[test]
    fn names_cover_neither_names_nor_marks_nor_curves() {
        let names: Vec<String> = (0..20).map(|k| format!("rung {k} of the ladder")).collect();
        let mark = |k: usize| match k {
            0..8 => [200.0, 160.0 + 5.0 * k as f64],
            8..16 => [450.0, 140.0 + 6.0 * k as f64],
            k => [300.0, 20.0 * k as f64],
        };
        let named: Vec<Named> = names.iter().enumerate().map(|(k, name)| (mark(k), name.as_str())).collect();
        let points = vec![[50.0, 200.0], [200.0, 120.0], [680.0, 120.0]];
        let curve = Item::Line { points, colour: INK, width: 1.0, dashed: false };
        let items = place_names(&named, std::slice::from_ref(&curve), FRAME);
        let texts = text_areas(&items);
        assert_eq!(texts.len(), 20);
        for (k, (a, name)) in texts.iter().enumerate() {
            assert!(is_inside(a, &FRAME), "{name}: {a:?}");
            assert!(texts[..k].iter().all(|(b, _)| !areas_overlap(a, b)), "{name}: {a:?}");
            assert!(
                named.iter().all(|(mark, _)| !areas_overlap(a, &square_around(*mark, RADIUS))),
                "{name}: {a:?}"
            );
            assert!(
                points_along(&curve).iter().all(|p| !areas_overlap(a, &square_around(*p, 1.0))),
                "{name}: {a:?}"
            );
        }
    }

    /// The order of the input does not matter.
    #[test]
    fn names_in_a_list_have_the_order_of_their_marks() {
        let named = [([100.0, 110.0], "low"), ([100.0, 100.0], "high"), ([101.0, 105.0], "middle")];
        let mut found = text_areas(&place_names(&named, &[], FRAME));
        found.sort_by(|a, b| a.0[1].total_cmp(&b.0[1]));
        assert_eq!(
            found.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(),
            ["high", "middle", "low"]
        );
    }
}
