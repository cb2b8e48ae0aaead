//! The runs of one command: a single one, or the shots of a survey one after another.

use std::path::{Path, PathBuf};

use orrery_engine::case::{Case, CaseSource};
use orrery_engine::control::Control;
use orrery_engine::run::{Output, Replace, Summary};
use orrery_engine::survey::{self, SurveyLock};
use orrery_engine::{EngineError, System, run as engine_run};
use orrery_formats::Limits;
use serde_json::{Value, json};

use super::Ending;
use super::run::{print_case, print_end, summary_json};
use super::timing::timing_json;
use crate::args::CommonRunArgs;
use crate::failure::Failure;
use crate::json::JsonTarget;
use crate::log;
use crate::print::eprint_line;
use crate::progress::{Progress, name_run};

/// How runs start.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// From the beginning.
    New(Replace),
    /// From their checkpoints, or from the beginning where there is none.
    Resume { restart_outputs: bool },
}

/// The runs of a command, one after another.
pub struct Runs {
    /// The case of each run, and its folder.
    pub runs: Vec<(Case, PathBuf)>,
    /// The case of all shots and the folder of the survey, if the runs are shots.
    pub survey: Option<(Case, PathBuf)>,
}

impl Runs {
    /// Returns the runs of the shots of `case`, in folders below `folder`.
    pub fn of_survey(
        source: &CaseSource,
        sets: &[String],
        case: Case,
        shots: &[u64],
        folder: &Path,
        limits: &Limits,
    ) -> Result<Self, Failure> {
        let run_of = |shot: &u64| {
            let sets = [sets, &[format!("wave.shot={shot}")]].concat();
            let case = Case::load_within(source, &sets, Some(limits.memory))?;
            Ok((case, survey::shot_folder(folder, *shot)))
        };
        let runs = shots.iter().map(run_of).collect::<Result<_, Failure>>()?;
        Ok(Self { runs, survey: Some((case, folder.to_owned())) })
    }

    /// Checks that the folders may be used. Writes nothing.
    pub fn check_usable(&self, start: Start) -> Result<(), Failure> {
        match (&self.survey, start) {
            (Some((case, folder)), Start::New(replace)) => survey::check_usable(folder, case, replace)?,
            (Some((case, folder)), Start::Resume { .. }) => {
                survey::check_no_links(folder, &selected_shots(case).unwrap_or_default())?;
            }
            (None, Start::New(replace)) => {
                for (_, folder) in &self.runs {
                    Output { folder: folder.clone(), replace }.check_usable()?;
                }
            }
            (None, Start::Resume { .. }) => {}
        }
        Ok(())
    }

    /// Locks the folder of a survey, removes the earlier one if this one replaces it, and records
    /// the case.
    fn prepare_survey(
        &self,
        case: &Case,
        folder: &Path,
        start: Start,
        control: &Control,
    ) -> Result<SurveyLock, Failure> {
        if let Start::New(Replace::Any) = start {
            // A run that cannot start, for example for lack of memory, must not cost the earlier
            // survey.
            for (case, _) in &self.runs {
                System::plan(case, control, &mut |_| ())?;
            }
        }
        let lock = survey::lock(folder, control.ignores_claims)?;
        match start {
            Start::New(Replace::Any) => survey::clear(folder, control.ignores_claims, &lock)?,
            Start::New(_) => {}
            Start::Resume { .. } => survey::check_shots(&self.runs)?,
        }
        survey::record_case(folder, case)?;
        Ok(lock)
    }

    /// Executes the runs and writes their summaries and times.
    pub fn execute(
        &self,
        start: Start,
        control: &Control,
        common: &CommonRunArgs,
        [json, timing]: [JsonTarget<'_>; 2],
    ) -> Result<Ending, Failure> {
        // Held until the last shot has ended.
        let _lock = match &self.survey {
            Some((case, folder)) => Some(self.prepare_survey(case, folder, start, control)?),
            None => None,
        };
        let (mut summaries, mut timings) = (Vec::new(), Vec::new());
        let mut ending = Ending::Done;
        for (index, (case, folder)) in self.runs.iter().enumerate() {
            // Each shot has its log.
            if let Some(warning) = (index > 0).then(log::restart).flatten() {
                eprint_line!("{warning}");
            }
            print_case(case, folder);
            let names_run = common.quiet || self.survey.is_some();
            let summary =
                execute_run(case, folder, start, control, common).map_err(|error| match names_run {
                    true => name_run(error, folder),
                    false => error.into(),
                })?;
            let whole = self.survey.as_ref().map_or(folder, |(_, survey)| survey);
            ending = print_end(&summary, folder, whole);
            summaries.push(summary_json(&summary, folder));
            timings.push(timing_json(&summary));
            if ending == Ending::Stopped {
                break;
            }
        }
        let of_runs = |mut values: Vec<Value>| match self.survey {
            None => values.remove(0),
            Some(_) => json!({ "shots": values }),
        };
        json.write(|| of_runs(summaries))?;
        timing.write(|| of_runs(timings))?;
        Ok(ending)
    }
}

/// Executes one run.
fn execute_run(
    case: &Case,
    folder: &Path,
    start: Start,
    control: &Control,
    common: &CommonRunArgs,
) -> Result<Summary, EngineError> {
    let mut progress = Progress::new(common.quiet).with_units(case.units).of_run(folder);
    let outcome = match start {
        Start::New(replace) => {
            let output = Output { folder: folder.to_owned(), replace };
            engine_run::run(case, &output, control, |event| progress.print_event(&event))
        }
        Start::Resume { restart_outputs } => {
            let run = engine_run::Resume { folder, sets: &[], restart_outputs };
            engine_run::run_or_resume_with(case, &run, control, |event| progress.print_event(&event))
        }
    };
    progress.finish();
    outcome
}

/// Returns the shots of a case of waves that has several and selects none of them.
pub fn selected_shots(case: &Case) -> Option<Vec<u64>> {
    let wave = case.wave().filter(|wave| wave.shot.is_none())?;
    Some(wave.shots())
}
