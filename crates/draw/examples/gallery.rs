//! Draws one picture of each kind: two galaxies, a star cluster, planets, and plots. Prints the
//! output folder.

use std::f64::consts::TAU;
use std::path::Path;
use std::time::Instant;

use orrery_draw::picture::{
    BodySelection, ColourMap, GifWriter, Labels, Layer, Orientation, Palette, Scale, View, render_layers,
    render_orbits, surface_density, write_png,
};
use orrery_draw::plot::{Axis, Plot, Series, Style};
use orrery_model::{Particle, Particles, Species, Units, rng::Draws};

/// Adds an exponential disc with two spiral arms and a bulge, in place of a simulated galaxy.
fn add_galaxy(particles: &mut Particles, n: u64, centre: [f64; 3], tilt: f64, turn: f64, stream: u32) {
    for i in 0..n {
        let mut draws = Draws::new(7, stream, i);
        let bulge = i % 6 == 0;
        let [x, y, z] = if bulge {
            let u = draws.uniform().sqrt();
            let r = 0.5 * u / (1.0 - u);
            draws.direction().map(|d| r * d)
        } else {
            let r = -3.0 * (draws.uniform() * draws.uniform()).ln();
            let phi = draws.uniform_in(0.0, TAU);
            let wave = 0.45 * (2.0 * (phi - 1.4 * (r / 1.5 + 0.4).ln() - turn)).sin();
            let phi = phi + wave;
            [r * phi.cos(), r * phi.sin(), 0.25 * draws.normal()]
        };
        let (s, c) = tilt.sin_cos();
        let position = [centre[0] + x, centre[1] + c * y - s * z, centre[2] + s * y + c * z];
        let species = if bulge { Species::Bulge } else { Species::Disc };
        particles.push(Particle {
            position,
            velocity: [0.0; 3],
            mass: 1e-4,
            id: particles.len() as u64,
            species,
        });
    }
}

