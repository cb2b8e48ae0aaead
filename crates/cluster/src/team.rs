//! A leader and its followers.
//!
//! Rank 0, the leader, runs the program: it alone reads the case, writes files and reports. Before
//! an operation that needs all ranks it broadcasts a command. The others, the followers, wait for
//! commands and take part in the operations that these name. So a program for one rank becomes one
//! for several if its state objects send commands.
//!
//! Two messages of the leader are no commands: they start and collect the times of the ranks
//! ([`Team::start_times`], [`Team::times`]). A follower that waits for a command also sends its
//! stop request to the leader ([`Team::with_stop`]).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::counters::Traffic;
use crate::error::ClusterError;
use crate::tag::Tag;
use crate::transport::Transport;

/// Rank 0 of a group and its followers. Clones are the same rank.
///
/// ```
/// use orrery_cluster::{ClusterError, Team, threads};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// enum Command {
///     /// Adds the numbers of all ranks, times a factor.
///     AddRanks { factor: f64 },
///     End,
/// }
///
/// fn add_ranks(team: &Team, factor: f64) -> Result<Option<f64>, ClusterError> {
///     let number = factor * team.transport().rank() as f64;
///     let sum = team.transport().reduce(0, &[number], |a, b| a + b)?;
///     Ok(sum.map(|sum| sum[0]))
/// }
///
/// let sums = threads::run(3, |transport| {
///     let team = Team::new(transport);
///     if team.is_leader() {
///         team.lead(&Command::AddRanks { factor: 0.1 })?;
///         let sum = add_ranks(&team, 0.1)?;
///         team.lead(&Command::End)?;
///         return Ok(sum);
///     }
///     loop {
///         match team.next_command()? {
///             Command::AddRanks { factor } => add_ranks(&team, factor)?,
///             Command::End => return Ok(None),
///         };
///     }
/// })?;
/// assert_eq!(sums, [Some(0.1 + 0.2), None, None]);
/// # Ok::<(), ClusterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Team {
    transport: Transport,
    shared: Arc<Shared>,
}

/// State that all clones of a team share.
#[derive(Debug, Default)]
struct Shared {
    /// Set when this follower is asked to stop.
    stop: Option<Arc<AtomicBool>>,
    is_stop_sent: AtomicBool,
    /// Times of the steps of this rank.
    step_times: Mutex<RankTimes>,
    /// Error of the leader after which the ranks are not at the same operation.
    failure: OnceLock<String>,
    /// Called at each command.
    command_hook: OnceLock<CommandHook>,
    /// File in which a follower that fails writes its error.
    failure_log: Mutex<Option<PathBuf>>,
}

/// Function that is called at each command.
struct CommandHook(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for CommandHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CommandHook")
    }
}

/// Time of one rank in [`Team::time_steps`] since [`Team::start_times`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankTimes {
    /// Time without communication and waiting.
    pub computation: Duration,
    /// Time in which messages were started and copied.
    pub communication: Duration,
    /// Time in which the rank waited for messages.
    pub waiting: Duration,
    /// Number of sent messages.
    pub messages_sent: u64,
    /// Bytes of sent messages.
    pub bytes_sent: u64,
}

/// Rank that leads.
const LEADER: usize = 0;
/// Message that starts the times. No command starts with a zero byte, because it is JSON.
const START_TIMES: &[u8] = b"\0start times";
/// Start of a message with the path of the file in which followers write their errors.
const FAILURE_LOG: &[u8] = b"\0failure log ";
/// Message that collects the times.
const TIMES: &[u8] = b"\0times";
/// Time between two checks for a stop request while a follower waits.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

impl Default for Team {
    fn default() -> Self {
        Self::alone()
    }
}

impl Team {
    /// Returns the team of all ranks of a transport.
    pub fn new(transport: &Transport) -> Self {
        Self { transport: transport.clone(), shared: Arc::default() }
    }

    /// Returns a team without followers.
    pub fn alone() -> Self {
        Self::new(&Transport::alone())
    }

    /// Returns the team of a follower that tells the leader when `stop` is set, for example by a
    /// signal. It does so while it waits for the next command.
    pub fn with_stop(transport: &Transport, stop: Arc<AtomicBool>) -> Self {
        let shared = Arc::new(Shared { stop: Some(stop), ..Shared::default() });
        Self { transport: transport.clone(), shared }
    }

    /// Returns the connection to the other ranks.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Returns the number of ranks, with the leader.
    pub fn size(&self) -> usize {
        self.transport.size()
    }

