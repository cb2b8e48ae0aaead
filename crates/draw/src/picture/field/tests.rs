//! Pixels of field pictures: orientation, colours, marks, texts inside the picture, any input.

use std::fs::File;
use std::io::BufReader;

use orrery_model::grid::{Boundary, EdgeValues};

use super::*;
use crate::picture::write_png;

const GRID: Grid = Grid { nx: 41, ny: 21, hx: 0.025, hy: 0.025 };

fn picture(pixels: (u32, u32)) -> FieldPicture {
    let boundaries = Boundaries {
        west: Boundary::fixed(1.0),
        east: Boundary::INSULATED,
        south: Boundary::flux(1.0),
        north: Boundary::flux(-1.0),
    };
    FieldPicture {
        title: "a plate".into(),
        length_unit: "m".into(),
        quantity: "temperature".into(),
        unit: "K".into(),
        ..FieldPicture::new(GRID, boundaries, pixels)
    }
}

/// u = (x + 2 y) / 3 with x and y from 0 to 1: 0 at the south-west corner, 1/3 at the south-east,
/// 2/3 at the north-west and 1 at the north-east.
fn tilted(grid: &Grid) -> Vec<f64> {
    let (x, y) =
        (|i| (i % grid.nx) as f64 / (grid.nx - 1) as f64, |i| (i / grid.nx) as f64 / (grid.ny - 1) as f64);
    (0..grid.len()).map(|i| (x(i) + 2.0 * y(i)) / 3.0).collect()
}

const UNIT: ValueRange = ValueRange { low: 0.0, high: 1.0 };

fn layout(picture: &FieldPicture, range: ValueRange) -> FieldLayout {
    FieldLayout::new(picture, range.widened(1e-9), "t = 1 s", false)
}

fn is_near(a: [u8; 3], b: [u8; 3], tolerance: u8) -> bool {
    (0..3).all(|c| a[c].abs_diff(b[c]) <= tolerance)
}

#[test]
fn row_0_is_at_the_bottom_and_west_at_the_left() {
    let picture = picture((500, 400));
    let image = render_field(&tilted(&GRID), &picture, UNIT, "t = 1 s").unwrap();
    let [left, top, right, bottom] = layout(&picture, UNIT).plate;
    for row in top..bottom {
        for column in left..right {
            let x = (column - left) as f64 + 0.5;
            let y = (bottom - row) as f64 - 0.5;
            let value = (x / (right - left) as f64 + 2.0 * y / (bottom - top) as f64) / 3.0;
            let (got, expected) =
                (image.pixel(column as u32, row as u32), picture.colours.srgb_colour(value as f32));
            // One entry of the map.
            assert!(is_near(got, expected, 2), "({column}, {row}): {got:?} {expected:?}");
        }
    }
    let aspect = (right - left) as f64 / (bottom - top) as f64;
    assert!((aspect - 2.0).abs() < 0.02, "{aspect}");
}

#[test]
fn f32_and_f64_give_the_same_picture() {
    let values: Vec<f32> = tilted(&GRID).into_iter().map(|v| v as f32).collect();
    let doubles: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
    let picture = picture((300, 300));
    assert_eq!(ValueRange::covering(&values), ValueRange::covering(&doubles));
    let (a, b) = (render_field(&values, &picture, UNIT, ""), render_field(&doubles, &picture, UNIT, ""));
    assert_eq!(a.unwrap(), b.unwrap());
}

