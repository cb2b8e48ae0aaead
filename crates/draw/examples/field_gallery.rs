//! Draws pictures of fields: plates of several shapes and sizes, all marks, and animations. Prints
//! the output folder.

use std::f64::consts::PI;
use std::path::Path;
use std::time::Instant;

use orrery_draw::picture::{
    ColourMap, FieldPicture, GifWriter, Palette, PointKind, PointMark, RegionKind, RegionMark, Underlay,
    ValueRange, render_field, write_png,
};
use orrery_model::grid::{Boundaries, Boundary, EdgeValues, Grid, RegionShape};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Value of a field at x and y, both from 0 to 1.
type Function = fn(f64, f64) -> f64;

/// Computes a field from a function of x and y, both from 0 to 1.
fn sample_field(grid: &Grid, function: impl Fn(f64, f64) -> f64) -> Vec<f32> {
    let last = [(grid.nx - 1) as f64, (grid.ny - 1) as f64];
    let value = |i: usize| function((i % grid.nx) as f64 / last[0], (i / grid.nx) as f64 / last[1]);
    (0..grid.len()).map(|i| value(i) as f32).collect()
}

fn draw(folder: &Path, name: &str, picture: &FieldPicture, values: &[f32], range: ValueRange) -> Outcome {
    let start = Instant::now();
    let image = render_field(values, picture, range, "t = 12.5 ms")?;
    println!("{name}: {}x{} pixels in {:.1?}", image.width, image.height, start.elapsed());
    write_png(&folder.join(format!("field-{name}.png")), &image, &[("Software", "orrery field gallery")])?;
    Ok(())
}

/// A plate with every kind of edge and region.
fn chip(pixels: (u32, u32)) -> FieldPicture {
    let grid = Grid { nx: 201, ny: 201, hx: 1e-4, hy: 1e-4 };
    let waves = (0..201).map(|k| (f64::from(k) / 30.0).sin()).collect();
    let boundaries = Boundaries {
        west: Boundary::fixed(300.0),
        east: Boundary::Flux(EdgeValues::Profile(waves)),
        south: Boundary::flux(2.0),
        north: Boundary::INSULATED,
    };
    let rectangle = |corner, size| RegionShape::Rectangle { corner, size };
    let core = rectangle([0.004, 0.01], [0.005, 0.005]);
    let disc = RegionShape::Disc { centre: [0.0135, 0.007], radius: 0.0028 };
    let regions = [
        (core, RegionKind::Source),
        (core, RegionKind::Material),
        (disc, RegionKind::Source),
        (rectangle([0.012, 0.0135], [0.006, 0.004]), RegionKind::Material),
    ];
    FieldPicture {
        title: "chip".into(),
        length_unit: "m".into(),
        quantity: "temperature".into(),
        unit: "K".into(),
        regions: regions.into_iter().map(|(shape, kind)| RegionMark { shape, kind }).collect(),
        ..FieldPicture::new(grid, boundaries, pixels)
    }
}

fn chip_temperature(x: f64, y: f64) -> f64 {
    let spot = |cx: f64, cy: f64, r: f64| (-((x - cx).powi(2) + (y - cy).powi(2)) / (r * r)).exp();
    300.0 + 60.0 * spot(0.325, 0.625, 0.2) + 35.0 * spot(0.675, 0.35, 0.15)
}

/// Draws the same plate in several sizes and colours.
fn draw_sizes(folder: &Path) -> Outcome {
    for side in [64, 100, 160, 240, 320, 480, 800, 2048, 4096] {
        let mut picture = chip((side, side));
        let values = sample_field(&picture.grid, chip_temperature);
        let range = ValueRange::covering(&values);
        draw(folder, &format!("square-{side}"), &picture, &values, range)?;
        if side == 800 {
            for name in ColourMap::NAMES {
                picture.colours = ColourMap::from_name(name).ok_or("unknown map")?;
                picture.pixels = picture.fitted_pixels(640, range);
                draw(folder, &format!("map-{name}"), &picture, &values, range)?;
            }
            let narrow = ValueRange { low: 305.0, high: 340.0 };
            draw(folder, "clamped", &chip((640, 560)), &values, narrow)?;
        }
    }
    Ok(())
}

