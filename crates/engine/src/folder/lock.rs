//! The right to write to the folder of a run.
//!
//! Where the file system has locks, the operating system locks [`LOCK`] and ends the lock with the
//! process, however the process ends. Where it has none, the run creates [`CLAIM`] exclusively and
//! removes it at its end. A killed run leaves its claim. A run on the same computer then sees that
//! the process has ended. Everywhere else the user must say that no other run uses the folder.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use orrery_formats::{Fault, IoError, has_other_names, open_unlinked, read_small_text};

use super::folder_error;
use crate::error::EngineError;

/// Locked while a run writes to the folder. It is never removed: after a removal, two runs could
/// lock two different files.
pub(super) const LOCK: &str = ".lock";
/// Exists while a run writes to the folder, on file systems without locks.
pub(super) const CLAIM: &str = ".running";
/// Largest content of `LOCK` that a run replaces: the id of a process.
const MAX_OWNER_BYTES: u64 = 32;
/// Largest content of `CLAIM`.
const MAX_CLAIM_BYTES: u64 = 1 << 10;
/// Owner of a claim that names none.
const ANOTHER_PROCESS: &str = "another process";
/// Attempts to get a lock that this process itself seems to have, and the pause between two of
/// them.
const OWN_LOCK_ATTEMPTS: u32 = 10;
const OWN_LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Exclusive right to write to a folder, until dropped.
pub(crate) enum Lock {
    /// The operating system has locked this file.
    System { _file: File },
    /// The file system has no locks, and this process has created a claim.
    Claim { _claim: Claim },
}

impl Lock {
    /// Returns true if the operating system enforces the lock.
    pub fn is_enforced(&self) -> bool {
        matches!(self, Self::System { .. })
    }
}

/// A file that says which process writes to its folder. Removed on drop.
pub(crate) struct Claim {
    path: PathBuf,
    content: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // With --no-lock, another run may have replaced it.
        if read_claim(&self.path).is_ok_and(|found| found.as_ref() == Some(&self.content)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Locks `folder` for writing. If another process has the lock, the error contains its id.
///
/// `ignores_claims` applies to file systems without locks: the claim of another run is replaced.
pub(crate) fn lock_folder(folder: &Path, ignores_claims: bool) -> Result<Lock, EngineError> {
    let path = folder.join(LOCK);
    let failed = |e| folder_error(folder, IoError::from_system(&path, e));
    check_is_file(folder, LOCK)?;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = open_unlinked(&path, &options).map_err(failed)?;
    let mut attempts = 0;
    loop {
        match file.try_lock() {
            Ok(()) => {
                let _ = write_owner(&mut file);
                return Ok(Lock::System { _file: file });
            }
            Err(TryLockError::WouldBlock) => {
                let owner = read_owner(&mut file).ok().flatten();
                // A child process that has just been started has the open files of this process
                // until it runs its program, and with them a lock that was given up.
                if owner != Some(std::process::id()) || attempts == OWN_LOCK_ATTEMPTS {
                    return Err(EngineError::Locked { path: folder.to_owned(), owner });
                }
                attempts += 1;
                std::thread::sleep(OWN_LOCK_PAUSE);
            }
            // ENOLCK, ENOSYS or EOPNOTSUPP: the file system has no locks.
            Err(TryLockError::Error(_)) => {
                return claim_folder(folder, ignores_claims).map(|claim| Lock::Claim { _claim: claim });
            }
        }
    }
}

/// Returns an error if `name` exists in `folder` and is not a regular file.
fn check_is_file(folder: &Path, name: &str) -> Result<(), EngineError> {
    if fs::symlink_metadata(folder.join(name)).is_ok_and(|found| !found.is_file()) {
        let reason = format!("its {name} is not a file, expected a regular file or none");
        return Err(EngineError::OutputFolder { path: folder.to_owned(), reason });
    }
    Ok(())
}

/// Reads the process id in the file of a lock. Returns `None` if its content is something else.
fn read_owner(file: &mut File) -> io::Result<Option<u32>> {
    let mut content = String::new();
    file.rewind()?;
    file.take(MAX_OWNER_BYTES + 1).read_to_string(&mut content)?;
    Ok(content.trim().parse().ok().filter(|_| content.len() as u64 <= MAX_OWNER_BYTES))
}

/// Writes the id of this process to the file of a lock, for the error message of a second run. The
/// lock itself needs no content. Any other content stays, and that of a file with another name: a
/// hard link to a file of somebody else.
fn write_owner(file: &mut File) -> io::Result<()> {
    if has_other_names(file)? {
        return Ok(());
    }
    if file.metadata()?.len() == 0 || read_owner(file)?.is_some() {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
    }
    Ok(())
}

/// Creates the claim of this process in `folder`. Exclusive creation works without locks.
fn claim_folder(folder: &Path, ignores_claims: bool) -> Result<Claim, EngineError> {
    let path = folder.join(CLAIM);
    let content = format!("process {} on {}\n", std::process::id(), this_computer());
    check_is_file(folder, CLAIM)?;
    if let Some(found) = read_claim(&path).map_err(|e| folder_error(folder, e))? {
        if !ignores_claims && !has_ended(&found) {
            let owner = match found.split(" on ").next().unwrap_or_default().trim() {
                "" => ANOTHER_PROCESS,
                owner => owner,
            };
            return Err(EngineError::Claimed { path: folder.to_owned(), owner: owner.to_owned() });
        }
        set_aside(&path, &found).map_err(|e| folder_error(folder, IoError::from_system(&path, e)))?;
    }
    let written = File::options()
        .write(true)
        .create_new(true)
        .open(&path)
        .and_then(|mut file| file.write_all(content.as_bytes()).and_then(|()| file.sync_all()));
    match written {
        Ok(()) => Ok(Claim { path, content }),
        // Another run has created its claim in this moment.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            Err(EngineError::Claimed { path: folder.to_owned(), owner: ANOTHER_PROCESS.to_owned() })
        }
        Err(e) => Err(folder_error(folder, IoError::from_system(&path, e))),
    }
}

/// Reads a claim. Returns `None` if there is none, and no text if its content is not that of a
/// claim.
fn read_claim(path: &Path) -> Result<Option<String>, IoError> {
    match read_small_text(path, MAX_CLAIM_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(IoError { fault: Fault::System(e), .. }) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(IoError { fault: Fault::Malformed { .. } | Fault::TooLarge { .. }, .. }) => {
            Ok(Some(String::new()))
        }
        Err(error) => Err(error),
    }
}

/// Removes a claim of this content. Another process may do the same and create its own claim, so
/// the file is renamed first, and returned if it is not the one that was read.
fn set_aside(path: &Path, content: &str) -> io::Result<()> {
    let aside = path.with_file_name(format!("{CLAIM}.{}.part", std::process::id()));
    match fs::rename(path, &aside) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        outcome => outcome?,
    }
    match read_claim(&aside) {
        Ok(Some(found)) if found != content => fs::rename(&aside, path),
        _ => fs::remove_file(&aside),
    }
}

