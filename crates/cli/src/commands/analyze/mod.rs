//! `analyze`: tables on the terminal, CSV and SVG in a folder.

mod fields;
mod seismograms;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use orrery_draw::plot::{Axis, Plot, Series, label_with_unit};
use orrery_engine::compute_device::{self, ComputeDevice};
use orrery_engine::field_analysis::{FieldRow, SnapshotFiles, analyze_fields, analyze_model, list_snapshots};
use orrery_engine::gravity::analysis::{self, Analysis, FRACTIONS, Row, SpeciesRow};
use orrery_engine::gravity::schema;
use orrery_engine::provenance::species_name;
use orrery_engine::seismogram_analysis::{TraceRow, analyze_seismograms};
use orrery_engine::survey;
use orrery_engine::system::column_header;
use orrery_formats::{IoError, Limits, SegyFile, is_link, read_segy, write_file_atomically};
use orrery_model::analysis::{FIRST_BREAK_FRACTION, Shell, max_or_nan};
use orrery_model::{ShownUnit, UnitNames, format_count, short_number};
use serde_json::{Value, json};

use super::table_number;
use crate::args::AnalyzeArgs;
use crate::failure::{Failure, check_new_file};
use crate::print::print_line;

/// Seismograms in the folder of a run.
const RUN_SEISMOGRAMS: &str = "seismograms.sgy";

/// Analyzes all snapshots of a run, or the given snapshots, fields or SEG-Y files.
pub fn analyze(arguments: &AnalyzeArgs) -> Result<(), Failure> {
    let AnalyzeArgs { paths, output, softening, .. } = arguments;
    softening.map_or(Ok(()), super::check_softening)?;
    if let Some(output) = output.as_ref().filter(|output| output.exists() && !output.is_dir()) {
        return Err(Failure::Usage(format!(
            "{}: is a file, expected a folder to write to",
            output.display()
        )));
    }
    let folder = output.clone().or_else(|| match paths.as_slice() {
        [run] if run.is_dir() => Some(run.join("analysis")),
        _ => None,
    });
    // The folder of a run may be from somebody else. A folder that the user names may be a link.
    if let Some(folder) = folder.as_ref().filter(|folder| output.is_none() && is_link(folder)) {
        let expected = "expected a directory or nothing; --output DIR writes elsewhere";
        return Err(Failure::Usage(format!("{}: is a symbolic link, {expected}", folder.display())));
    }
    let runs = runs_of(paths);
    match list_snapshots(&runs)? {
        SnapshotFiles::Bodies(files) => analyze_bodies(arguments, &files, folder.as_deref()),
        SnapshotFiles::Fields(files) => analyze_field_files(arguments, &runs, &files, folder.as_deref()),
        SnapshotFiles::Segy(files) => analyze_segy_files(arguments, &files, folder.as_deref()),
    }
}

/// Returns `paths` with the shots of each survey in its place. A survey without shots stays.
fn runs_of(paths: &[PathBuf]) -> Vec<PathBuf> {
    let expand = |path: &PathBuf| {
        let shots = if survey::is_survey(path) { survey::list_shots(path) } else { Vec::new() };
        if shots.is_empty() {
            return vec![path.clone()];
        }
        shots.into_iter().map(|(_, shot)| shot).collect()
    };
    paths.iter().flat_map(expand).collect()
}

fn analyze_bodies(arguments: &AnalyzeArgs, files: &[PathBuf], folder: Option<&Path>) -> Result<(), Failure> {
    check_new_files(folder, &FILES, arguments)?;
    let json = arguments.json.prepare()?;
    let selected = compute_device::select_device(arguments.device_args.device)?;
    let analysis = analysis::analyze(files, arguments.softening, &selected, &arguments.memory.limits())?;
    print_line!("device: {selected}");
    let origin = &arguments.paths[0];
    if analysis.units_are_assumed {
        super::warn_of_assumed_units(origin);
    }
    super::print_warnings(origin, &analysis.warnings);
    print_tables(&analysis);
    if let Some(folder) = folder {
        create_folder(folder)?;
        write_tables(&analysis, folder)?;
        write_plots(&analysis, folder)?;
        print_line!("");
        print_line!(
            "wrote conserved, lagrangian and profile as .csv and .svg and species.csv to {}",
            folder.display()
        );
    }
    json.write(|| to_json(&analysis, &selected))
}