fn example_plots() -> Vec<(&'static str, Plot)> {
    let times = || (0..400).map(|i| f64::from(i) * 0.025);
    let error = |size: f64, shift: f64| {
        times().map(|t| (t, size * (0.05 * t + (3.0 * t + shift).sin().abs()))).collect()
    };
    let energy = Plot {
        title: "Relative energy error".into(),
        subtitle: "plummer, 10,000 bodies, tree \u{3b8} = 0.6, mixed precision".into(),
        x: Axis::linear("time (Gyr)"),
        y: Axis::log("|\u{394}E / E_{0}|"),
        series: vec![
            Series::line("leapfrog, dt = 0.01", error(1e-4, 0.0)),
            Series::line("yoshida4, dt = 0.01", error(2e-7, 1.0)),
        ],
    };
    let radius =
        |a: f64, b: f64| times().map(|t| (t, a * (1.0 + b * (2.0 * t).sin() * (-0.3 * t).exp()))).collect();
    let lagrange = Plot {
        title: "Lagrangian radii".into(),
        x: Axis::linear("time"),
        y: Axis::linear("radius"),
        series: [(10, 0.26, 0.2), (25, 0.46, 0.15), (50, 0.77, 0.1), (75, 1.28, 0.1), (90, 2.2, 0.05)]
            .map(|(p, a, b)| Series::line(format!("{p}%"), radius(a, b)))
            .into(),
        ..Plot::default()
    };
    let density = |r: f64| 0.239 * (1.0 + r * r).powf(-2.5);
    let radii = || (0..30).map(|i| 10f64.powf(-1.5 + 0.09 * f64::from(i)));
    let noisy = radii()
        .enumerate()
        .map(|(i, r)| (r, density(r) * (1.0 + 0.15 * Draws::new(1, 9, i as u64).normal())));
    let profile = Plot {
        title: "Density profile".into(),
        subtitle: "t = 10".into(),
        x: Axis::log("r"),
        y: Axis::log("\u{3c1}(r)"),
        series: vec![
            Series {
                name: "Plummer 1911".into(),
                points: radii().map(|r| (r, density(r))).collect(),
                style: Style::Dashed,
            },
            Series { name: "bodies".into(), points: noisy.collect(), style: Style::Points },
        ],
    };
    vec![("energy", energy), ("lagrangian", lagrange), ("profile", profile)]
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Text chunks of the PNG files.
const TEXTS: [(&str, &str); 1] = [("Software", "orrery gallery")];
/// Bodies per galaxy.
const BODIES: u64 = 30_000;

/// Draws two galaxies in two sizes and prints the times.
fn draw_galaxies(folder: &Path) -> Outcome {
    let (blue, orange) = (ColourMap::blue(), ColourMap::orange());
    for pixels in [(640, 640), (960, 720)] {
        let mut pair = Particles::default();
        add_galaxy(&mut pair, BODIES, [-9.0, 4.0, 0.0], 0.5, 0.0, 1);
        add_galaxy(&mut pair, BODIES, [8.0, -4.0, 3.0], 1.1, 1.0, 2);
        let selected = BodySelection::Luminous.body_filter(&pair);
        let view = View::around_bodies(&pair, &selected, Orientation::XY, pixels);
        let start = Instant::now();
        let a = surface_density(&pair, &view, |i| i < BODIES as usize);
        let b = surface_density(&pair, &view, |i| i >= BODIES as usize);
        let mapped = start.elapsed();
        let scale = Scale::from_maps(&[&a, &b]);
        let labels = Labels {
            title: "galaxy-collision".into(),
            time: "t = 0.75 Gyr".into(),
            units: Some(Units::Galactic),
        };
        let frame = Instant::now();
        let layers = [Layer { map: &a, colours: &blue }, Layer { map: &b, colours: &orange }];
        let image = render_layers(&layers, scale, &view, &labels)?;
        println!("{pixels:?}: maps {mapped:?}, render {:?}, {scale:?}", frame.elapsed());
        write_png(&folder.join(format!("galaxies-{}.png", pixels.0)), &image, &TEXTS)?;
    }
    Ok(())
}

/// Draws a Plummer sphere.
fn draw_cluster(folder: &Path) -> Outcome {
    let ember = ColourMap::ember();
    let mut cluster = Particles::default();
    for i in 0..20_000 {
        let mut draws = Draws::new(1, 1, i);
        let r = (draws.uniform().powf(-2.0 / 3.0) - 1.0).powf(-0.5);
        let position = draws.direction().map(|d| r * d);
        cluster.push(Particle { position, velocity: [0.0; 3], mass: 5e-5, id: i, species: Species::Halo });
    }
    let view = View::around_bodies(&cluster, |_| true, Orientation::XY, (640, 640));
    let map = surface_density(&cluster, &view, |_| true);
    let labels = Labels { title: "plummer".into(), time: "t = 10".into(), units: Some(Units::NBody) };
    let layers = [Layer { map: &map, colours: &ember }];
    write_png(
        &folder.join("plummer.png"),
        &render_layers(&layers, Scale::from_maps(&[&map]), &view, &labels)?,
        &TEXTS,
    )?;
    Ok(())
}

/// Writes an animation of two galaxies that approach each other.
fn write_animation(folder: &Path) -> Outcome {
    let (blue, orange) = (ColourMap::blue(), ColourMap::orange());
    let palette = Palette::from_colour_maps(&[&blue, &orange]);
    let mut writer = GifWriter::create(&folder.join("galaxies.gif"), 480, 480, 20.0, &palette)?;
    let mut fixed = None;
    for frame in 0..24 {
        let s = f64::from(frame) / 23.0;
        let mut pair = Particles::default();
        add_galaxy(&mut pair, BODIES, [-12.0 + 12.0 * s, 5.0, 0.0], 0.5, 2.0 * s, 1);
        add_galaxy(&mut pair, BODIES, [12.0 - 12.0 * s, -5.0, 3.0], 1.1, 1.0 + 2.0 * s, 2);
        let view =
            View { centre: [0.0; 3], half_width: 30.0, orientation: Orientation::XY, pixels: (480, 480) };
        let a = surface_density(&pair, &view, |i| i < BODIES as usize);
        let b = surface_density(&pair, &view, |i| i >= BODIES as usize);
        let scale = *fixed.get_or_insert_with(|| Scale::from_maps(&[&a, &b]));
        let labels =
            Labels { title: String::new(), time: format!("t = {s:.2} Gyr"), units: Some(Units::Galactic) };
        let layers = [Layer { map: &a, colours: &blue }, Layer { map: &b, colours: &orange }];
        writer.push_frame(&render_layers(&layers, scale, &view, &labels)?)?;
    }
    writer.sync()?;
    Ok(())
}

/// Draws the orbits of planets.
fn draw_orbits(folder: &Path) -> Outcome {
    let planets = [
        ("Sun", 0.0, 1.0),
        ("Mercury", 0.39, 0.24),
        ("Venus", 0.72, 0.62),
        ("Earth", 1.0, 1.0),
        ("Mars", 1.52, 1.88),
        ("Ceres", 2.77, 4.6),
        ("Jupiter", 5.2, 11.86),
    ];
    let history: Vec<Vec<[f64; 3]>> = planets
        .iter()
        .map(|&(_, a, period)| {
            let angle = |k: f64| TAU * (a * 1.3 + 0.9 * k / 300.0 * (1.0f64).min(11.0 / period) * 2.0);
            (0..300).map(|k| [a * angle(k.into()).cos(), a * angle(k.into()).sin(), 0.0]).collect()
        })
        .collect();
    let names: Vec<&str> = planets.iter().map(|p| p.0).collect();
    let view = View::enclosing_points(history.iter().flatten().copied(), Orientation::XY, (640, 640));
    let labels =
        Labels { title: "solar-system".into(), time: "t = 100 yr".into(), units: Some(Units::Solar) };
    write_png(&folder.join("orbits.png"), &render_orbits(&history, &names, &view, &labels), &TEXTS)?;
    Ok(())
}

/// Writes the example plots as SVG and PNG.
fn write_plots(folder: &Path) -> Outcome {
    for (name, plot) in example_plots() {
        plot.write_svg(&folder.join(format!("{name}.svg")))?;
        plot.write_png(&folder.join(format!("{name}.png")), 960, 640)?;
    }
    Ok(())
}

fn main() -> Outcome {
    let folder = std::env::temp_dir().join("orrery-gallery");
    std::fs::create_dir_all(&folder)?;
    draw_galaxies(&folder)?;
    draw_cluster(&folder)?;
    write_animation(&folder)?;
    draw_orbits(&folder)?;
    write_plots(&folder)?;
    println!("{}", folder.display());
    Ok(())
}