/// Draws plates of other shapes, and unusual values.
fn draw_shapes(folder: &Path) -> Outcome {
    let shapes = [
        ("wide", 400, 100, 1.0),
        ("long", 2000, 50, 1.0),
        ("tall", 60, 600, 1.0),
        ("needle", 3, 4000, 1e-9),
        ("tiny", 3, 3, 0.5),
        ("huge-grid", 4001, 3001, 1e-6),
    ];
    for (name, nx, ny, h) in shapes {
        let grid = Grid { nx, ny, hx: h, hy: h };
        let boundaries = Boundaries {
            west: Boundary::Periodic,
            east: Boundary::Periodic,
            south: Boundary::fixed(0.0),
            north: Boundary::flux(-1.0),
        };
        let mut picture = FieldPicture {
            title: name.into(),
            quantity: "u".into(),
            length_unit: if h < 1e-3 { "m".into() } else { String::new() },
            ..FieldPicture::new(grid, boundaries, (720, 720))
        };
        let values = sample_field(&grid, |x, y| (PI * x).sin() * (PI * y).sin());
        let range = ValueRange::covering(&values);
        draw(folder, &format!("{name}-square"), &picture, &values, range)?;
        picture.pixels = picture.fitted_pixels(960, range);
        draw(folder, &format!("{name}-fitted"), &picture, &values, range)?;
    }
    Ok(())
}

fn wave(x: f64, y: f64) -> f64 {
    (2.0 * PI * x).sin() * (2.0 * PI * y).cos()
}

/// Draws constant, large, small, signed and NaN values.
fn draw_values(folder: &Path) -> Outcome {
    let cases: [(&str, &str, Function); 6] = [
        ("constant", "K", |_, _| 293.15),
        ("zero", "", |_, _| 0.0),
        ("large", "K", |x, y| 3.2e12 * (1.0 + wave(x, y))),
        ("small", "K", |x, y| -4e-7 * (1.0 + wave(x, y))),
        ("negative", "V", |x, y| 5.0 * wave(x, y)),
        ("nan", "K", |x, y| if (x - 0.5).hypot(y - 0.3) < 0.1 { f64::NAN } else { 300.0 + wave(x, y) }),
    ];
    for (name, unit, function) in cases {
        let grid = Grid { nx: 121, ny: 81, hx: 1.0, hy: 1.0 };
        let mut picture = FieldPicture {
            title: name.into(),
            quantity: "temperature".into(),
            unit: unit.into(),
            ..FieldPicture::new(grid, Boundaries::uniform(Boundary::fixed(0.0)), (640, 480))
        };
        let values = sample_field(&grid, function);
        let mut range = ValueRange::covering(&values);
        if name == "negative" {
            (picture.colours, range) = (ColourMap::diverging(), range.symmetric());
        }
        draw(folder, name, &picture, &values, range)?;
    }
    Ok(())
}

/// Writes an animation of a decaying field.
fn write_animation(folder: &Path) -> Outcome {
    let mut picture = chip((2, 2));
    let range = ValueRange { low: 300.0, high: 360.0 };
    picture.pixels = picture.fitted_pixels(480, range);
    let palette = Palette::for_field(&picture.colours);
    let (width, height) = picture.pixels;
    let mut writer = GifWriter::create(&folder.join("field.gif"), width, height, 20.0, &palette)?;
    for frame in 0..30 {
        let decay = (-f64::from(frame) / 10.0).exp();
        let values = sample_field(&picture.grid, |x, y| 300.0 + decay * (chip_temperature(x, y) - 300.0));
        writer.push_frame(&render_field(&values, &picture, range, &format!("t = {frame} ms"))?)?;
    }
    writer.sync()?;
    Ok(())
}

/// Size of a node of the grid of waves, in metres.
const WAVE_SPACING: f64 = 10.0;

/// Returns a picture of waves with a source, receivers at the top and the velocities below.
fn seismic_picture(velocities: &[f64], grid: Grid, receivers: usize, pixels: (u32, u32)) -> FieldPicture {
    let lengths = grid.extents(&Boundaries::uniform(Boundary::INSULATED));
    let receiver_at = |k: usize| lengths[0] * (k as f64 + 0.5) / receivers as f64;
    let mut points: Vec<PointMark> = (0..receivers)
        .map(|k| PointMark { position: [receiver_at(k), 20.0], kind: PointKind::Receiver })
        .collect();
    points.push(PointMark { position: [0.4 * lengths[0], 100.0], kind: PointKind::Source });
    let disc = RegionShape::Disc { centre: [0.7 * lengths[0], 0.65 * lengths[1]], radius: 300.0 };
    FieldPicture {
        colours: ColourMap::diverging(),
        shows_edges: false,
        is_depth_down: true,
        axis_names: ["x", "depth"],
        regions: vec![RegionMark { shape: disc, kind: RegionKind::Material }],
        points,
        underlay: Underlay::from_values(velocities, "velocity", "m/s"),
        title: "two layers".into(),
        length_unit: "m".into(),
        quantity: "pressure".into(),
        unit: "Pa".into(),
        ..FieldPicture::new(grid, Boundaries::uniform(Boundary::INSULATED), pixels)
    }
}

