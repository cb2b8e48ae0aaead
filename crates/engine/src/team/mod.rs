//! Runs on several ranks.
//!
//! Rank 0 executes the run loop, writes all files and reports. The other ranks, the followers, own
//! no files: they execute [`follow()`] and take part in the computation of the system. All results
//! have the same bits for any number of ranks, so the files of a run do not depend on it.
//!
//! A start of a system is a command of this module, followed by the messages of its physics. These
//! end when the leader drops its system. Then the followers wait for the next start.

mod follow;
mod planned_failure;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use orrery_cluster::{ClusterError, RankTimes, Tag, Team};
use orrery_device::Backend;
use orrery_fields::heat::HeatField;
use orrery_fields::wave::WaveField;
use serde::{Deserialize, Serialize};

pub use follow::{FollowerSettings, follow};

use crate::case::{Case, Physics};
use crate::compute_device::ComputeDevice;
use crate::control::RunEvent;
use crate::error::EngineError;
use crate::input_files::{InputHashes, find_difference};
use crate::system::{ReportFn, SystemError};
use planned_failure::fail_for_test;

/// Time between two checks for stop requests of followers. Each check asks MPI once per follower.
const STOP_INTERVAL: Duration = Duration::from_millis(20);
/// Last message of a follower to the leader.
const FAREWELL: Tag = Tag::new(1);

/// Message of the leader between two systems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Command {
    /// Take part in the computation of a system. The followers reply with the names of their
    /// devices.
    Start {
        /// Backend of the leader's device, `None` for the CPU.
        backend: Option<SentBackend>,
        system: SharedSystem,
    },
    /// There are no more systems.
    End,
}

/// System that followers compute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum SharedSystem {
    /// Bodies, which the leader sends.
    Bodies,
    /// Particles of a fluid, which the leader sends.
    Fluid,
    /// A field. Every rank builds its problem from the case, which has absolute paths.
    Field {
        /// The resolved case, in TOML.
        case: String,
    },
}

/// [`Backend`] in a message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum SentBackend {
    Cuda,
    OpenCl,
}

impl From<Backend> for SentBackend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Cuda => Self::Cuda,
            Backend::OpenCl => Self::OpenCl,
        }
    }
}

impl From<SentBackend> for Backend {
    fn from(backend: SentBackend) -> Self {
        match backend {
            SentBackend::Cuda => Self::Cuda,
            SentBackend::OpenCl => Self::OpenCl,
        }
    }
}

/// The ranks of a run, on rank 0. The default is this rank alone.
#[derive(Clone, Debug)]
pub struct Ranks {
    team: Team,
    /// Number of ranks of this process that compute on the device of rank 0.
    ranks_on_device: u64,
    /// Time of the last check for stop requests.
    last_check: Arc<Mutex<Option<Instant>>>,
    /// Names of the devices of all ranks, once a system has been started.
    devices: Arc<Mutex<Vec<String>>>,
}

