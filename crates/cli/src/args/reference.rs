//! Tables for the help texts and the manual page: exit statuses, signals, environment, files.
//!
//! Each row is a name and a short description. A row of a help text must fit into 80 columns.

/// Rows of a name and its description.
pub type Table = &'static [(&'static str, &'static str)];

/// Exit statuses of all commands.
pub const EXIT_STATUS: Table = &[
    ("0", "success"),
    ("1", "the run or the machine failed, or compare or check found differences"),
    ("2", "invalid flags or input, nothing was written"),
    ("3", "run stopped by a signal or --wall-time, with a checkpoint to resume"),
    ("130", "run ended by a second SIGINT"),
];

/// Signals that `run` and `resume` handle.
pub const SIGNALS: Table = &[
    ("SIGINT (Ctrl-C)", "finish the step, write a checkpoint, exit with status 3"),
    ("SIGINT ignored", "stays ignored, for example in a background job of a script"),
    ("SIGINT again", "exit at once with status 130"),
    ("SIGTERM", "same as the first SIGINT"),
    ("SIGXCPU", "same as the first SIGINT"),
    ("SIGHUP", "same as the first SIGINT, ignored under nohup"),
    ("SIGUSR1", "finish the step, write a checkpoint, continue"),
];

/// Environment variables that the program reads.
pub const ENVIRONMENT: Table = &[
    ("ORRERY_CACHE_DIR", "cache of kernels and tunings [default: ~/.cache/orrery]"),
    ("ORRERY_MPI_LIBRARY", "libmpi of the MPI launcher, if another one is found"),
    ("ORRERY_MPI=off", "run each process that an MPI launcher started alone"),
    ("ORRERY_DEBUG=1", "wait after each launch, to find the kernel that fails"),
];

/// Files and folders that the program reads or writes, for the manual page.
pub const FILES: Table = &[
    ("out/NAME/", "output of the run of the case NAME, unless --out gives another folder"),
    ("out/NAME/case.toml", "the case with all defaults written out"),
    ("out/NAME/start.hdf5", "copy of the file of bodies, with output.keep_start; or .xyz, .npz, .gadget"),
    ("out/NAME/provenance.txt", "version, commit, seed, device and precision of the run"),
    ("out/NAME/manifest.txt", "length and hash of every finished file, for orrery check"),
    ("out/NAME/run.log", "all messages of orrery run and orrery resume, with UTC time stamps"),
    ("out/NAME/conserved.csv", "energies, momentum and angular momentum over time"),
    ("out/NAME/thermo.csv", "temperature, energies and pressure of a fluid over time"),
    ("out/NAME/energy.svg, energy.png", "plot of the energy error"),
    ("out/NAME/animation.gif, images/", "images of the run"),
    ("out/NAME/animation.mp4", "film of the images, with image.animation = \"mp4\" and ffmpeg in PATH"),
    ("out/NAME/snapshots/", "all bodies at the output times"),
    ("out/NAME/trajectory.gsd, .xyz", "the particles of a fluid at the output times"),
    ("out/NAME/rdf.csv, msd.csv", "pair distribution function and mean square displacement of a fluid"),
    ("out/NAME/checkpoints/", "checkpoints for orrery resume"),
    ("out/NAME/post-mortem.hdf5", "all bodies at the moment of a numerical failure"),
    (
        "~/.cache/orrery/",
        "compiled kernels and the strategies found by orrery tune. ORRERY_CACHE_DIR, or XDG_CACHE_HOME with \
         orrery/ appended, replaces it",
    ),
];

/// Formats a table as a section of a help text.
pub fn help_section(title: &str, table: Table) -> String {
    let width = table.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let rows: Vec<String> = table.iter().map(|(name, text)| format!("  {name:<width$}  {text}")).collect();
    format!("{title}:\n{}", rows.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables are in docs/reference/exit-status.md, too.
    #[test]
    fn the_reference_page_has_all_rows() {
        let page = include_str!("../../../../docs/reference/exit-status.md");
        for (name, text) in [EXIT_STATUS, SIGNALS, ENVIRONMENT].concat() {
            let row = format!("\n| `{name}` | {text} |\n");
            assert!(page.contains(&row), "docs/reference/exit-status.md has no row:{row}");
        }
    }

    #[test]
    fn help_sections_fit_80_columns() {
        for table in [EXIT_STATUS, SIGNALS, ENVIRONMENT] {
            for line in help_section("Title", table).lines() {
                assert!(line.len() <= 80, "{} columns: {line}", line.len());
            }
        }
    }
}