fn analyze_field_files(
    arguments: &AnalyzeArgs,
    runs: &[PathBuf],
    files: &[PathBuf],
    folder: Option<&Path>,
) -> Result<(), Failure> {
    refuse_softening(arguments, &files[0], "is a field")?;
    let limits = arguments.memory.limits();
    // A run of waves has the fields and, in SI units, the seismograms.
    let runs = if arguments.paths.len() == 1 { runs } else { &[] };
    let of_run = |run: &PathBuf| Some(run.join(RUN_SEISMOGRAMS)).filter(|path| path.is_file());
    let seismograms: Vec<PathBuf> = runs.iter().filter_map(of_run).collect();
    check_new_files(folder, &fields::FILES, arguments)?;
    if !seismograms.is_empty() {
        check_new_files(folder, &seismograms::FILES, arguments)?;
    }
    let json = arguments.json.prepare()?;
    let mut segy = read_segy_files(&seismograms, &limits)?;
    segy.fields = analyze_fields(files, &limits)?;
    segy.report(folder)?;
    json.write(|| segy.to_json())
}

fn analyze_segy_files(
    arguments: &AnalyzeArgs,
    files: &[PathBuf],
    folder: Option<&Path>,
) -> Result<(), Failure> {
    refuse_softening(arguments, &files[0], "is SEG-Y")?;
    let json = arguments.json.prepare()?;
    let found = read_segy_files(files, &arguments.memory.limits())?;
    if let (Some(field), Some(trace)) = (found.fields.first(), found.traces.first()) {
        return Err(Failure::Usage(format!(
            "{} is a model, but {} has seismograms; expected files of one kind",
            field.path.display(),
            trace.path.display()
        )));
    }
    let names = if found.traces.is_empty() { &fields::FILES } else { &seismograms::FILES };
    check_new_files(folder, names, arguments)?;
    found.report(folder)?;
    json.write(|| found.to_json())
}

/// Measurements of fields and of traces. At least one list has entries.
struct FieldAnalysis {
    fields: Vec<FieldRow>,
    traces: Vec<TraceRow>,
}

impl FieldAnalysis {
    /// Prints the tables, and writes them to the folder.
    fn report(&self, folder: Option<&Path>) -> Result<(), Failure> {
        folder.map_or(Ok(()), create_folder)?;
        if !self.fields.is_empty() {
            fields::print_table(&self.fields);
            folder.map_or(Ok(()), |folder| fields::write_files(&self.fields, folder))?;
        }
        if !self.traces.is_empty() {
            if !self.fields.is_empty() {
                print_line!("");
            }
            seismograms::print_table(&self.traces);
            folder.map_or(Ok(()), |folder| seismograms::write_files(&self.traces, folder))?;
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        let mut object = json!({});
        if !self.fields.is_empty() {
            object["fields"] = fields::to_json(&self.fields);
        }
        if !self.traces.is_empty() {
            object["first_break_fraction"] = json!(FIRST_BREAK_FRACTION);
            object["traces"] = seismograms::to_json(&self.traces);
        }
        object
    }
}

fn read_segy_files(files: &[PathBuf], limits: &Limits) -> Result<FieldAnalysis, Failure> {
    let mut found = FieldAnalysis { fields: Vec::new(), traces: Vec::new() };
    for path in files {
        match read_segy(path, limits, None).map_err(Failure::Input)? {
            SegyFile::Model(model) => found.fields.push(analyze_model(path, model)?),
            SegyFile::Seismograms(shots) => found.traces.extend(analyze_seismograms(path, &shots)?),
        }
    }
    Ok(found)
}

fn refuse_softening(arguments: &AnalyzeArgs, file: &Path, found: &str) -> Result<(), Failure> {
    if arguments.softening.is_none() {
        return Ok(());
    }
    let file = file.display();
    Err(Failure::Usage(format!("--softening: {file} {found}, expected a snapshot of bodies")))
}

/// Refuses to replace the files `names` in `folder` without `--force`.
fn check_new_files(folder: Option<&Path>, names: &[&str], arguments: &AnalyzeArgs) -> Result<(), Failure> {
    let check = |folder: &Path| {
        names.iter().try_for_each(|name| check_new_file(&folder.join(name), arguments.json.force))
    };
    folder.map_or(Ok(()), check)
}

fn create_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::Output(IoError::from_system(folder, error)))
}

