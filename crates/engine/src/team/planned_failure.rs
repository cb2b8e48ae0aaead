//! Failures of a rank, for tests.

use std::sync::atomic::{AtomicU64, Ordering};

use orrery_cluster::{ClusterError, Team};

/// Variable that lets a rank fail. `panic:1` and `error:1` let rank 1 fail at the start of a
/// system, and `panic:1:20` lets it panic at the 20th command after that.
const FAILURE_VARIABLE: &str = "ORRERY_TEST_RANK_FAILURE";

/// Fails if the test variable names this rank, or makes it panic at a later command.
pub(super) fn fail_for_test(team: &Team) -> Result<(), ClusterError> {
    let Ok(value) = std::env::var(FAILURE_VARIABLE) else { return Ok(()) };
    let words: Vec<&str> = value.split(':').collect();
    let [kind, rank, commands @ ..] = &words[..] else { return Ok(()) };
    if *rank != team.transport().rank().to_string() {
        return Ok(());
    }
    match (*kind, commands) {
        ("panic", []) => panic!("planned panic"),
        ("error", []) => Err(ClusterError::Call { call: "test", message: "planned error".to_owned() }),
        ("panic", [command]) => {
            let (last, count) = (command.parse().unwrap_or(0), AtomicU64::new(0));
            team.set_command_hook(move || {
                let command = count.fetch_add(1, Ordering::Relaxed) + 1;
                assert!(command != last, "planned panic");
            });
            Ok(())
        }
        _ => Ok(()),
    }
}