/// Sends the name of this rank's device, for example "cuda:0, NVIDIA H200", to the leader. Returns
/// the names of all ranks there.
fn gather_devices(team: &Team, selected: &ComputeDevice) -> Result<Vec<String>, ClusterError> {
    let names = team.transport().gather(0, selected.to_string().as_bytes())?.unwrap_or_default();
    Ok(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

impl Default for Ranks {
    fn default() -> Self {
        Self::lead(&Team::alone())
    }
}

impl Ranks {
    /// Leads the followers of `team`. They must be in [`follow()`], or call it next.
    pub fn lead(team: &Team) -> Self {
        let (last_check, devices) = (Arc::default(), Arc::default());
        Self { team: team.clone(), ranks_on_device: 1, last_check, devices }
    }

    /// Sets the number of ranks that compute on the device of rank 0, for the check of its memory.
    pub fn with_ranks_on_device(self, ranks_on_device: u64) -> Self {
        Self { ranks_on_device, ..self }
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.team.size()
    }

    /// Returns the number of ranks that compute on the device of rank 0.
    pub(crate) fn ranks_on_device(&self) -> u64 {
        self.ranks_on_device
    }

    /// Returns the number of this rank on its computer, which selects a device.
    pub(crate) fn local_rank(&self) -> usize {
        self.team.transport().local_rank()
    }

    pub(crate) fn team(&self) -> &Team {
        &self.team
    }

    /// Returns an error if these ranks cannot compute `case` together.
    pub(crate) fn check_case(&self, case: &Case) -> Result<(), EngineError> {
        let ranks = self.size();
        if ranks == 1 {
            return Ok(());
        }
        let origin = "[grid]".to_owned();
        match &case.physics {
            Physics::Gravity(_) | Physics::LennardJones(_) => Ok(()),
            Physics::Heat(heat) => match HeatField::largest_slab(&heat.grid, ranks) {
                Ok(_) => Ok(()),
                Err(source) => Err(EngineError::Heat { origin, source: Box::new(source) }),
            },
            Physics::Wave(wave) => match WaveField::largest_slab(&wave.grid, &wave.sides, ranks) {
                Ok(_) => Ok(()),
                Err(source) => Err(EngineError::Wave { origin, source: Box::new(source) }),
            },
        }
    }

    /// Starts the bodies of a run on all ranks. The caller creates them next. Returns the team,
    /// `None` for a single rank.
    pub(crate) fn start_bodies(&self, selected: &ComputeDevice) -> Result<Option<&Team>, ClusterError> {
        self.start(|| SharedSystem::Bodies, selected)?;
        Ok(Some(&self.team).filter(|team| team.size() > 1))
    }

    /// Starts the fluid of a run on all ranks. The caller creates it next.
    pub(crate) fn start_fluid(&self, selected: &ComputeDevice) -> Result<&Team, ClusterError> {
        self.start(|| SharedSystem::Fluid, selected)?;
        Ok(&self.team)
    }

    /// Starts the field of a case on all ranks. The caller creates it next. `inputs` are the files
    /// that this rank has read. The others must have read the same ones.
    pub(crate) fn start_field(
        &self,
        case: &Case,
        selected: &ComputeDevice,
        inputs: &InputHashes,
    ) -> Result<&Team, SystemError> {
        self.start(|| SharedSystem::Field { case: case.with_absolute_paths().to_toml() }, selected)?;
        if self.size() > 1
            && let Some(difference) = find_difference(&self.team, inputs)?
        {
            return Err(difference.into());
        }
        Ok(&self.team)
    }

    fn start(
        &self,
        system: impl FnOnce() -> SharedSystem,
        selected: &ComputeDevice,
    ) -> Result<(), ClusterError> {
        if self.size() == 1 {
            return Ok(());
        }
        let backend = selected.device.as_ref().map(|device| device.properties().backend.into());
        self.team.lead(&Command::Start { backend, system: system() })?;
        let devices = gather_devices(&self.team, selected)?;
        *self.devices.lock().unwrap_or_else(PoisonError::into_inner) = devices;
        fail_for_test(&self.team)
    }

    /// Reports the devices of all ranks, if there are several.
    pub(crate) fn report_devices(&self, report: &mut ReportFn<'_>) {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if !devices.is_empty() {
            let transport = self.team.transport().description();
            report(RunEvent::Ranks { transport: &transport, devices: &devices });
        }
    }

    /// Returns whether a follower was asked to stop, for example by a signal.
    pub(crate) fn is_stop_requested(&self) -> bool {
        // Threads of one process share its signals.
        if !self.team.transport().is_mpi() || self.size() == 1 {
            return false;
        }
        let mut last_check = self.last_check.lock().unwrap_or_else(PoisonError::into_inner);
        if last_check.is_some_and(|last_check| last_check.elapsed() < STOP_INTERVAL) {
            return false;
        }
        *last_check = Some(Instant::now());
        // If MPI fails, the next operation of the system reports it.
        self.team.is_stop_requested().unwrap_or(false)
    }

    /// Starts the times of all ranks. Followers that fail from now on write their error to `log`.
    pub(crate) fn start_times(&self, log: &Path) -> Result<(), EngineError> {
        let log = std::path::absolute(log).unwrap_or_else(|_| log.to_owned());
        self.team.set_failure_log(&log)?;
        Ok(self.team.start_times()?)
    }

    /// Returns the times of all ranks during steps, or nothing if there is only one. `own` are
    /// those of rank 0.
    pub(crate) fn times(&self, own: RankTimes) -> Result<Vec<RankTimes>, EngineError> {
        if self.size() == 1 {
            return Ok(Vec::new());
        }
        let mut times = self.team.times()?;
        if let Some(first) = times.first_mut() {
            *first = own;
        }
        Ok(times)
    }

    /// Ends the use of the followers if `error` may have left the ranks at different operations.
    pub(crate) fn give_up_after(&self, error: &EngineError) {
        // `DeviceUnsupported` is the error of a device that stalls during the run.
        if matches!(
            error,
            EngineError::Device(_) | EngineError::DeviceUnsupported { .. } | EngineError::Ranks { .. }
        ) {
            self.team.give_up(&error.to_string());
        }
    }

    /// Lets the followers return from [`follow()`]. Waits for them, at most for `limit` if there is
    /// one. Returns whether all of them replied. If not, they wait for the leader within an
    /// operation that it left with an error, or they failed. The caller must then end the group,
    /// for example with [`Transport::abort`](orrery_cluster::Transport::abort).
    pub fn dismiss(&self, limit: Option<Duration>) -> bool {
        if self.size() == 1 {
            return true;
        }
        let end = limit.map(|limit| Instant::now() + limit);
        let transport = self.team.transport();
        let wait_for = |rank: usize| {
            let has_replied = match end {
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    transport.wait_for_message(rank, FAREWELL, left)?
                }
                None => true,
            };
            if has_replied {
                transport.receive(rank, FAREWELL)?;
            }
            Ok::<_, ClusterError>(has_replied)
        };
        let have_replied =
            self.team.lead(&Command::End).is_ok() && (1..self.size()).all(|rank| wait_for(rank) == Ok(true));
        // Stop requests that came too late precede the replies. MPICH fails at its end if a message
        // was not received.
        have_replied && self.team.is_stop_requested().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use orrery_cluster::threads;

    use super::*;
    use crate::system::Stamp;

    #[test]
    fn followers_that_wait_for_a_start_are_dismissed() {
        let replied = threads::run(3, |transport| {
            let team = Team::new(transport);
            if !team.is_leader() {
                return follow(&team, &FollowerSettings::default()).map(|()| true);
            }
            Ok::<_, EngineError>(Ranks::lead(&team).dismiss(Some(Duration::from_secs(20))))
        });
        assert_eq!(replied.unwrap(), [true; 3]);
    }

    /// The followers wait for another message of the leader, so they do not reply.
    #[test]
    fn followers_within_an_operation_do_not_reply() {
        let result = threads::run(2, |transport| {
            let team = Team::new(transport);
            if !team.is_leader() {
                return Ok(transport.receive(0, Tag::new(2)).map(drop)?);
            }
            let ranks = Ranks::lead(&team);
            assert!(!ranks.dismiss(Some(Duration::from_millis(10))));
            ranks.give_up_after(&EngineError::Ranks { message: "device lost".to_owned() });
            assert!(!ranks.dismiss(None));
            transport.exchange(|exchange| exchange.send::<u8>(1, Tag::new(2), &[]))?;
            Ok::<_, EngineError>(())
        });
        assert!(result.is_ok());
    }

    /// A device that stalls on rank 0 leaves the followers within an operation. A non-finite value
    /// does not: all ranks have completed the step.
    #[test]
    fn followers_are_given_up_after_errors_of_devices() {
        let now = Stamp { step: 1, time: 0.5 };
        let stalled = SystemError::Stalled { device: "cuda:0".to_owned() }.at(now);
        let lost = SystemError::Ranks { message: "device lost".to_owned() }.at(now);
        let not_finite = SystemError::NotFinite { at: None, found: "x = NaN".to_owned() }.at(now);
        for (error, is_given_up) in [(stalled, true), (lost, true), (not_finite, false)] {
            let result = threads::run(2, |transport| {
                let team = Team::new(transport);
                if !team.is_leader() {
                    // A leader that gave up sends no command.
                    return if is_given_up { Ok(()) } else { follow(&team, &FollowerSettings::default()) };
                }
                Ranks::lead(&team).give_up_after(&error);
                assert_eq!(team.lead(&Command::End).is_err(), is_given_up, "{error}");
                Ok::<_, EngineError>(())
            });
            assert!(result.is_ok(), "{error}");
        }
    }

    #[test]
    fn commands_are_read_as_they_were_written() {
        let field = SharedSystem::Field { case: "name = \"a\"\n".to_owned() };
        for command in [
            Command::Start { backend: Some(SentBackend::OpenCl), system: SharedSystem::Bodies },
            Command::Start { backend: None, system: field },
            Command::End,
        ] {
            let text = serde_json::to_string(&command).unwrap();
            assert_eq!(serde_json::from_str::<Command>(&text).unwrap(), command);
        }
    }
}
