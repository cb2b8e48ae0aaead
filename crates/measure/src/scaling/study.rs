//! The measurements of one physics, and the model that follows from them.

use orrery_cluster::RankTimes;
use orrery_model::analysis::max_or_nan;
use serde::Serialize;

use super::model::{MessageLink, Messages, StepModel, StraightLine, fit_serial_fraction};
use super::probe::{LinkTimes, exchange_times, force_exchange_times, staging_link};
use super::systems::ScalingProblem;
use super::timing::{StepPartTimes, Together};
use super::{MeasuredPhysics, MeasuredRank, Processors, rank_counts};
use crate::MeasureError;

/// Parts of the size of one rank for which steps are measured.
const DIVISORS: [usize; 5] = [16, 8, 4, 2, 1];

/// Steps of some ranks that compute one problem together, and their model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankMeasurement {
    /// Number of ranks.
    pub ranks: usize,
    /// Number of ranks that compute at the same time.
    pub slots: usize,
    /// Slices or particles per rank.
    pub per_rank: usize,
    /// Seconds of computation per step, from ranks that compute without communication.
    pub computation_secs: f64,
    /// Seconds of communication per step, from the times of messages.
    pub communication_secs: f64,
    /// Seconds of a step by the model.
    pub model_secs: f64,
    /// Measured seconds of a step.
    pub measured_secs: f64,
    /// Measured shares of computation, communication and waiting in the time of all ranks.
    pub shares: [f64; 3],
    /// Largest computation time of a rank relative to the mean.
    pub imbalance: f64,
}

impl RankMeasurement {
    /// Returns the deviation of the model relative to the measured time.
    pub fn deviation(&self) -> f64 {
        self.model_secs / self.measured_secs - 1.0
    }
}

/// Results of one physics.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScalingStudy {
    /// The physics.
    pub physics: MeasuredPhysics,
    /// Size: nodes along a side of a field, or particles.
    pub n: usize,
    /// Whether ranks compute on devices.
    pub is_on_device: bool,
    /// Time of a step.
    pub model: StepModel,
    /// Slices or particles, and seconds of a step on one rank.
    pub one_rank: Vec<(f64, f64)>,
    /// Largest relative deviation of the model from these times.
    pub one_rank_deviation: f64,
    /// Times of messages for 2, 4, ... ranks.
    pub links: Vec<LinkTimes>,
    /// All measured steps, by ranks and then by size.
    pub steps: Vec<RankMeasurement>,
    /// Serial fraction of Amdahl's law, fitted to the measured times of the problem of size `n`.
    /// `None` for one rank.
    pub serial_fraction: Option<f64>,
    /// Ranks and slices or particles per rank that need more memory than there is.
    pub too_large: Vec<(usize, usize)>,
}

impl ScalingStudy {
    /// Returns the steps of the problem of size `n`.
    pub fn strong(&self) -> impl Iterator<Item = &RankMeasurement> {
        self.steps.iter().filter(|step| step.per_rank == self.n / step.ranks)
    }

    /// Returns the steps with the size `n` per rank.
    pub fn weak(&self) -> impl Iterator<Item = &RankMeasurement> {
        self.steps.iter().filter(|step| step.per_rank == self.n)
    }

    /// Returns the steps of the largest number of ranks, by size.
    pub fn by_size(&self) -> impl Iterator<Item = &RankMeasurement> {
        let most = self.steps.iter().map(|step| step.ranks).max();
        self.steps.iter().filter(move |step| Some(step.ranks) == most)
    }

    /// Fits the communication of a fluid to the steps from `first` on, which have the same number
    /// of ranks, and replaces its times. Steps of strong and weak scaling are not used, because
    /// they are predicted. Two others must have been measured.
    pub(super) fn fit_communication(&mut self, first: usize) {
        let Self { n, model, links, steps, .. } = self;
        let Some((steps, link)) = steps.get_mut(first..).zip(links.last_mut()) else { return };
        let sent = |step: &RankMeasurement| {
            let amount = (step.ranks * step.per_rank) as f64;
            model.messages.sent_bytes(amount, step.ranks)
        };
        let is_predicted = |step: &RankMeasurement| [*n / step.ranks, *n].contains(&step.per_rank);
        let points: Vec<_> = steps
            .iter()
            .filter(|step| !is_predicted(step) && step.measured_secs > 0.0)
            .map(|step| (sent(step), step.measured_secs - step.computation_secs, step.measured_secs))
            .collect();
        if points.len() < 2 {
            return;
        }
        let fitted = StraightLine::fit_relative_to(&points);
        link.of_steps = Some(fitted);
        for step in steps {
            step.communication_secs = fitted.at(sent(step));
            step.model_secs = model.combined_secs(step.computation_secs, step.communication_secs);
        }
    }