#[test]
fn colour_bar_ends_are_the_range() {
    // The wide plate has a horizontal bar, the tall plate a vertical one.
    for (ny, horizontal) in [(9, true), (201, false)] {
        let grid = Grid { ny, ..GRID };
        let picture = FieldPicture {
            grid,
            boundaries: Boundaries::uniform(Boundary::fixed(0.0)),
            ..picture((500, 500))
        };
        let range = ValueRange { low: -20.0, high: 30.0 };
        let image = render_field(&vec![0.0; grid.len()], &picture, range, "").unwrap();
        let bar = FieldLayout::new(&picture, range, "", false).bar.unwrap();
        assert_eq!(bar.is_horizontal, horizontal);
        let [left, top, right, bottom] = bar.area.map(|side| side as u32);
        let (low, high) = if horizontal {
            (image.pixel(left, top), image.pixel(right - 1, bottom - 1))
        } else {
            (image.pixel(left, bottom - 1), image.pixel(right - 1, top))
        };
        assert_eq!((low, high), (picture.colours.srgb_colour(0.0), picture.colours.srgb_colour(1.0)));
        let ends = (bar.ticks.first().unwrap(), bar.ticks.last().unwrap());
        assert_eq!((ends.0.text.as_str(), ends.1.text.as_str()), ("\u{2212}20", "30"));
        assert!(ends.0.position.abs() < 1e-12 && (ends.1.position - 1.0).abs() < 1e-12);
        // The value 0 is at 2/5 of the bar and has the colour of the plate.
        let zero = if horizontal {
            image.pixel(left + (0.4 * f64::from(right - left - 1)).round() as u32, top)
        } else {
            image.pixel(left, bottom - 1 - (0.4 * f64::from(bottom - top - 1)).round() as u32)
        };
        assert!(is_near(zero, picture.colours.srgb_colour(0.4), 3), "{zero:?}");
    }
}

#[test]
fn values_outside_the_range_are_clamped_and_point_the_bar() {
    let picture = FieldPicture { colours: ColourMap::viridis(), ..picture((500, 400)) };
    let beside_bar = |range: ValueRange| {
        let image = render_field(&tilted(&GRID), &picture, range, "t = 1 s").unwrap();
        let layout = layout(&picture, range);
        let [left, top, right, bottom] = layout.bar.unwrap().area.map(|side| side as u32);
        let (x, y) = ((left + right) / 2, (top + bottom) / 2);
        let corner = |x: i64, y: i64| image.pixel(x as u32, y as u32);
        let corners =
            [corner(layout.plate[0], layout.plate[3] - 1), corner(layout.plate[2] - 1, layout.plate[1])];
        let ends = if right - left > bottom - top {
            [(left - 4, y), (right + 3, y)]
        } else {
            [(x, bottom + 3), (x, top - 4)]
        };
        (corners, ends.map(|(x, y)| image.pixel(x, y)))
    };
    let ends = [picture.colours.srgb_colour(0.0), picture.colours.srgb_colour(1.0)];
    assert_eq!(beside_bar(UNIT).1, [[255; 3]; 2]);
    assert_eq!(beside_bar(ValueRange { low: 0.2, high: 0.7 }), (ends, ends));
}

#[test]
fn nan_has_another_colour_than_all_values() {
    let mut values = tilted(&GRID);
    let picture = picture((500, 400));
    let count = |image: &Image| image.rgb.chunks_exact(3).filter(|p| **p == NAN_COLOUR).count();
    assert_eq!(count(&render_field(&values, &picture, UNIT, "").unwrap()), 0);
    values[GRID.index(30, 15)] = f64::NAN;
    let image = render_field(&values, &picture, UNIT, "").unwrap();
    let [left, top, right, bottom] = FieldLayout::new(&picture, UNIT, "", true).plate;
    let x = left as f64 + 30.0 / 40.0 * (right - left) as f64;
    let y = bottom as f64 - 15.0 / 20.0 * (bottom - top) as f64;
    assert_eq!(image.pixel(x as u32, y as u32), NAN_COLOUR);
    // At least the two by two cells around the node, and the entry of the legend.
    let cell = (right - left) as f64 / 40.0;
    assert!(count(&image) as f64 > 4.0 * cell * cell, "{}", count(&image));
    for name in ColourMap::NAMES {
        for colour in ColourMap::from_name(name).unwrap().srgb_table() {
            assert!(!is_near(colour, NAN_COLOUR, 40), "{name}: {colour:?}");
        }
    }
}

