//! `analyze`: tables on the terminal, CSV and SVG in a folder.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use orrery_device::DeviceChoice;
use orrery_engine::analysis::{Analysis, FRACTIONS, analyze as measure};
use orrery_engine::compute_device;
use orrery_engine::run::Record;
use orrery_io::plot::{Axis, Plot, Series};
use orrery_io::{IoError, Limits, write_file_atomically};
use orrery_model::Units;

use crate::failure::Failure;
use crate::say::say;

/// Measures a run or a snapshot.
pub fn analyze(
    path: &Path,
    output: Option<PathBuf>,
    softening: Option<f64>,
    device: DeviceChoice,
    limits: &Limits,
) -> Result<(), Failure> {
    if softening.is_some_and(|eps| !(eps >= 0.0 && eps.is_finite())) {
        return Err(Failure::Usage(format!(
            "--softening {} is outside softening >= 0",
            softening.unwrap_or(0.0)
        )));
    }
    if let Some(output) = output.as_ref().filter(|output| output.exists() && !output.is_dir()) {
        return Err(Failure::Usage(format!(
            "{}: is a file, expected a folder to write to",
            output.display()
        )));
    }
    let selected = compute_device::find(device)?;
    let analysis = measure(path, softening, &selected, limits)?;
    say!("device: {selected}");
    if analysis.units_are_assumed {
        super::warn_of_units(path);
    }
    print(&analysis);
    let folder = output.or_else(|| path.is_dir().then(|| path.join("analysis")));
    if let Some(folder) = folder {
        write(&analysis, &folder)?;
        say!("");
        say!("wrote conserved, lagrangian and profile as .csv and .svg to {}", folder.display());
    }
    Ok(())
}

fn size(v: [f64; 3]) -> f64 {
    v.iter().map(|c| c * c).sum::<f64>().sqrt()
}

fn print(analysis: &Analysis) {
    let rows = &analysis.rows;
    let noun = if rows.len() == 1 { "snapshot" } else { "snapshots" };
    say!("{} {noun}, {} units, softening {}", rows.len(), analysis.units.name(), analysis.softening);
    say!("");
    say!("conserved quantities");
    say!("{:>12} {:>13} {:>13} {:>13} {:>10} {:>12}", "time", "kinetic", "potential", "total", "|p|", "|L|");
    for row in rows {
        let r = &row.record;
        say!(
            "{:>12.6} {:>13.6e} {:>13.6e} {:>13.6e} {:>10.2e} {:>12.5e}",
            r.time,
            r.kinetic,
            r.potential,
            r.total(),
            size(r.momentum),
            size(r.angular_momentum)
        );
    }
    say!("");
    say!("Lagrangian radii about the density centre");
    let heads: Vec<String> = FRACTIONS.iter().map(|f| format!("{:>12}", format!("{}%", 100.0 * f))).collect();
    say!("{:>12} {}", "time", heads.join(" "));
    for row in rows {
        let radii: Vec<String> = row.radii.iter().map(|r| format!("{r:>12.6}")).collect();
        say!("{:>12.6} {}", row.record.time, radii.join(" "));
    }
    say!("");
    say!("density profile of the last snapshot");
    say!("{:>12} {:>12} {:>8} {:>13} {:>13}", "r from", "to", "bodies", "mass", "density");
    for shell in analysis.profile.iter().filter(|shell| shell.count > 0) {
        say!(
            "{:>12.6} {:>12.6} {:>8} {:>13.6e} {:>13.6e}",
            shell.r_inner,
            shell.r_outer,
            shell.count,
            shell.mass,
            shell.density
        );
    }
}

fn write(analysis: &Analysis, folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| Failure::Output(IoError::from_system(folder, e)))?;
    let save = |name: &str, text: &str| {
        let path = folder.join(name);
        write_file_atomically(&path, text.as_bytes()).map_err(Failure::Output)
    };
    let (length, time) = match analysis.units {
        Units::NBody | Units::Custom(_) => ("radius", "time"),
        Units::Galactic => ("radius (kpc)", "time (kpc / km/s = 0.978 Gyr)"),
        Units::Solar => ("radius (au)", "time (years)"),
    };

    let mut conserved = format!("{}\n", Record::CSV_HEADER);
    let heads: Vec<String> = FRACTIONS.iter().map(|f| format!("r{}", 100.0 * f)).collect();
    let mut lagrangian = format!("time,{}\n", heads.join(","));
    for row in &analysis.rows {
        let r = &row.record;
        let _ = writeln!(conserved, "{}", r.csv_row());
        let radii: Vec<String> = row.radii.iter().map(|r| format!("{r:e}")).collect();
        let _ = writeln!(lagrangian, "{:e},{}", r.time, radii.join(","));
    }
    let mut profile = String::from("r_inner,r_outer,bodies,mass,density\n");
    for s in &analysis.profile {
        let _ = writeln!(profile, "{:e},{:e},{},{:e},{:e}", s.r_inner, s.r_outer, s.count, s.mass, s.density);
    }
    save("conserved.csv", &conserved)?;
    save("lagrangian.csv", &lagrangian)?;
    save("profile.csv", &profile)?;

    let first = analysis.rows.first().map_or(1.0, |row| row.record.total());
    let series = |name: String, value: &dyn Fn(usize) -> f64| {
        Series::line(
            name,
            (0..analysis.rows.len()).map(|i| (analysis.rows[i].record.time, value(i))).collect(),
        )
    };
    let energy = Plot {
        title: "relative energy error".to_owned(),
        x: Axis::linear(time),
        y: Axis::log("|E - E_{0}| / |E_{0}|"),
        series: vec![series("energy".to_owned(), &|i| {
            ((analysis.rows[i].record.total() - first) / first).abs()
        })],
        ..Plot::default()
    };
    energy.write_svg(&folder.join("conserved.svg"))?;
    let radii = Plot {
        title: "Lagrangian radii".to_owned(),
        x: Axis::linear(time),
        y: Axis::log(length),
        series: (0..FRACTIONS.len())
            .map(|k| series(format!("{}%", 100.0 * FRACTIONS[k]), &|i| analysis.rows[i].radii[k]))
            .collect(),
        ..Plot::default()
    };
    radii.write_svg(&folder.join("lagrangian.svg"))?;
    let middle = |s: &orrery_model::analysis::Shell| (s.r_inner.max(1e-3 * s.r_outer) * s.r_outer).sqrt();
    let density = Plot {
        title: "density profile".to_owned(),
        x: Axis::log(length),
        y: Axis::log("density"),
        series: vec![Series::line(
            "density",
            analysis.profile.iter().map(|s| (middle(s), s.density)).collect(),
        )],
        ..Plot::default()
    };
    density.write_svg(&folder.join("profile.svg"))?;
    Ok(())
}