    /// Returns whether this rank leads.
    pub fn is_leader(&self) -> bool {
        self.transport.rank() == LEADER
    }

    /// Calls `hook` before the leader sends a command, or after a follower has received one. Tests
    /// let a rank fail there. Only the first hook of a team is used.
    pub fn set_command_hook(&self, hook: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.command_hook.set(CommandHook(Box::new(hook)));
    }

    fn call_command_hook(&self) {
        if let Some(CommandHook(hook)) = self.shared.command_hook.get() {
            hook();
        }
    }

    /// Sends a command to all followers. They get it from [`Team::next_command`]. Numbers keep
    /// their bits, but JSON has no NaN and no infinity.
    ///
    /// # Panics
    /// If this rank is a follower.
    pub fn lead(&self, command: &impl Serialize) -> Result<(), ClusterError> {
        assert!(self.is_leader(), "only the leader sends commands");
        if self.size() == 1 {
            return Ok(());
        }
        self.call_command_hook();
        self.send_to_followers(serde_json::to_vec(command).map_err(bad_command)?)
    }

    fn send_to_followers(&self, message: Vec<u8>) -> Result<(), ClusterError> {
        if let Some(failure) = self.shared.failure.get() {
            return Err(ClusterError::Aborted { rank: LEADER, message: failure.clone() });
        }
        self.transport.broadcast(LEADER, message).map(|_| ())
    }

    /// Ends the use of the followers, because the leader failed within an operation of all ranks:
    /// later commands would wait for followers that wait for the leader. [`Team::lead`] returns an
    /// error from now on.
    pub fn give_up(&self, failure: &str) {
        let _ = self.shared.failure.set(failure.to_owned());
    }

    /// Waits for the next command of the leader and returns it.
    ///
    /// # Panics
    /// If this rank is the leader.
    pub fn next_command<C: DeserializeOwned>(&self) -> Result<C, ClusterError> {
        assert!(!self.is_leader(), "only followers receive commands");
        loop {
            let text = self.next_message()?;
            match text.as_slice() {
                START_TIMES => *self.step_times() = RankTimes::default(),
                TIMES => drop(self.gather_times()?),
                _ if text.starts_with(FAILURE_LOG) => {
                    let path = String::from_utf8_lossy(&text[FAILURE_LOG.len()..]).into_owned();
                    *self.shared.failure_log.lock().unwrap_or_else(PoisonError::into_inner) =
                        Some(PathBuf::from(path));
                }
                _ => {
                    self.call_command_hook();
                    return serde_json::from_slice(&text).map_err(bad_command);
                }
            }
        }
    }

    fn next_message(&self) -> Result<Vec<u8>, ClusterError> {
        if let Some(stop) = &self.shared.stop {
            self.send_stop_if(stop)?;
            while !self.transport.wait_for_broadcast(LEADER, STOP_INTERVAL)? {
                self.send_stop_if(stop)?;
            }
        }
        self.transport.broadcast::<u8>(LEADER, Vec::new())
    }

    fn send_stop_if(&self, stop: &AtomicBool) -> Result<(), ClusterError> {
        if !stop.load(Ordering::Relaxed) || self.shared.is_stop_sent.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let message = [0u8; 0];
        self.transport.exchange(|exchange| exchange.send(LEADER, Tag::STOP, &message))
    }

    /// Returns whether a follower was asked to stop since the last call. Does not wait.
    ///
    /// # Panics
    /// If this rank is a follower.
    pub fn is_stop_requested(&self) -> Result<bool, ClusterError> {
        assert!(self.is_leader(), "followers send their stop requests to the leader");
        let mut is_requested = false;
        for rank in 1..self.size() {
            if self.transport.wait_for_message(rank, Tag::STOP, Duration::ZERO)? {
                self.transport.receive(rank, Tag::STOP)?;
                is_requested = true;
            }
        }
        Ok(is_requested)
    }

    /// Tells the followers to write their errors to a file, because they end all ranks and rank 0
    /// cannot write them. The path should be absolute.
    ///
    /// # Panics
    /// If this rank is a follower.
    pub fn set_failure_log(&self, path: &Path) -> Result<(), ClusterError> {
        assert!(self.is_leader(), "only the leader selects the log");
        if self.size() == 1 {
            return Ok(());
        }
        self.send_to_followers([FAILURE_LOG, path.to_string_lossy().as_bytes()].concat())
    }