/// Counts pixels beside the west edge that `is_mark` accepts.
fn count_beside_west(boundary: Boundary, is_mark: impl Fn([u8; 3]) -> bool) -> usize {
    let east = if boundary == Boundary::Periodic { Boundary::Periodic } else { Boundary::fixed(0.0) };
    let boundaries = Boundaries { west: boundary, east, ..picture((2, 2)).boundaries };
    let picture = FieldPicture { boundaries, ..picture((640, 640)) };
    let image = render_field(&tilted(&GRID), &picture, UNIT, "t = 1 s").unwrap();
    let [left, top, _, bottom] = layout(&picture, UNIT).plate.map(|side| side as u32);
    let band = |x| (top..bottom).filter(|&y| is_mark(image.pixel(x, y))).count();
    (left - 8..left - 1).map(band).sum()
}

#[test]
fn edges_have_different_marks() {
    let is_dark = |c: [u8; 3]| c.iter().all(|&v| v < 80);
    let is_grey = |c: [u8; 3]| is_near(c, [c[0]; 3], 14) && c[0] > 80 && c[0] < 230;
    let is_red = |c: [u8; 3]| c[0] > 150 && u32::from(c[0]) > u32::from(c[2]) + 80;
    let is_blue = |c: [u8; 3]| c[2] > 150 && u32::from(c[2]) > u32::from(c[0]) + 80;
    let profile = |values: Vec<f64>| Boundary::Flux(EdgeValues::Profile(values));
    let kinds = [
        Boundary::fixed(0.0),
        Boundary::INSULATED,
        profile(vec![0.0; GRID.ny]),
        Boundary::flux(2.0),
        Boundary::Periodic,
    ];
    let dominant = kinds.map(|kind| {
        let counts = [
            count_beside_west(kind.clone(), is_dark),
            count_beside_west(kind.clone(), is_grey),
            count_beside_west(kind.clone(), is_red),
            count_beside_west(kind, is_blue),
        ];
        (0..4).max_by_key(|&k| counts[k]).filter(|&k| counts[k] > 50)
    });
    assert_eq!(dominant, [Some(0), Some(1), Some(1), Some(2), Some(3)]);
    // No arrows where the profile is 0.
    let half: Vec<f64> = (0..GRID.ny).map(|k| if k > 10 { 1.0 } else { 0.0 }).collect();
    let (some, all) =
        (count_beside_west(profile(half), is_red), count_beside_west(Boundary::flux(1.0), is_red));
    assert!(some > all / 3 && some < 2 * all / 3, "{some} of {all}");
}

/// Without marks, conditions that are not periodic give the same picture.
#[test]
fn unknown_edges_have_no_marks() {
    let values = tilted(&GRID);
    let draw = |boundary: Boundary, shows_edges: bool| {
        let picture =
            FieldPicture { boundaries: Boundaries::uniform(boundary), shows_edges, ..picture((500, 400)) };
        render_field(&values, &picture, UNIT, "").unwrap().rgb
    };
    assert!(draw(Boundary::INSULATED, true) != draw(Boundary::fixed(0.0), true));
    assert!(draw(Boundary::INSULATED, false) == draw(Boundary::fixed(0.0), false));
    assert!(draw(Boundary::INSULATED, false) != draw(Boundary::INSULATED, true));
}

/// The head of an arrow is wider than its tail.
#[test]
fn arrows_point_along_the_flux() {
    let picture = picture((640, 640));
    let image = render_field(&tilted(&GRID), &picture, UNIT, "t = 1 s").unwrap();
    let [left, top, right, bottom] = layout(&picture, UNIT).plate.map(|side| side as u32);
    let is_red = |x: u32, y: u32| image.pixel(x, y)[2] < 200 && image.pixel(x, y)[0] > 200;
    let width = |y: u32| (left..right).filter(|&x| is_red(x, y)).count();
    // Flux into the plate at the south edge, out of it at the north edge: both point up.
    assert!(width(bottom + 3) > width(bottom + 6), "{} {}", width(bottom + 3), width(bottom + 6));
    assert!(width(top - 7) > width(top - 4), "{} {}", width(top - 7), width(top - 4));
}

