//! Direct sums that several ranks share. The parts of the ranks are ranges of targets or, where
//! every pair is evaluated once, nodes of the tree of segments (`pairs_once.cu`).

use std::ops::Range;

use orrery_cluster::LinkError;
use orrery_device::{Buffer, DeviceError};

use super::tiled::Tiled;
use super::{
    DeviceDirect, DirectDeviceStrategy, DirectKernel, JerkRequest, MassSummary, PairSum, PairSumRequest,
    expect_lengths,
};
use crate::share::{DeviceGather, PartSpan, SharedEvaluation};
use crate::solver::device::ForceRequest;

impl DeviceDirect {
    /// Does [`forces`](Self::forces) together with other ranks. Waits for all of them.
    pub(crate) fn shared_forces(
        &mut self,
        request: &ForceRequest,
        evaluation: SharedEvaluation<'_>,
        gather: &mut DeviceGather,
    ) -> Result<(), LinkError> {
        if self.n == 0 {
            return Ok(());
        }
        match self.strategy.kernel {
            DirectKernel::PairsOnce if request.potential.is_none() => {
                self.share_pairs(request, evaluation, gather)
            }
            DirectKernel::PairsOnce | DirectKernel::Tiled => self.share_targets(request, evaluation, gather),
        }
    }

    /// Does [`forces_and_jerks`](Self::forces_and_jerks) together with other ranks. Every rank sums
    /// those of some bodies.
    pub(crate) fn shared_forces_and_jerks(
        &mut self,
        request: &JerkRequest,
        evaluation: SharedEvaluation<'_>,
        gather: &mut DeviceGather,
    ) -> Result<(), LinkError> {
        if self.n == 0 {
            return Ok(());
        }
        let parts = evaluation.divide(self.n, |target| target);
        let queue = request.mass.device().queue();
        let part = queue.record().and_then(|start| {
            self.queue_jerks(request, parts.own())?;
            Ok((start, queue.record()?))
        });
        let columns = [request.acceleration.buffers(), request.jerk.buffers()].concat();
        gather.exchange_columns(evaluation, &parts, &columns, None, part)
    }

    /// Returns the request of a sum and the properties of the masses.
    fn pair_sum_request<'a>(
        &mut self,
        request: &ForceRequest<'a>,
    ) -> Result<(PairSumRequest<'a>, MassSummary), DeviceError> {
        let ForceRequest { position, mass, g, eps, acceleration, potential, .. } = *request;
        expect_lengths(self.n, &[position, acceleration], potential.into_iter().chain([mass]))?;
        let masses = self.mass_summary(mass)?;
        Ok((PairSumRequest { position, mass, g, eps, total_mass: masses.total, acceleration }, masses))
    }

    /// Shares a sum with one or several targets per thread.
    fn share_targets(
        &mut self,
        request: &ForceRequest,
        evaluation: SharedEvaluation<'_>,
        gather: &mut DeviceGather,
    ) -> Result<(), LinkError> {
        let strategy = if request.potential.is_some() { self.potential_strategy() } else { self.strategy };
        let targets_per_block = (strategy.block * strategy.targets) as usize;
        let parts = evaluation.divide(self.n, |target| target.next_multiple_of(targets_per_block));
        let part = self
            .pair_sum_request(request)
            .and_then(|(sum, _)| self.queue_targets(&sum, request.potential, &strategy, parts.own()));
        let columns: Vec<_> = request.acceleration.buffers().into_iter().chain(request.potential).collect();
        gather.exchange_columns(evaluation, &parts, &columns, None, part)
    }

    /// Queues the sums of `targets`. Returns the events around them.
    fn queue_targets(
        &mut self,
        request: &PairSumRequest,
        potential: Option<&Buffer<f64>>,
        strategy: &DirectDeviceStrategy,
        targets: Range<usize>,
    ) -> Result<PartSpan, DeviceError> {
        let with_potential = potential.is_some();
        let known = &mut self.parts[usize::from(with_potential)];
        let tiled = match known.take() {
            Some(tiled) => tiled,
            None => Tiled::for_parts(&mut self.builder, self.n, strategy, with_potential)?,
        };
        let queue = request.mass.device().queue();
        let start = queue.record()?;
        known.insert(tiled).queue_part(request, potential, targets)?;
        Ok((start, queue.record()?))
    }

    /// Shares a sum that evaluates every pair once.
    fn share_pairs(
        &mut self,
        request: &ForceRequest,
        evaluation: SharedEvaluation<'_>,
        gather: &mut DeviceGather,
    ) -> Result<(), LinkError> {
        let prepared = match self.pair_sum_request(request) {
            Ok((sum, masses)) => self.pair_sum(masses).map(|kernels| (sum, kernels)),
            Err(error) => Err(error),
        };
        match prepared {
            Ok((sum, PairSum::PairsOnce(pairs_once))) => pairs_once.share_sum(&sum, evaluation, gather),
            Ok(_) => unreachable!("the kernels are those of the strategy"),
            Err(error) => Err(evaluation.fail(error.into())),
        }
    }
}