    /// Returns the file of [`Team::set_failure_log`] on a follower. None before the leader has sent
    /// it.
    pub fn failure_log(&self) -> Option<PathBuf> {
        self.shared.failure_log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls `steps`, which takes time steps or a part of one, and adds its time to those of this
    /// rank. Output and waits for commands are not included, because ranks do not compute then.
    pub fn time_steps<T>(&self, steps: impl FnOnce() -> T) -> T {
        let (start, traffic) = (Instant::now(), self.transport.traffic());
        let result = steps();
        let times = RankTimes::new(start.elapsed(), &self.transport.traffic().since(&traffic));
        self.step_times().add(&times);
        result
    }

    fn step_times(&self) -> MutexGuard<'_, RankTimes> {
        self.shared.step_times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the times of all ranks, on the leader.
    pub fn start_times(&self) -> Result<(), ClusterError> {
        *self.step_times() = RankTimes::default();
        if self.size() == 1 { Ok(()) } else { self.send_to_followers(START_TIMES.to_vec()) }
    }

    /// Returns the times of all ranks since [`Team::start_times`], on the leader.
    pub fn times(&self) -> Result<Vec<RankTimes>, ClusterError> {
        if self.size() > 1 {
            self.send_to_followers(TIMES.to_vec())?;
        }
        Ok(self.gather_times()?.unwrap_or_default())
    }

    fn gather_times(&self) -> Result<Option<Vec<RankTimes>>, ClusterError> {
        let own = *self.step_times();
        let all = self.transport.gather(LEADER, &own.to_numbers())?;
        Ok(all.map(|all| all.iter().map(|numbers| RankTimes::from_numbers(numbers)).collect()))
    }
}

impl RankTimes {
    /// Returns the times of a rank that did nothing else but compute and communicate for `elapsed`.
    pub fn new(elapsed: Duration, traffic: &Traffic) -> Self {
        let Traffic { communication, waiting, messages_sent, bytes_sent, .. } = *traffic;
        let computation = elapsed.saturating_sub(communication).saturating_sub(waiting);
        Self { computation, communication, waiting, messages_sent, bytes_sent }
    }

    /// Adds the times and messages of further steps.
    pub fn add(&mut self, other: &Self) {
        self.computation += other.computation;
        self.communication += other.communication;
        self.waiting += other.waiting;
        self.messages_sent += other.messages_sent;
        self.bytes_sent += other.bytes_sent;
    }

    fn to_numbers(self) -> [u64; 5] {
        let nanos = |time: Duration| time.as_nanos() as u64;
        let Self { computation, communication, waiting, messages_sent, bytes_sent } = self;
        [nanos(computation), nanos(communication), nanos(waiting), messages_sent, bytes_sent]
    }