/// Files that `analyze` writes to a folder for bodies.
const FILES: [&str; 7] = [
    "conserved.csv",
    "conserved.svg",
    "lagrangian.csv",
    "lagrangian.svg",
    "profile.csv",
    "profile.svg",
    "species.csv",
];

/// Returns all results as JSON.
fn to_json(analysis: &Analysis, device: &ComputeDevice) -> Value {
    let snapshot = |row: &Row| {
        let r = &row.record;
        let species = |s: &SpeciesRow| {
            json!({
                "species": species_name(s.species), "bodies": s.bodies, "mass": s.mass, "kinetic": s.kinetic,
                "velocity_dispersion": s.dispersion, "lagrangian_radii": s.radii,
            })
        };
        json!({
            "file": row.path.display().to_string(),
            "bodies": row.bodies,
            "step": r.step,
            "time": r.time,
            "kinetic": r.kinetic,
            "potential": r.potential,
            "total": r.total_energy(),
            "momentum": r.momentum,
            "angular_momentum": r.angular_momentum,
            "virial_ratio": row.virial_ratio,
            "lagrangian_radii": row.radii,
            "species": row.species.iter().map(species).collect::<Vec<_>>(),
        })
    };
    let shell = |s: &Shell| {
        json!({
            "r_inner": s.r_inner, "r_outer": s.r_outer, "r_mean": s.r_mean, "bodies": s.count, "mass": s.mass,
            "density": s.density,
        })
    };
    json!({
        "units": analysis.units.describe(),
        "units_are_assumed": analysis.units_are_assumed,
        "softening": analysis.softening,
        "device": device.to_string(),
        "mass_fractions": FRACTIONS,
        "snapshots": analysis.rows.iter().map(snapshot).collect::<Vec<_>>(),
        "profile": analysis.profile.iter().map(shell).collect::<Vec<_>>(),
    })
}

fn vector_length(v: [f64; 3]) -> f64 {
    v.iter().map(|c| c * c).sum::<f64>().sqrt()
}

/// Returns the names of columns and their units for the heading of a table, for example
/// `: time in Gyr, radii in kpc`. It is empty without units.
fn units_text(units: &[(&str, &str)]) -> String {
    let named = units.iter().filter(|(_, unit)| !unit.is_empty());
    let texts: Vec<String> = named.map(|(name, unit)| format!("{name} in {unit}")).collect();
    if texts.is_empty() { String::new() } else { format!(": {}", texts.join(", ")) }
}

/// Returns the unit of the times in tables and plots.
fn time_unit(analysis: &Analysis) -> ShownUnit {
    let times = analysis.rows.iter().map(|row| row.record.time.abs());
    analysis.units.shown_time(times.fold(0.0, max_or_nan))
}

