//! The computer and the cores of a process.

use std::fs;
use std::process::Command;

/// Computer of a process and the cores on which it may run.
#[derive(Debug, PartialEq)]
pub(crate) struct RankLocation {
    /// Equal on the same computer.
    pub(crate) computer: String,
    /// Numbers of the cores, for example "0-3,8". Launchers often bind each rank to other cores.
    cores: String,
}

impl RankLocation {
    /// Returns the location of this process.
    pub(crate) fn of_process() -> Self {
        // The number of the start of the kernel. Containers on one computer share it.
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let name = || {
            let output = Command::new("hostname").output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let computer = boot.or_else(name).unwrap_or_default().trim().to_owned();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Self { computer, cores: cores.unwrap_or_default().trim().to_owned() }
    }

    /// Returns the text of a message.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        format!("{}\n{}", self.computer, self.cores).into_bytes()
    }

    /// Reads the text of a message.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (computer, cores) = text.split_once('\n').unwrap_or((&text, ""));
        Self { computer: computer.to_owned(), cores: cores.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_pass_through_messages() {
        let location = RankLocation { computer: "a-b".to_owned(), cores: "0-3,8".to_owned() };
        assert_eq!(RankLocation::from_bytes(&location.to_bytes()), location);
        let here = RankLocation::of_process();
        assert_eq!(RankLocation::from_bytes(&here.to_bytes()), here);
        #[cfg(target_os = "linux")]
        assert!(!here.computer.is_empty() && !here.cores.is_empty());
    }
}