    /// Returns the measured seconds of a step of the problem of size `n` on one rank.
    pub fn one_rank_secs(&self) -> f64 {
        self.one_rank.last().map_or(f64::NAN, |(_, secs)| *secs)
    }
}

/// A measurement on one rank. All ranks execute the same sequence.
pub(super) struct ScalingMeasurement<'a> {
    pub(super) rank: MeasuredRank<'a>,
    processors: &'a Processors,
    pub(super) physics: MeasuredPhysics,
    n: usize,
    pub(super) progress: &'a mut dyn FnMut(&str),
    /// Bytes of memory per rank, equal on all ranks.
    memory: u64,
}

impl<'a> ScalingMeasurement<'a> {
    pub fn new(
        rank: MeasuredRank<'a>,
        processors: &'a Processors,
        physics: MeasuredPhysics,
        n: usize,
        progress: &'a mut dyn FnMut(&str),
    ) -> Self {
        Self { rank, processors, physics, n, progress, memory: u64::MAX }
    }

    /// Measures everything. Returns the results on rank 0.
    pub fn run(mut self) -> Result<Option<ScalingStudy>, MeasureError> {
        let transport = self.rank.transport;
        let memory = self.rank.settings.memory.unwrap_or(u64::MAX);
        self.memory = transport.all_reduce(&[memory], u64::min)?[0];
        let counts = rank_counts(transport.size());
        let (model, one_rank) = self.measure_one_rank(&counts)?;
        let mut study = ScalingStudy {
            physics: self.physics,
            n: self.n,
            is_on_device: self.rank.device.is_some(),
            model,
            one_rank_deviation: deviation_of(&model, &one_rank),
            one_rank,
            links: Vec::new(),
            steps: Vec::new(),
            serial_fraction: None,
            too_large: Vec::new(),
        };
        for &ranks in &counts {
            self.measure_ranks(ranks, ranks == transport.size(), &mut study)?;
        }
        let one = study.one_rank_secs();
        let relative = |step: &RankMeasurement| (step.slots as f64, step.measured_secs / one);
        let points: Vec<(f64, f64)> = study.strong().filter(|step| step.slots > 1).map(relative).collect();
        study.serial_fraction = (!points.is_empty()).then(|| fit_serial_fraction(&points));
        Ok((transport.rank() == 0).then_some(study))
    }

    pub(super) fn problem(&self, amount: usize) -> ScalingProblem {
        ScalingProblem { physics: self.physics, side: self.n, amount }
    }

