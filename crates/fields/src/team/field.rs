//! A leader's field and its followers.
//!
//! [`TeamField`] is what the leader of a team has: it sends a command to the followers before it
//! executes the command itself. The followers execute commands in [`follow_leader`] until the field
//! is dropped. Both have a [`TeamSlab`]. A field on one rank is a team of one, which sends nothing.

use std::fmt::{Debug, Display};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orrery_cluster::{ClusterError, Team, threads};
use orrery_device::Device;
use orrery_model::grid::PixelMeans;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::TeamError;
use super::transfers::LastCommand;
use crate::{FieldColumn, NamedColumn};

/// Types of an equation, whatever the precision of its fields is.
pub(crate) trait FieldPhysics: Debug + Sized + 'static {
    /// Data that followers need to create their slabs.
    type Start: Serialize + DeserializeOwned;
    /// An operation of all ranks.
    type Command: Copy + Serialize + DeserializeOwned;
    /// Scalars of a field.
    type Measures;
    /// Launch parameters on a device.
    type Strategy: Copy;
    /// Reason why an operation failed.
    type Error: From<ClusterError> + From<TeamError>;

    /// Returns true for commands that compute steps.
    fn is_advance(command: &Self::Command) -> bool;
}

/// The slab of one rank, with the operations of all ranks.
pub(crate) trait TeamSlab: Debug + Send + Sized + 'static {
    /// The equation.
    type Physics: FieldPhysics;

    /// Executes a command together with the other ranks. The leader gets the result.
    fn execute(&mut self, command: CommandOf<Self>) -> Result<ReplyOf<Self>, ErrorOf<Self>>;

    /// Waits until the steps on a device are complete, as far as this rank computes them.
    fn wait(&self) -> Result<(), ErrorOf<Self>>;

    /// Describes the slab.
    fn description(&self) -> SlabDescription;

    /// Divides a field of one rank among the ranks of a team, whose leader this rank is. Without a
    /// strategy, a device uses the default one.
    fn divided(
        self,
        team: &Team,
        device: DeviceOf<'_, Self::Physics>,
    ) -> Result<TeamField<Self>, ErrorOf<Self>>;
}

/// Command of the physics of a slab.
type CommandOf<S> = <<S as TeamSlab>::Physics as FieldPhysics>::Command;
/// Start of the physics of a slab.
type StartOf<S> = <<S as TeamSlab>::Physics as FieldPhysics>::Start;
/// Error of the physics of a slab.
type ErrorOf<S> = <<S as TeamSlab>::Physics as FieldPhysics>::Error;
/// Reply of the physics of a slab.
type ReplyOf<S> = TeamReply<<<S as TeamSlab>::Physics as FieldPhysics>::Measures>;
/// A device with its strategy or the default one, `None` for the CPU.
pub(crate) type DeviceOf<'a, P> = Option<(&'a Device, Option<<P as FieldPhysics>::Strategy>)>;

/// Where and how a field is computed.
#[derive(Clone, Debug)]
pub(crate) struct SlabDescription {
    /// Device of this rank, `None` for the CPU.
    pub(crate) device: Option<Device>,
    /// Name of the strategy for reports.
    pub(crate) strategy_name: String,
    /// Steps that one pass over the memory takes.
    pub(crate) steps_per_pass: u64,
}

/// Result of a command on the leader.
#[derive(Debug)]
pub(crate) enum TeamReply<M> {
    /// The command has no result, or this rank is a follower.
    Nothing,
    Measures(M),
    Numbers(Vec<f64>),
    Column(FieldColumn),
    Columns(Vec<NamedColumn>),
    Means(PixelMeans),
}

/// Message of a command whose result has another type than its caller expects.
const OTHER_REPLY: &str = "the reply of another command";

impl<M> From<()> for TeamReply<M> {
    fn from((): ()) -> Self {
        Self::Nothing
    }
}

impl<M> TeamReply<M> {
    /// Returns the reply with a result that only the leader has.
    pub(crate) fn of<T>(result: Option<T>, wrap: impl FnOnce(T) -> Self) -> Self {
        result.map_or(Self::Nothing, wrap)
    }

    pub(crate) fn measures(self) -> M {
        let Self::Measures(measures) = self else { panic!("{OTHER_REPLY}") };
        measures
    }

    pub(crate) fn numbers(self) -> Vec<f64> {
        let Self::Numbers(numbers) = self else { panic!("{OTHER_REPLY}") };
        numbers
    }

    pub(crate) fn column(self) -> FieldColumn {
        let Self::Column(column) = self else { panic!("{OTHER_REPLY}") };
        column
    }

    pub(crate) fn columns(self) -> Vec<NamedColumn> {
        let Self::Columns(columns) = self else { panic!("{OTHER_REPLY}") };
        columns
    }

