//! Connections between a process and a CUDA device: hardware channels to which the driver assigns
//! the queues of the process, 8 by default.
//!
//! Without the Multi-Process Service a card computes for one process at a time. If processes that
//! exchange messages share a card, more channels mean more changes between processes, and the card
//! idles in between. A wave with 1024^3 nodes on four processes of one H200 has 0.76 of the speed
//! of one process with the default, and 0.85 with one connection each (`orrery bench scaling
//! --physics wave --device cuda`, four ranks). With the service it has 1.04 with the default.

use std::fs;
use std::path::{Path, PathBuf};

/// Variable of the CUDA driver, which it reads when it is initialised.
const CONNECTIONS: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
/// Variable with the folder of the Multi-Process Service, and its default.
const SERVICE_FOLDER: (&str, &str) = ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");

/// Sets the number of connections to one if `processes` processes on this computer must share its
/// CUDA devices, because there are fewer, and the Multi-Process Service does not run. Keeps the
/// number that the user has set. Must be called before other threads exist, and does nothing
/// afterwards.
pub fn limit_if_shared(processes: usize) {
    let is_set = std::env::var_os(CONNECTIONS).is_some();
    if is_set || !must_share(processes, card_count()) || has_service() || !is_single_thread() {
        return;
    }
    // SAFETY: this process has no other thread that could read the environment.
    unsafe { std::env::set_var(CONNECTIONS, "1") };
}

fn must_share(processes: usize, cards: usize) -> bool {
    cards > 0 && processes > cards
}

/// Returns whether the Multi-Process Service has its control channel on this computer.
fn has_service() -> bool {
    let (variable, default) = SERVICE_FOLDER;
    let folder = std::env::var_os(variable).map_or_else(|| PathBuf::from(default), PathBuf::from);
    has_control(&folder)
}

fn has_control(folder: &Path) -> bool {
    folder.join("control").exists()
}

/// Returns the number of NVIDIA cards of this computer, as far as this process sees their files.
/// The driver is not used, because it reads the variable when it is initialised.
fn card_count() -> usize {
    let names = fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| is_card(&name.to_string_lossy())).count()
}

/// Returns whether a device file is that of a card, for example `nvidia0`.
fn is_card(name: &str) -> bool {
    let number = name.strip_prefix("nvidia").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_single_thread() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_processes_than_cards_share() {
        assert!(must_share(2, 1) && must_share(5, 4));
        assert!(!must_share(1, 1) && !must_share(4, 8) && !must_share(4, 0));
    }

    #[test]
    fn files_of_cards_end_with_their_number() {
        assert!(is_card("nvidia0") && is_card("nvidia12"));
        assert!(!is_card("nvidiactl") && !is_card("nvidia-uvm") && !is_card("nvidia") && !is_card("card0"));
    }

    #[test]
    fn the_service_has_a_control_channel_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_control(folder.path()));
        fs::write(folder.path().join("control"), "").unwrap();
        assert!(has_control(folder.path()));
    }

    #[test]
    fn other_threads_are_noticed() {
        assert!(!std::thread::spawn(is_single_thread).join().unwrap());
    }
}
