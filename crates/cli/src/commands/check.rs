//! `check`.

use std::path::Path;

use orrery_engine::integrity::{FolderCheck, check_folder};
use orrery_engine::survey;
use orrery_io::{Limits, format_bytes};
use orrery_model::format_count;

use super::Ending;
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::print::{eprint_line, print_line};

/// Compares the files of runs with their records.
pub fn check(arguments: &CheckArgs) -> Result<Ending, Failure> {
    let limits = arguments.memory.limits();
    let mut ending = Ending::Done;
    for folder in &arguments.folders {
        let runs = match survey::is_survey(folder) {
            true => survey::list_shots(folder).into_iter().map(|(_, run)| run).collect(),
            false => vec![folder.clone()],
        };
        for run in runs {
            if check_run(&run, &limits)? == Ending::Different {
                ending = Ending::Different;
            }
        }
    }
    Ok(ending)
}

fn check_run(folder: &Path, limits: &Limits) -> Result<Ending, Failure> {
    let FolderCheck { step, is_finished, files, bytes, checkpoints, differences, unlisted, notes } =
        check_folder(folder, limits)?;
    for note in &notes {
        eprint_line!("note: {note}");
    }
    for difference in &differences {
        print_line!("{}: {}", difference.path.display(), difference.problem);
    }
    let state = if is_finished { "finished" } else { "not finished" };
    let checkpoints = format_count(checkpoints as u64, "checkpoint", "checkpoints");
    let outcome = match differences.len() {
        0 if unlisted > 0 => "the listed files are intact".to_owned(),
        0 => "intact".to_owned(),
        1 => "1 file differs".to_owned(),
        count => format!("{count} files differ"),
    };
    print_line!(
        "{}: step {step}, {state}, {checkpoints}, {} ({}): {outcome}",
        folder.display(),
        format_count(files as u64, "file", "files"),
        format_bytes(bytes)
    );
    Ok(if differences.is_empty() { Ending::Done } else { Ending::Different })
}