/// Velocities in m/s: two layers with a disc in the lower one, or a gradient with the same disc.
fn velocities(grid: &Grid, is_gradient: bool) -> Vec<f64> {
    let at = |i: usize| {
        let (x, y) = ((i % grid.nx) as f64, (i / grid.nx) as f64);
        match (x - 0.7 * grid.nx as f64).hypot(y - 0.65 * grid.ny as f64) * WAVE_SPACING {
            distance if distance < 300.0 => 4500.0,
            _ if is_gradient => 1500.0 + 2000.0 * y / grid.ny as f64,
            _ if y > 0.4 * grid.ny as f64 => 2500.0,
            _ => 1500.0,
        }
    };
    (0..grid.len()).map(at).collect()
}

/// Advances the wave equation by one step of second order.
fn step_wave(now: &[f64], previous: &mut [f64], velocities: &[f64], nx: usize, dt: f64) {
    for i in nx + 1..now.len() - nx - 1 {
        if i % nx != 0 && i % nx != nx - 1 {
            let laplacian = now[i - 1] + now[i + 1] + now[i - nx] + now[i + nx] - 4.0 * now[i];
            let courant = velocities[i] * dt / WAVE_SPACING;
            previous[i] = 2.0 * now[i] - previous[i] + courant * courant * laplacian;
        }
    }
}

/// Draws waves over their velocities in several sizes, and writes an animation.
fn draw_waves(folder: &Path) -> Outcome {
    let grid = Grid { nx: 401, ny: 201, hx: WAVE_SPACING, hy: WAVE_SPACING };
    for (name, is_gradient) in [("layers", false), ("gradient", true)] {
        let velocities = velocities(&grid, is_gradient);
        let mut picture = seismic_picture(&velocities, grid, 100, (2, 2));
        let range = ValueRange { low: -0.3, high: 0.3 };
        picture.pixels = picture.fitted_pixels(640, range);
        let (mut now, mut previous) = (vec![0.0; grid.len()], vec![0.0; grid.len()]);
        let palette = Palette::for_picture(&picture);
        let (width, height) = picture.pixels;
        let path = folder.join(format!("wave-{name}.gif"));
        let mut writer = GifWriter::create(&path, width, height, 20.0, &palette)?;
        let dt = 0.001;
        for step in 0..700 {
            if step % 20 == 0 {
                let time = format!("t = {step} ms");
                writer.push_frame(&render_field(&now, &picture, range, &time)?)?;
            }
            step_wave(&now, &mut previous, &velocities, grid.nx, dt);
            std::mem::swap(&mut now, &mut previous);
            let phase = (PI * 12.0 * (f64::from(step) * dt - 0.1)).powi(2);
            now[10 * grid.nx + 160] += 0.3 * (1.0 - 2.0 * phase) * (-phase).exp();
        }
        writer.sync()?;
        let values: Vec<f32> = now.iter().map(|&value| value as f32).collect();
        for pixels in [(320, 200), (480, 300), (640, 400), (1280, 800), (800, 300)] {
            let receivers = if pixels.0 == 480 { 2000 } else { 100 };
            let picture = seismic_picture(&velocities, grid, receivers, pixels);
            draw(folder, &format!("wave-{name}-{}x{}", pixels.0, pixels.1), &picture, &values, range)?;
        }
    }
    Ok(())
}

fn main() -> Outcome {
    let folder = std::env::temp_dir().join("orrery-gallery");
    std::fs::create_dir_all(&folder)?;
    draw_sizes(&folder)?;
    draw_shapes(&folder)?;
    draw_values(&folder)?;
    write_animation(&folder)?;
    draw_waves(&folder)?;
    println!("{}", folder.display());
    Ok(())
}
