//! Draws seismograms of a synthetic shot into a folder.
//!
//!     cargo run -p orrery-formats --example seismogram_gallery -- FOLDER

use std::path::Path;

use orrery_draw::plot::SeismogramPlot;
use orrery_formats::{Seismogram, make_folder, write_seismograms_segy};
use orrery_model::Precision;

const VELOCITY: f64 = 1500.0;
const FREQUENCY: f64 = 25.0;
const DEPTHS: [f64; 2] = [400.0, 800.0];

/// Returns a Ricker wavelet with its peak at 0.
fn ricker(time: f64) -> f64 {
    let square = (std::f64::consts::PI * FREQUENCY * time).powi(2);
    (1.0 - 2.0 * square) * (-square).exp()
}

/// Returns a direct wave and two reflections at `receivers` positions along 2 km.
fn synthetic_shot(receivers: usize) -> Seismogram {
    let (dt, count, delay) = (0.001, 1601, 0.06);
    let positions: Vec<[f64; 3]> =
        (0..receivers).map(|k| [2000.0 * k as f64 / (receivers - 1) as f64, 0.0, 0.0]).collect();
    let source = [700.0, 0.0, 10.0];
    let mut samples = Vec::with_capacity(receivers * count);
    for [x, ..] in &positions {
        let offset = x - source[0];
        for k in 0..count {
            let time = k as f64 * dt - delay;
            let arrival = |path: f64, strength: f64| {
                strength * (100.0 / path.max(20.0)).sqrt() * ricker(time - path / VELOCITY)
            };
            let reflections = DEPTHS.map(|depth| arrival(offset.hypot(2.0 * depth), 0.3));
            samples.push(arrival(offset.abs(), 1.0) + reflections.iter().sum::<f64>());
        }
    }
    Seismogram {
        shot: 1,
        dt,
        start: 0.0,
        source,
        receivers: positions,
        precision: Precision::Single,
        samples,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: seismogram_gallery FOLDER")?;
    let folder = Path::new(&folder);
    make_folder(folder)?;
    for receivers in [41, 401] {
        let shot = synthetic_shot(receivers);
        let mut plot = SeismogramPlot::new(&shot);
        plot.subtitle = format!("{receivers} receivers, two reflectors");
        plot.write_svg(&folder.join(format!("wiggles-{receivers}.svg")))?;
        plot.write_png(&folder.join(format!("wiggles-{receivers}.png")), 1440, 960)?;
        plot.write_grey_png(&folder.join(format!("grey-{receivers}.png")), 1440, 960)?;
        write_seismograms_segy(&folder.join(format!("shot-{receivers}.sgy")), &[shot], &[])?;
    }
    Ok(())
}