fn print_tables(analysis: &Analysis) {
    let rows = &analysis.rows;
    let (time, names) = (time_unit(analysis), analysis.units.names());
    let count = format_count(rows.len() as u64, "snapshot", "snapshots");
    print_line!("{count}, {} units, softening {}", analysis.units.name(), short_number(analysis.softening));
    print_line!("");
    let units = units_text(&[
        ("time", time.name),
        ("energies", names.energy),
        ("|p|", names.momentum),
        ("|L|", names.angular_momentum),
    ]);
    print_line!("conserved quantities{units}");
    print_line!(
        "{:>12} {:>13} {:>13} {:>13} {:>10} {:>12} {:>8}",
        "time",
        "kinetic",
        "potential",
        "total",
        "|p|",
        "|L|",
        "2K/|W|"
    );
    for row in rows {
        let r = &row.record;
        print_line!(
            "{:>12} {:>13.6e} {:>13.6e} {:>13.6e} {:>10.2e} {:>12.5e} {:>8}",
            table_number(r.time / time.size),
            r.kinetic,
            r.potential,
            r.total_energy(),
            vector_length(r.momentum),
            vector_length(r.angular_momentum),
            row.virial_ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.4}"))
        );
    }
    print_line!("");
    let units = units_text(&[("time", time.name), ("radii", names.length)]);
    print_line!("Lagrangian radii about the density centre{units}");
    let heads: Vec<String> = FRACTIONS.iter().map(|f| format!("{:>12}", format!("{}%", 100.0 * f))).collect();
    print_line!("{:>12} {}", "time", heads.join(" "));
    for row in rows {
        let numbers = std::iter::once(row.record.time / time.size).chain(row.radii.iter().copied());
        let cells: Vec<String> = numbers.map(|x| format!("{:>12}", table_number(x))).collect();
        print_line!("{}", cells.join(" "));
    }
    print_species(rows, time, names);
    print_line!("");
    let units = units_text(&[("r", names.length), ("mass", names.mass), ("density", names.density)]);
    print_line!("density profile of the last snapshot{units}");
    print_line!("{:>12} {:>12} {:>8} {:>13} {:>13}", "r from", "to", "bodies", "mass", "density");
    for shell in analysis.profile.iter().filter(|shell| shell.count > 0) {
        print_line!(
            "{:>12} {:>12} {:>8} {:>13.6e} {:>13.6e}",
            table_number(shell.r_inner),
            table_number(shell.r_outer),
            shell.count,
            shell.mass,
            shell.density
        );
    }
}

/// Prints a table of the species, if there are several.
fn print_species(rows: &[Row], time: ShownUnit, names: UnitNames) {
    if rows.iter().all(|row| row.species.len() <= 1) {
        return;
    }
    print_line!("");
    print_line!(
        "species, with one-dimensional velocity dispersion and radii about the density centre of all bodies{}",
        units_text(&[
            ("time", time.name),
            ("mass", names.mass),
            ("energy", names.energy),
            ("dispersion", names.velocity),
            ("radii", names.length),
        ])
    );
    print_line!(
        "{:>12} {:<8} {:>8} {:>13} {:>13} {:>11} {:>11} {:>11} {:>11}",
        "time",
        "species",
        "bodies",
        "mass",
        "kinetic",
        "dispersion",
        "10%",
        "50%",
        "90%"
    );
    for (row, s) in rows.iter().flat_map(|row| row.species.iter().map(move |s| (row, s))) {
        print_line!(
            "{:>12} {:<8} {:>8} {:>13.6e} {:>13.6e} {:>11.4e} {:>11.4e} {:>11.4e} {:>11.4e}",
            table_number(row.record.time / time.size),
            species_name(s.species),
            s.bodies,
            s.mass,
            s.kinetic,
            s.dispersion,
            s.radii[1],
            s.radii[2],
            s.radii[3]
        );
    }
}