/// Returns true if the process of a claim ran on this computer and has ended.
fn has_ended(claim: &str) -> bool {
    let Some((process, computer)) = claim.trim_end().split_once(" on ") else { return false };
    let Some(id) = process.strip_prefix("process ").and_then(|id| id.parse::<u32>().ok()) else {
        return false;
    };
    let is_here = !computer.is_empty() && computer == this_computer();
    is_here && id != std::process::id() && !Path::new(&format!("/proc/{id}")).exists()
}

/// Returns a name of this computer since its start, with the container whose processes this one
/// sees. Empty where the system has no such name, so that no process there counts as ended.
fn this_computer() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let Ok(container) = fs::read_link("/proc/self/ns/pid") else { return String::new() };
    match boot.trim() {
        "" => String::new(),
        boot => format!("{boot} {}", container.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_ends_with_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CLAIM);
        let claim = claim_folder(folder.path(), false).unwrap();
        let error = claim_folder(folder.path(), false).map(drop).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        // A run that is told so takes the folder, and the end of the first one does not release it.
        let second = claim_folder(folder.path(), true).unwrap();
        fs::write(&path, "process 1 on other\n").unwrap();
        drop(claim);
        assert!(path.exists());
        drop(second);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        drop(claim_folder(folder.path(), false).unwrap());
        assert!(!path.exists());
    }

    /// A claim of other content still says that another process uses the folder.
    #[test]
    fn a_claim_of_other_content_counts() {
        for content in [&b""[..], b"\n", b"\xff\xfe", &[b'x'; 2000]] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(CLAIM);
            fs::write(&path, content).unwrap();
            let error = claim_folder(folder.path(), false).map(drop).unwrap_err();
            let expected = ": another process is writing to it or was killed";
            assert!(error.is_user_error() && error.to_string().contains(expected), "{error}");
            assert_eq!(fs::read(&path).unwrap(), content);
            drop(claim_folder(folder.path(), true).unwrap());
            assert!(!path.exists());
        }
    }

    /// The lock of a folder from somebody else may be a hard link to any file.
    #[test]
    #[cfg(unix)]
    fn a_hard_link_as_lock_keeps_its_content() {
        for content in ["4711\n", ""] {
            let folder = tempfile::tempdir().unwrap();
            let [file, lock] = ["file", LOCK].map(|name| folder.path().join(name));
            fs::write(&file, content).unwrap();
            fs::hard_link(&file, &lock).unwrap();
            drop(lock_folder(folder.path(), false).unwrap());
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
        }
        let folder = tempfile::tempdir().unwrap();
        drop(lock_folder(folder.path(), false).unwrap());
        let owner = fs::read_to_string(folder.path().join(LOCK)).unwrap();
        assert_eq!(owner, format!("{}\n", std::process::id()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_a_process_of_this_computer_can_have_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = child.id();
        child.wait().unwrap();
        let here = this_computer();
        assert!(has_ended(&format!("process {ended} on {here}\n")));
        assert!(!has_ended(&format!("process {ended} on elsewhere\n")));
        assert!(!has_ended(&format!("process 1 on {here}\n")));
        assert!(!has_ended("process 1 on \n") && !has_ended("") && !has_ended("process x on y"));
    }

    #[test]
    fn a_claim_that_another_run_has_replaced_is_returned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CLAIM);
        fs::write(&path, "new").unwrap();
        set_aside(&path, "old").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        set_aside(&path, "new").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