#[test]
fn outlines_are_at_the_regions() {
    let mark = |shape, kind| RegionMark { shape, kind };
    let regions = vec![
        mark(RegionShape::Disc { centre: [0.25, 0.25], radius: 0.125 }, RegionKind::Source),
        mark(RegionShape::Rectangle { corner: [0.5, 0.125], size: [0.25, 0.25] }, RegionKind::Material),
        mark(
            RegionShape::Rectangle { corner: [0.0625, 0.03125], size: [0.875, 0.4375] },
            RegionKind::Interior,
        ),
        // Outside and invalid regions draw nothing.
        mark(RegionShape::Disc { centre: [7.0, -3.0], radius: 1.0 }, RegionKind::Source),
        mark(RegionShape::Disc { centre: [f64::NAN, 0.0], radius: f64::INFINITY }, RegionKind::Material),
    ];
    let picture = FieldPicture { regions, ..picture((900, 600)) };
    let image = render_field(&tilted(&GRID), &picture, UNIT, "t = 1 s").unwrap();
    let [left, top, right, bottom] = layout(&picture, UNIT).plate.map(|side| side as f64);
    let at = |x: f64, y: f64| {
        let column = left + x * (right - left);
        let row = bottom - y / 0.5 * (bottom - top);
        image.pixel(column as u32, row as u32)
    };
    for (x, y) in [(0.375, 0.25), (0.125, 0.25), (0.25, 0.375), (0.25, 0.125)] {
        assert!(at(x, y).iter().all(|&c| c > 200), "({x}, {y}): {:?}", at(x, y));
    }
    // Dashes: the side from (0.5, 0.125) to (0.75, 0.125) has black and free parts.
    let side: Vec<_> = (0..200).map(|k| at(0.5 + 0.25 * f64::from(k) / 200.0, 0.125)).collect();
    let black = side.iter().filter(|c| c.iter().all(|&v| v < 40)).count();
    assert!((50..150).contains(&black), "{black} of 200");
    // The line between the absorbing layers is dark grey with a light edge. The field has colours
    // with differences of the channels of 90 and more.
    for (x, y) in [(0.0625, 0.25), (0.9375, 0.25), (0.7, 0.46875)] {
        let pixel = at(x, y);
        let difference = pixel.iter().max().unwrap() - pixel.iter().min().unwrap();
        assert!(difference < 45, "({x}, {y}): {pixel:?}");
    }
    for (x, y) in [(0.25, 0.25), (0.625, 0.25), (0.9, 0.4)] {
        let expected = picture.colours.srgb_colour(((x + 2.0 * y / 0.5) / 3.0) as f32);
        assert!(is_near(at(x, y), expected, 6), "({x}, {y})");
    }
}

/// All combinations of sizes, shapes, values and ranges give a picture. Where there are texts,
/// the outermost pixels are white, so no text is cut off.
#[test]
fn any_size_and_range_gives_a_picture_with_complete_texts() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let range = |low, high| ValueRange { low, high };
    let ranges = [
        UNIT,
        range(300.0, 300.001),
        range(-4e-7, 1e-9),
        range(3.0, -3.0),
        range(nan, inf),
        range(-1e308, 1e308),
        range(5e-324, 1e-320),
        range(123_456.0, 123_457.5),
        range(0.0, 0.0),
    ];
    let spacings = [(1.0, 1.0), (1e-9, 2e-9), (1e100, 1e-100), (1e-5, 1.0), (3e7, 1e7)];
    for (width, height) in
        [(0, 0), (1, 1), (3, 200), (64, 64), (64, 300), (97, 65), (240, 180), (1000, 130), (700, 700)]
    {
        for (k, &(hx, hy)) in spacings.iter().enumerate() {
            let grid = Grid { nx: 5, ny: 4, hx, hy };
            for (n, &range) in ranges.iter().enumerate() {
                let picture = FieldPicture {
                    grid,
                    title: "a title that is much longer than most pictures are wide".into(),
                    length_unit: ["m", "", "furlong"][(k + n) % 3].into(),
                    ..picture((width, height))
                };
                let mut values: Vec<f64> =
                    (0..20).map(|i| f64::from(i) * [1.0, 1e300, -1e-300][n % 3]).collect();
                values[7] = [nan, inf, -inf, 1.0][n % 4];
                let image = render_field(&values, &picture, range, "t = 123.456789 s").unwrap();
                assert_eq!((image.width, image.height), (width.max(1), height.max(1)));
                let layout = FieldLayout::new(&picture, range.widened(1e-9), "t", true);
                let is_plate_only = layout.plate[0] == 0 || layout.plate[1] == 0;
                assert!(is_plate_only || has_white_rim(&image), "{width}x{height}, {grid:?}, {range:?}");
                assert!(!is_plate_only || width < 64 || height < 64, "{width}x{height}, {grid:?}");
            }
        }
    }
}