    fn from_numbers(numbers: &[u64]) -> Self {
        let number = |index: usize| numbers.get(index).copied().unwrap_or_default();
        let time = |index: usize| Duration::from_nanos(number(index));
        let [computation, communication, waiting] = [0, 1, 2].map(time);
        Self { computation, communication, waiting, messages_sent: number(3), bytes_sent: number(4) }
    }
}

fn bad_command(error: serde_json::Error) -> ClusterError {
    ClusterError::Command { message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::threads;

    #[test]
    fn followers_get_the_commands_in_order() {
        let sent = [f64::MIN_POSITIVE, 0.1 + 0.2, -0.0];
        let received = threads::run(4, |transport| {
            let team = Team::new(transport);
            assert_eq!((team.size(), team.is_leader()), (4, transport.rank() == 0));
            sent.iter()
                .map(|number| match team.is_leader() {
                    true => team.lead(number).map(|()| *number),
                    false => team.next_command(),
                })
                .collect::<Result<Vec<f64>, ClusterError>>()
        });
        let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        assert!(received.unwrap().iter().all(|received| bits(received) == bits(&sent)));
    }

    #[test]
    fn a_command_of_another_kind_is_refused() {
        let result = threads::run(2, |transport| {
            let team = Team::new(transport);
            if team.is_leader() { team.lead(&"stop") } else { team.next_command::<u8>().map(|_| ()) }
        });
        let message = result.unwrap_err().to_string();
        assert!(message.starts_with("a message of rank 0 cannot be read (invalid type"), "{message}");
    }

    #[test]
    fn a_leader_without_followers_sends_nothing() {
        let team = Team::alone();
        assert_eq!(team.lead(&1), Ok(()));
        assert_eq!(team.is_stop_requested(), Ok(false));
        team.start_times().unwrap();
        assert_eq!(team.times().unwrap().len(), 1);
        assert_eq!(team.transport().traffic().messages_sent, 0);
    }

    /// In a step, each rank sleeps, which counts as computation, and waits for the others. Pauses
    /// before the start of the times and between steps do not count, so computation and waiting
    /// together are at most the time of the step.
    #[test]
    fn times_are_those_of_the_steps_since_the_start() {
        let long = Duration::from_millis(100);
        let pause = |rank: usize| Duration::from_millis(20 * (2 - rank as u64));
        let results = threads::run(3, |transport| {
            let team = Team::new(transport);
            let take_step = || {
                let start = Instant::now();
                team.time_steps(|| {
                    std::thread::sleep(pause(transport.rank()));
                    transport.barrier()
                })?;
                Ok(start.elapsed())
            };
            team.time_steps(|| std::thread::sleep(long));
            if team.is_leader() {
                team.start_times()?;
                team.lead(&7)?;
                let step = take_step()?;
                std::thread::sleep(long);
                let times = team.times()?;
                team.lead(&8)?;
                return Ok::<_, ClusterError>((step, times));
            }
            assert_eq!(team.next_command::<u8>()?, 7);
            let step = take_step()?;
            assert_eq!(team.next_command::<u8>()?, 8);
            Ok((step, Vec::new()))
        });
        let results = results.unwrap();
        let times = &results[0].1;
        assert_eq!(times.len(), 3);
        for (rank, (time, (step, _))) in times.iter().zip(&results).enumerate() {
            assert!(time.computation >= pause(rank), "rank {rank}: {time:?}");
            assert!(time.computation + time.waiting <= *step, "rank {rank}: {time:?} in {step:?}");
            assert!(time.messages_sent > 0, "rank {rank}: {time:?}");
        }
    }

    #[test]
    fn a_stop_request_of_a_follower_reaches_the_leader_once() {
        let stops = threads::run(3, |transport| {
            if transport.rank() > 0 {
                let stop = Arc::new(AtomicBool::new(transport.rank() == 2));
                let team = Team::with_stop(transport, stop);
                return Ok(vec![team.next_command::<u8>()? == 1, team.next_command::<u8>()? == 2]);
            }
            let team = Team::new(transport);
            let start = Instant::now();
            while !team.is_stop_requested()? {
                assert!(start.elapsed() < Duration::from_secs(20), "no stop request");
                std::thread::sleep(Duration::from_millis(1));
            }
            team.lead(&1)?;
            team.lead(&2)?;
            Ok::<_, ClusterError>(vec![!team.is_stop_requested()?])
        });
        assert!(stops.unwrap().into_iter().flatten().all(|as_expected| as_expected));
    }

    #[test]
    fn the_hook_is_called_at_each_command() {
        let counts = threads::run(2, |transport| {
            let (team, count) = (Team::new(transport), Arc::new(AtomicUsize::new(0)));
            let counted = count.clone();
            team.set_command_hook(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            for _ in 0..3 {
                match team.is_leader() {
                    true => team.lead(&7)?,
                    false => assert_eq!(team.next_command::<u8>()?, 7),
                }
            }
            Ok::<_, ClusterError>(count.load(Ordering::Relaxed))
        });
        assert_eq!(counts.unwrap(), [3, 3]);
    }

    #[test]
    fn followers_know_the_log_for_their_errors() {
        let found = threads::run(2, |transport| {
            let team = Team::new(transport);
            if team.is_leader() {
                team.set_failure_log(Path::new("/out/run.log"))?;
                team.lead(&7)?;
            } else {
                assert_eq!((team.failure_log(), team.next_command::<u8>()?), (None, 7));
            }
            Ok::<_, ClusterError>(team.failure_log())
        });
        assert_eq!(found.unwrap(), [None, Some(PathBuf::from("/out/run.log"))]);
    }

    #[test]
    fn a_leader_that_gave_up_sends_nothing() {
        let result = threads::run(2, |transport| {
            let team = Team::new(transport);
            if !team.is_leader() {
                // The first command is the last one.
                return team.next_command::<u8>().map(|command| assert_eq!(command, 1));
            }
            team.lead(&1)?;
            team.give_up("device lost");
            let error = ClusterError::Aborted { rank: 0, message: "device lost".to_owned() };
            assert_eq!(team.clone().lead(&2), Err(error.clone()));
            assert_eq!(team.times(), Err(error));
            Ok(())
        });
        assert_eq!(result.map(|done| done.len()), Ok(2));
    }
}