    /// Returns the sizes of the part of a rank, ascending.
    fn sizes(&self, counts: &[usize]) -> Vec<usize> {
        let parts = DIVISORS.iter().chain(counts).map(|divisor| self.n / divisor);
        let mut sizes: Vec<usize> =
            parts.filter(|&size| size >= self.physics.min_size() / 2 || size == self.n).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Measures one rank with all sizes. Returns the model and the times.
    fn measure_one_rank(&mut self, counts: &[usize]) -> Result<(StepModel, Vec<(f64, f64)>), MeasureError> {
        let (mut times, mut walks, mut steps_per_exchange) = (Vec::new(), Vec::new(), 1);
        for size in self.sizes(counts) {
            let StepPartTimes { secs, steps_per_exchange: steps } = self.time_parts(1, size)?;
            times.push((size as f64, secs));
            steps_per_exchange = steps;
            if self.physics == MeasuredPhysics::Gravity {
                walks.push(self.time_walk(size)?);
            }
        }
        let transport = self.rank.transport;
        let steps_per_exchange = transport.broadcast(0, vec![steps_per_exchange])?[0];
        let messages = self.problem(self.n).messages(steps_per_exchange, self.rank.device.is_some());
        let is_field = matches!(messages, Messages::Borders { .. });
        let bytes = messages.sent_bytes(self.n as f64, 2);
        let staging = match self.rank.device.filter(|_| transport.rank() == 0) {
            Some(device) => Some(staging_link(device, bytes)?),
            None => None,
        };
        transport.barrier()?;
        let mut model = StepModel {
            divided: StraightLine::default(),
            replicated: StraightLine::default(),
            is_n_log_n: self.physics == MeasuredPhysics::Gravity,
            messages,
            overlaps: is_field && self.rank.device.is_some(),
            staging,
        };
        if walks.is_empty() {
            model.divided = StraightLine::fit(&times);
        } else {
            // Noise can make the walk alone slower than the fastest step. The fit needs times above
            // 0.
            let walks = times.iter().zip(&walks);
            let walks = walks.map(|(&(size, secs), &walk)| (size, walk.min(0.99 * secs), secs));
            let divided: Vec<_> = walks.clone().map(|(size, walk, _)| (model.work(size), walk)).collect();
            let replicated: Vec<_> = walks.map(|(size, walk, secs)| (size, secs - walk)).collect();
            model.divided = StraightLine::fit(&divided);
            model.replicated = StraightLine::fit(&replicated);
        }
        Ok((model, times))
    }

    /// Measures some of the ranks together, and adds the results. With `is_all`, all sizes of a
    /// field are measured, else the problem of size `n` and `n` per rank.
    fn measure_ranks(
        &mut self,
        ranks: usize,
        is_all: bool,
        study: &mut ScalingStudy,
    ) -> Result<(), MeasureError> {
        let counts = rank_counts(self.rank.transport.size());
        // The communication of a fluid is fitted to all sizes.
        let needs_all = is_all || (self.physics == MeasuredPhysics::LennardJones && ranks > 1);
        let mut sizes = if needs_all { self.sizes(&counts) } else { vec![self.n / ranks, self.n] };
        sizes.retain(|size| *size * ranks >= self.physics.min_size());
        sizes.dedup();
        let link = if ranks > 1 { Some(self.measure_link(ranks, study)?) } else { None };
        let first = study.steps.len();
        for per_rank in sizes {
            let (total, amount) = (self.problem(ranks * per_rank), (ranks * per_rank) as f64);
            if total.bytes_per_rank(ranks) > self.memory {
                study.too_large.push((ranks, per_rank));
                continue;
            }
            let known = study.one_rank.iter().find(|(size, _)| ranks == 1 && *size == per_rank as f64);
            let (computation, together) = match known.copied() {
                Some((_, secs)) => (secs, Together { secs, times: Vec::new() }),
                None => {
                    let computation = self.time_parts(ranks, per_rank)?.secs;
                    (computation, self.time_together(ranks, &total)?)
                }
            };
            let messages = &study.model.messages;
            let communication = link.map_or(0.0, |link| match messages {
                // The exchange was measured as a whole.
                Messages::AllGather { .. } => link.secs(messages.sent_bytes(amount, ranks)),
                // The exchange was measured with its copies.
                _ => messages.secs(amount, ranks, &link, None),
            });
            let (shares, imbalance) = shares_of(&together.times);
            study.steps.push(RankMeasurement {
                ranks,
                slots: self.processors.slots(ranks),
                per_rank,
                computation_secs: computation,
                communication_secs: communication,
                model_secs: study.model.combined_secs(computation, communication),
                measured_secs: together.secs,
                shares,
                imbalance,
            });
        }
        if self.physics == MeasuredPhysics::LennardJones && ranks > 1 {
            study.fit_communication(first);
        }
        Ok(())
    }

    /// Measures the messages of `ranks` ranks, of the length of those of a step.
    fn measure_link(&mut self, ranks: usize, study: &mut ScalingStudy) -> Result<MessageLink, MeasureError> {
        (self.progress)(&format!("{}: messages of {ranks} ranks", self.physics.name()));
        let messages = &study.model.messages;
        let MeasuredRank { transport, device, .. } = self.rank;
        let times = transport.first_ranks(ranks).map(|group| match messages {
            Messages::Borders { bytes, .. } => exchange_times(&group, device, *bytes),
            Messages::AllGather { .. } => force_exchange_times(&group, device, messages, self.n),
            // Ghosts take the paths of borders.
            Messages::Ghosts { .. } => {
                exchange_times(&group, device, messages.sent_bytes(self.n as f64, ranks) / 2.0)
            }
        });
        let times = times.transpose()?;
        transport.barrier()?;
        let link = times.as_ref().map_or(super::DEFAULT_LINK, |times| times.link);
        study.links.extend(times);
        Ok(link)
    }
}

/// Returns the largest relative deviation of the model from the times of one rank.
fn deviation_of(model: &StepModel, times: &[(f64, f64)]) -> f64 {
    let deviations = times.iter().map(|&(size, secs)| (model.computation_secs(size, 1) / secs - 1.0).abs());
    deviations.fold(0.0, max_or_nan)
}

/// Returns the shares of computation, communication and waiting in the times of all ranks, and the
/// largest computation time relative to the mean. Without times a rank only computes.
pub(super) fn shares_of(times: &[RankTimes]) -> ([f64; 3], f64) {
    let sum = |part: fn(&RankTimes) -> std::time::Duration| {
        times.iter().map(|times| part(times).as_secs_f64()).sum::<f64>()
    };
    let parts = [sum(|t| t.computation), sum(|t| t.communication), sum(|t| t.waiting)];
    let all: f64 = parts.iter().sum();
    if all <= 0.0 {
        return ([1.0, 0.0, 0.0], 1.0);
    }
    let most = times.iter().map(|times| times.computation.as_secs_f64()).fold(0.0, max_or_nan);
    (parts.map(|part| part / all), most * times.len() as f64 / parts[0].max(f64::MIN_POSITIVE))
}
