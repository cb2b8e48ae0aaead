//! A leader and its followers.
//!
//! Rank 0, the leader, runs the program: it alone reads the case, writes files and reports. Before
//! an operation that needs all ranks it broadcasts a command. The others, the followers, wait for
//! commands and take part in the operations that these name. So a program for one rank becomes one
//! for several if its state objects send commands.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::ClusterError;
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
}

/// Rank that leads.
const LEADER: usize = 0;

impl Team {
    /// Returns the team of all ranks of a transport.
    pub fn new(transport: &Transport) -> Self {
        Self { transport: transport.clone() }
    }

    /// Returns a team without followers.
    pub fn alone() -> Self {
        Self::new(&Transport::alone())
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
        let text = serde_json::to_vec(command).map_err(bad_command)?;
        self.transport.broadcast(LEADER, text).map(|_| ())
    }

    /// Waits for the next command of the leader and returns it.
    ///
    /// # Panics
    /// If this rank is the leader.
    pub fn next_command<C: DeserializeOwned>(&self) -> Result<C, ClusterError> {
        assert!(!self.is_leader(), "only followers receive commands");
        let text = self.transport.broadcast::<u8>(LEADER, Vec::new())?;
        serde_json::from_slice(&text).map_err(bad_command)
    }
}

fn bad_command(error: serde_json::Error) -> ClusterError {
    ClusterError::Command { message: error.to_string() }
}

#[cfg(test)]
mod tests {
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
        assert!(message.starts_with("a command of the leader cannot be used: invalid type"), "{message}");
    }

    #[test]
    fn a_leader_without_followers_sends_nothing() {
        let team = Team::alone();
        assert_eq!(team.lead(&1), Ok(()));
        assert_eq!(team.transport().traffic().messages_sent, 0);
    }
}