    pub(crate) fn means(self) -> PixelMeans {
        let Self::Means(means) = self else { panic!("{OTHER_REPLY}") };
        means
    }
}

/// The field of a leader, without the type of its numbers.
pub(crate) trait LedField<P: FieldPhysics>: Debug + Send + Sync {
    /// Executes a command on all ranks.
    fn run(&self, command: P::Command) -> Result<TeamReply<P::Measures>, P::Error>;
    /// [`TeamSlab::wait`].
    fn wait(&self) -> Result<(), P::Error>;
    /// [`TeamSlab::description`].
    fn description(&self) -> &SlabDescription;
    /// [`TeamSlab::divided`].
    ///
    /// # Panics
    /// If several ranks compute the field already.
    fn moved_to(
        self: Box<Self>,
        team: &Team,
        device: DeviceOf<'_, P>,
    ) -> Result<Box<dyn LedField<P>>, P::Error>;
}

/// First message of a leader.
#[derive(Serialize, Deserialize)]
struct Opening<S> {
    start: S,
    is_on_device: bool,
}

/// Later messages of a leader.
#[derive(Debug, Serialize, Deserialize)]
enum TeamMessage<C> {
    Run(C),
    End,
}

/// The field of a leader, with its slab.
#[derive(Debug)]
pub(crate) struct TeamField<S: TeamSlab> {
    team: Team,
    description: SlabDescription,
    /// Locked because an operation that only reads may have to complete the last step.
    slab: Mutex<S>,
    /// Ends the work of the followers.
    _last: LastCommand<TeamMessage<()>>,
}

impl<S: TeamSlab> TeamField<S> {
    /// Starts a field on all ranks of a team, whose leader this rank is. `create` returns the slab
    /// of this rank, together with the followers.
    pub(crate) fn lead(
        team: &Team,
        start: StartOf<S>,
        is_on_device: bool,
        create: impl FnOnce() -> Result<S, ErrorOf<S>>,
    ) -> Result<Self, ErrorOf<S>> {
        team.lead(&Opening { start, is_on_device })?;
        let last = LastCommand::new(team, TeamMessage::End);
        let slab = create()?;
        Ok(Self { team: team.clone(), description: slab.description(), slab: Mutex::new(slab), _last: last })
    }

    fn lock(&self) -> MutexGuard<'_, S> {
        self.slab.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: TeamSlab> LedField<S::Physics> for TeamField<S> {
    fn run(&self, command: CommandOf<S>) -> Result<ReplyOf<S>, ErrorOf<S>> {
        let mut slab = self.lock();
        self.team.lead(&TeamMessage::Run(command))?;
        slab.execute(command)
    }

    fn wait(&self) -> Result<(), ErrorOf<S>> {
        self.lock().wait()
    }

    fn description(&self) -> &SlabDescription {
        &self.description
    }

    fn moved_to(
        self: Box<Self>,
        team: &Team,
        device: DeviceOf<'_, S::Physics>,
    ) -> Result<Box<dyn LedField<S::Physics>>, ErrorOf<S>> {
        assert_eq!(self.team.size(), 1, "a field of one rank can be divided");
        let slab = self.slab.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Box::new(slab.divided(team, device)?))
    }
}

/// Takes part in the computation of the leader's field until that is dropped. `create` returns the
/// slab of this rank, together with the other ranks.
pub(crate) fn follow_leader<S: TeamSlab>(
    team: &Team,
    is_on_device: bool,
    create: impl FnOnce(StartOf<S>) -> Result<S, ErrorOf<S>>,
) -> Result<(), ErrorOf<S>> {
    let opening: Opening<StartOf<S>> = team.next_command()?;
    if opening.is_on_device != is_on_device {
        return Err(TeamError::MixedRanks { rank: team.transport().rank(), is_on_device }.into());
    }
    let mut slab = create(opening.start)?;
    loop {
        match team.next_command()? {
            TeamMessage::Run(command) if S::Physics::is_advance(&command) => {
                // Waits, so that the time is that of the device.
                team.time_steps(|| slab.execute(command).and_then(|_| slab.wait()))?;
            }
            TeamMessage::Run(command) => drop(slab.execute(command)?),
            TeamMessage::End => return Ok(()),
        }
    }
}

/// Runs `lead` on the leader of `ranks` ranks, which are threads, and `follow` on the others.
/// Returns the result of the leader.
pub fn run_team<T: Send, E: Display + From<ClusterError> + Send>(
    ranks: usize,
    lead: impl Fn(&Team) -> Result<T, E> + Sync,
    follow: impl Fn(&Team) -> Result<(), E> + Sync,
) -> Result<T, E> {
    let results = threads::run(ranks, |transport| {
        let team = Team::new(transport);
        if team.is_leader() { lead(&team).map(Some) } else { follow(&team).map(|()| None) }
    })?;
    Ok(results.into_iter().flatten().next().expect("the leader has a result"))
}