fn write_tables(analysis: &Analysis, folder: &Path) -> Result<(), Failure> {
    let save = |name: &str, text: &str| {
        let path = folder.join(name);
        write_file_atomically(&path, text.as_bytes()).map_err(Failure::Output)
    };
    let mut conserved = format!("{}\n", schema(&analysis.units).csv_header());
    let names = analysis.units.names();
    let time = column_header("time", names.time);
    let length = |name: &str| column_header(name, names.length);
    let heads: Vec<String> = FRACTIONS.iter().map(|f| length(&format!("r{}", 100.0 * f))).collect();
    let mut lagrangian = format!("{time},{}\n", heads.join(","));
    for row in &analysis.rows {
        let r = &row.record;
        let _ = writeln!(conserved, "{}", r.to_row().csv_line());
        let radii: Vec<String> = row.radii.iter().map(|r| format!("{r:e}")).collect();
        let _ = writeln!(lagrangian, "{:e},{}", r.time, radii.join(","));
    }
    let mut species = format!(
        "{time},species,bodies,{},{},{},{}\n",
        column_header("mass", names.mass),
        column_header("kinetic", names.energy),
        column_header("dispersion", names.velocity),
        heads.join(",")
    );
    for (row, s) in analysis.rows.iter().flat_map(|row| row.species.iter().map(move |s| (row, s))) {
        let numbers: Vec<String> =
            [s.mass, s.kinetic, s.dispersion].iter().chain(&s.radii).map(|x| format!("{x:e}")).collect();
        let (time, name) = (row.record.time, species_name(s.species));
        let _ = writeln!(species, "{time:e},{name},{},{}", s.bodies, numbers.join(","));
    }
    let mut profile = format!(
        "{},{},bodies,{},{},{}\n",
        length("r_inner"),
        length("r_outer"),
        column_header("mass", names.mass),
        column_header("density", names.density),
        length("r_mean")
    );
    for s in &analysis.profile {
        let [inner, outer, mean] = [s.r_inner, s.r_outer, s.r_mean];
        let _ = writeln!(profile, "{inner:e},{outer:e},{},{:e},{:e},{mean:e}", s.count, s.mass, s.density);
    }
    save("conserved.csv", &conserved)?;
    save("lagrangian.csv", &lagrangian)?;
    save("species.csv", &species)?;
    save("profile.csv", &profile)
}

/// Returns the title of a plot, with the name of the run if it is known.
fn plot_title(run: Option<&str>, title: &str) -> String {
    run.map_or(title.to_owned(), |run| format!("{run}: {title}"))
}

fn write_plots(analysis: &Analysis, folder: &Path) -> Result<(), Failure> {
    let (units, names, time) = (&analysis.units, analysis.units.names(), time_unit(analysis));
    let label = |name: &str, unit: &str| label_with_unit(name, units.axis_unit(unit));
    let title = |text: &str| plot_title(analysis.run_name.as_deref(), text);
    let first = analysis.rows.first().map_or(1.0, |row| row.record.total_energy());
    let series = |name: String, value: &dyn Fn(usize) -> f64| {
        let point = |i: usize| (analysis.rows[i].record.time / time.size, value(i));
        Series::line(name, (0..analysis.rows.len()).map(point).collect())
    };
    let energy = Plot {
        title: title("relative energy error"),
        x: Axis::linear(label("time", time.name)),
        y: Axis::log("|E - E_{0}| / |E_{0}|"),
        series: vec![series("energy".to_owned(), &|i| {
            ((analysis.rows[i].record.total_energy() - first) / first).abs()
        })],
        ..Plot::default()
    };
    energy.write_svg(&folder.join("conserved.svg"))?;
    let radii = Plot {
        title: title("Lagrangian radii"),
        x: Axis::linear(label("time", time.name)),
        y: Axis::log(label("radius", names.length)),
        series: (0..FRACTIONS.len())
            .map(|k| series(format!("{}%", 100.0 * FRACTIONS[k]), &|i| analysis.rows[i].radii[k]))
            .collect(),
        ..Plot::default()
    };
    radii.write_svg(&folder.join("lagrangian.svg"))?;
    let points = analysis.profile.iter().filter(|shell| shell.count > 0);
    let density = Plot {
        title: title("density profile"),
        x: Axis::log(label("radius", names.length)),
        y: Axis::log(label("density", names.density)),
        series: vec![Series::line("density", points.map(|shell| (shell.r_mean, shell.density)).collect())],
        ..Plot::default()
    };
    density.write_svg(&folder.join("profile.svg"))?;
    Ok(())
}