fn has_white_rim(image: &Image) -> bool {
    let (right, bottom) = (image.width - 1, image.height - 1);
    (0..=right).all(|x| image.pixel(x, 0) == [255; 3] && image.pixel(x, bottom) == [255; 3])
        && (0..=bottom).all(|y| image.pixel(0, y) == [255; 3] && image.pixel(right, y) == [255; 3])
}

#[test]
fn number_of_threads_does_not_change_the_picture() {
    let grid = Grid { nx: 301, ny: 211, hx: 1.0, hy: 1.0 };
    let values: Vec<f32> = (0..grid.len()).map(|i| ((i * 7919) % 1013) as f32).collect();
    let picture = FieldPicture { grid, ..picture((130, 130)) };
    let with_threads = |n: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        pool.install(|| render_field(&values, &picture, ValueRange::covering(&values), "").unwrap())
    };
    assert_eq!(with_threads(1), with_threads(3));
}

#[test]
fn picture_is_read_back_from_png() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("field.png");
    let image = render_field(&tilted(&GRID), &picture((320, 240)), UNIT, "t = 1 s").unwrap();
    write_png(&path, &image, &[]).unwrap();
    let mut reader = png::Decoder::new(BufReader::new(File::open(&path).unwrap())).read_info().unwrap();
    let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut rgb).unwrap();
    assert_eq!(rgb, image.rgb);
}

#[test]
fn fitted_size_leaves_little_space() {
    for (nx, ny) in [(100, 100), (400, 100), (100, 900), (3, 5000)] {
        let picture = FieldPicture { grid: Grid { nx, ny, ..GRID }, ..picture((2, 2)) };
        for longer in [64, 480, 961] {
            let (width, height) = picture.fitted_pixels(longer, UNIT);
            assert_eq!(width.max(height), longer / 2 * 2, "{nx}x{ny}");
            assert!(width % 2 == 0 && height % 2 == 0);
            let used = layout(&FieldPicture { pixels: (width, height), ..picture.clone() }, UNIT).used_pixels;
            let is_filled = used[0] > 0.9 * f64::from(width) && used[1] > 0.9 * f64::from(height);
            assert!(longer < 100 || is_filled, "{nx}x{ny}: {used:?} of {width}x{height}");
        }
    }
}

#[test]
fn ranges_cover_the_finite_values() {
    let covering = |values: &[f64]| ValueRange::covering(values);
    assert_eq!(covering(&[3.0, f64::NAN, -1.0, f64::INFINITY]), ValueRange { low: -1.0, high: 3.0 });
    assert_eq!(covering(&[]), ValueRange { low: -1.0, high: 1.0 });
    assert_eq!(covering(&[0.0; 4]), ValueRange { low: -1.0, high: 1.0 });
    assert_eq!(covering(&[200.0, 200.000_001]).low.round(), 180.0);
    assert_eq!(covering(&[-1.0, 3.0]).symmetric(), ValueRange { low: -3.0, high: 3.0 });
}

#[test]
fn wrong_fields_are_rejected() {
    let error = render_field(&[0.0; 5], &picture((64, 64)), UNIT, "").unwrap_err();
    assert_eq!(error.to_string(), "the field has 5 values, expected 861");
    let flat = FieldPicture { grid: Grid { nx: 1, ..GRID }, ..picture((64, 64)) };
    let error = render_field(&[0.0; 21], &flat, UNIT, "").unwrap_err();
    assert!(error.to_string().contains("nx = 1"), "{error}");
    assert_eq!(flat.fitted_pixels(100, UNIT), (100, 100));
}
