//! Times of steps, of ranks that compute alone and of ranks that compute together.

use std::time::Instant;

use orrery_cluster::{RankTimes, Team, Transport};

use super::MeasuredRank;
use super::study::ScalingMeasurement;
use super::systems::{ScalingProblem, ScalingSystem};
use crate::MeasureError;

/// Most timed steps, in units of [`Pace::unit`](super::systems::Pace::unit).
const MAX_UNITS: u64 = 256;

/// Times of steps of one rank.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepPartTimes {
    pub secs: f64,
    pub steps_per_exchange: u64,
}

/// Times of steps of several ranks, on the leader.
#[derive(Clone, Debug, Default)]
pub(super) struct Together {
    pub secs: f64,
    pub times: Vec<RankTimes>,
}

impl ScalingMeasurement<'_> {
    pub(super) fn time_walk(&self, bodies: usize) -> Result<f64, MeasureError> {
        let MeasuredRank { transport, device, settings } = self.rank;
        let seconds = match transport.rank() {
            0 => self.problem(bodies).walk_secs(device, settings.repeats)?,
            _ => 1.0,
        };
        transport.barrier()?;
        Ok(seconds)
    }

    /// Times steps of `ranks` ranks that each compute their part of `ranks` times `amount` without
    /// communication. All ranks must call it. The times are those of the slowest rank, and 0 on
    /// ranks that do not take part.
    pub(super) fn time_parts(&mut self, ranks: usize, amount: usize) -> Result<StepPartTimes, MeasureError> {
        let elements = self.physics.elements();
        let name = self.physics.name();
        (self.progress)(&format!("{name}: {amount} {elements} on each of {ranks} ranks"));
        let MeasuredRank { transport, device, .. } = self.rank;
        let problem = self.problem(ranks * amount);
        let parts = transport.first_ranks(ranks).map(|group| {
            let part = (group.rank(), ranks);
            problem.run_part(part, device, |system| self.time_part(&group, &problem, system))
        });
        let parts = parts.transpose()?;
        transport.barrier()?;
        Ok(parts.unwrap_or_default())
    }

    fn time_part(
        &self,
        group: &Transport,
        problem: &ScalingProblem,
        system: &mut dyn ScalingSystem,
    ) -> Result<StepPartTimes, MeasureError> {
        system.advance(problem.pace().warm_up)?;
        let mut slowest = |steps: u64| {
            group.barrier()?;
            let start = Instant::now();
            system.advance(steps)?;
            Ok::<_, MeasureError>(group.all_reduce(&[start.elapsed().as_secs_f64()], f64::max)?[0])
        };
        let unit = problem.pace().unit;
        let steps = self.step_count(slowest(unit)?, unit);
        let mut secs = f64::INFINITY;
        for _ in 0..self.rank.settings.repeats {
            secs = secs.min(slowest(steps)? / steps as f64);
        }
        Ok(StepPartTimes { secs, steps_per_exchange: system.steps_per_exchange() })
    }

    /// Times steps of a problem that `ranks` ranks compute together. All ranks must call it. Rank 0
    /// returns the times.
    pub(super) fn time_together(
        &mut self,
        ranks: usize,
        problem: &ScalingProblem,
    ) -> Result<Together, MeasureError> {
        let elements = self.physics.elements();
        let name = self.physics.name();
        (self.progress)(&format!("{name}: {} {elements} on {ranks} ranks together", problem.amount));
        let MeasuredRank { transport, device, .. } = self.rank;
        let timed = transport.first_ranks(ranks).map(|group| {
            let team = Team::new(&group);
            problem.run(&team, device, |system| self.time_team(&team, problem, system))
        });
        let timed = timed.transpose()?.flatten();
        transport.barrier()?;
        Ok(timed.unwrap_or_default())
    }

    fn time_team(
        &self,
        team: &Team,
        problem: &ScalingProblem,
        system: &mut dyn ScalingSystem,
    ) -> Result<Together, MeasureError> {
        let pace = problem.pace();
        system.advance(pace.warm_up)?;
        let start = Instant::now();
        system.advance(pace.unit)?;
        let steps = self.step_count(start.elapsed().as_secs_f64(), pace.unit);
        let mut fastest = Together { secs: f64::INFINITY, times: Vec::new() };
        for _ in 0..self.rank.settings.repeats {
            team.start_times()?;
            let start = Instant::now();
            system.advance(steps)?;
            let secs = start.elapsed().as_secs_f64() / steps as f64;
            let times = team.times()?;
            if secs < fastest.secs {
                fastest = Together { secs, times };
            }
        }
        Ok(fastest)
    }

    /// Returns the number of steps of a timed run, if `unit` steps take `unit_secs`.
    fn step_count(&self, unit_secs: f64, unit: u64) -> u64 {
        let units = (self.rank.settings.run_secs / unit_secs.max(1e-9)).ceil() as u64;
        unit * units.clamp(1, MAX_UNITS)
    }
}
