//! `run.log` in the folder of a run: all messages of `run` and `resume`, with UTC time stamps.
//!
//! Every line goes to the file at once. The log never ends a run: lines that cannot be written, for
//! example because the disk is full, stay in memory and are written together with a later line.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use orrery_engine::provenance;
use orrery_engine::run::LOG_FILE;
use orrery_formats::{has_other_names, open_unlinked};
use orrery_model::format_count;

use crate::clean::clean_line;
use crate::commands::{quoted_word, shell_quoted};

/// The log of this process. `None` for commands without a log.
static LOG: Mutex<Option<RunLog>> = Mutex::new(None);

/// Largest number of bytes that wait for a file. Later lines are counted and dropped.
const MAX_PENDING: usize = 1 << 20;

/// Starts the log of this process with a line about the program and its arguments. The lines stay
/// in memory until [`open`] is called.
pub fn start() {
    let command = command_line();
    let folder = std::env::current_dir().map_or_else(|_| "?".to_owned(), |folder| shell_quoted(&folder));
    let mut log = RunLog::default();
    let (version, commit) = (provenance::VERSION, provenance::COMMIT);
    log.add(&format!("orrery {version}, commit {commit}, in {folder}: {command}"));
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
}

/// Starts the log of the next run of this process. Returns a warning if lines are missing in that
/// of the run before.
pub fn restart() -> Option<String> {
    let warning = warning();
    start();
    warning
}

/// Returns the program and its arguments, quoted for a shell.
pub fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted_word(&word.to_string_lossy()));
    std::iter::once("orrery".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Adds text to the log of another process, in which this one takes part.
pub fn append(path: &Path, text: &str) {
    let mut log = RunLog::default();
    log.open(path.to_owned());
    log.add(text);
}

/// Writes the log to the folder of the run from now on, and the lines so far.
pub fn open(folder: &Path) {
    with_log(|log| log.open(folder.join(LOG_FILE)));
}

/// Adds text to the log, if there is one. Each line of the text gets a time stamp.
pub fn write(text: &str) {
    with_log(|log| log.add(text));
}

/// Returns a warning if lines are missing in the file.
pub fn warning() -> Option<String> {
    let mut warning = None;
    with_log(|log| warning = log.warning());
    warning
}

fn with_log(action: impl FnOnce(&mut RunLog)) {
    if let Some(log) = LOG.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        action(log);
    }
}

/// Lines on their way to a file.
#[derive(Default)]
struct RunLog {
    /// Path of the file. `None` until the folder of the run exists.
    path: Option<PathBuf>,
    /// The file. `None` until it could be opened.
    file: Option<File>,
    /// Lines that are not in the file yet. The first one may be there in part.
    pending: Vec<u8>,
    /// Number of lines that were dropped because too many are pending.
    dropped: u64,
    /// Last error.
    error: Option<std::io::Error>,
}

impl RunLog {
    fn open(&mut self, path: PathBuf) {
        self.path = Some(path);
        self.write_pending();
    }

    fn add(&mut self, text: &str) {
        let stamp = utc_text(SystemTime::now());
        for line in text.lines().filter(|line| !line.is_empty()) {
            if self.pending.len() > MAX_PENDING {
                self.dropped += 1;
                continue;
            }
            if self.dropped > 0 {
                let lines = format_count(self.dropped, "line is", "lines are");
                self.pending.extend(format!("{stamp} {lines} missing here\n").into_bytes());
                self.dropped = 0;
            }
            self.pending.extend(format!("{stamp} {}\n", clean_line(line)).into_bytes());
        }
        self.write_pending();
    }

    /// Writes as many pending lines as possible, and keeps the rest.
    fn write_pending(&mut self) {
        let Some(path) = &self.path else { return };
        if self.file.is_none() {
            match open_file(path) {
                Ok((file, is_whole)) => {
                    // The last line of a killed process may lack its end.
                    if !is_whole {
                        self.pending.insert(0, b'\n');
                    }
                    self.file = Some(file);
                }
                Err(error) => self.error = Some(error),
            }
        }
        let Some(file) = &mut self.file else { return };
        while !self.pending.is_empty() {
            match file.write(&self.pending) {
                Ok(0) => self.error = Some(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.pending.drain(..written);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => self.error = Some(error),
            }
            return;
        }
    }

    fn warning(&mut self) -> Option<String> {
        self.write_pending();
        let (path, error) = (self.path.as_ref()?, self.error.as_ref()?);
        let pending = self.pending.iter().filter(|byte| **byte == b'\n').count() as u64;
        let lines = format_count(pending + self.dropped, "line", "lines");
        let is_complete = self.pending.is_empty() && self.dropped == 0;
        (!is_complete).then(|| format!("warning: {}: {lines} could not be written: {error}", path.display()))
    }
}

/// Opens a file to append to it. Returns it with true if it is empty or ends with a line end.
fn open_file(path: &Path) -> std::io::Result<(File, bool)> {
    let mut file = open_unlinked(path, File::options().read(true).append(true).create(true))?;
    if has_other_names(&file)? {
        return Err(std::io::Error::other("a file with other names (hard links), expected one name"));
    }
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok((file, last == [b'\n']))
}

/// Formats a time as in `2026-11-17T04:06:51Z`.
fn utc_text(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to date in the Gregorian calendar: https://howardhinnant.github.io/date_algorithms.html,
    // `civil_from_days`. Years start in March, so that the leap day is the last day of a year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Dates from `date -u -d @SECONDS`.
    #[test]
    fn times_are_formatted_in_utc() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_794_888_411, "2026-11-17T04:06:51Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc_text(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }

    /// Returns the lines of a log without their time stamps.
    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
        text.lines().map(|line| line.split_once("Z ").map_or(line, |(_, line)| line).to_owned()).collect()
    }

    #[test]
    fn lines_wait_for_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.log");
        let mut log = RunLog::default();
        log.add("first\n\nsecond");
        assert!(log.warning().is_none());
        log.open(path.clone());
        log.add("third");
        assert_eq!(lines(&path), ["first", "second", "third"]);
        // The next process appends, also after a line without its end.
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"half a li").unwrap();
        let mut log = RunLog::default();
        log.open(path.clone());
        log.add("fourth");
        assert_eq!(lines(&path), ["first", "second", "third", "half a li", "fourth"]);
        assert!(log.warning().is_none());
    }

    #[test]
    fn control_characters_are_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.log");
        append(&path, "name \u{1b}[2Jx\ry\u{202e}z");
        assert_eq!(lines(&path), [r"name \u001b[2Jx\ry\u202ez"]);
    }

    /// The folder of a run may be from somebody else, and a line may contain `$(...)`.
    #[cfg(unix)]
    #[test]
    fn other_files_are_not_changed_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let [other, absent] = ["other", "absent"].map(|name| folder.path().join(name));
        std::fs::write(&other, "mine\n").unwrap();
        let hard_link = "a file with other names (hard links), expected one name";
        for (target, reason) in
            [(&other, "a symbolic link"), (&absent, "a symbolic link"), (&other, hard_link)]
        {
            let path = folder.path().join("run.log");
            if reason == hard_link {
                std::fs::hard_link(target, &path).unwrap();
            } else {
                std::os::unix::fs::symlink(target, &path).unwrap();
            }
            let mut log = RunLog::default();
            log.open(path.clone());
            log.add("a line");
            let expected = format!("warning: {}: 1 line could not be written: {reason}", path.display());
            assert_eq!(log.warning(), Some(expected));
            assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine\n");
            assert!(!absent.exists());
            // The lines are written when the link is gone.
            std::fs::remove_file(&path).unwrap();
            log.add("another");
            assert_eq!(lines(&path), ["a line", "another"]);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn another_process_appends_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.log");
        let mut log = RunLog::default();
        log.open(path.clone());
        log.add("first");
        append(&path, "error: rank 1 of 2: lost");
        log.add("last");
        assert_eq!(lines(&path), ["first", "error: rank 1 of 2: lost", "last"]);
    }

    #[test]
    fn a_file_that_cannot_be_opened_gets_all_lines_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.log");
        std::fs::create_dir(&path).unwrap();
        let mut log = RunLog::default();
        log.open(path.clone());
        log.add("one\ntwo");
        let expected =
            format!("warning: {}: 2 lines could not be written: not a regular file", path.display());
        assert_eq!(log.warning(), Some(expected));
        std::fs::remove_dir(&path).unwrap();
        log.add("three");
        assert_eq!(lines(&path), ["one", "two", "three"]);
        assert_eq!(log.warning(), None);
    }

    #[test]
    fn memory_for_unwritten_lines_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.log");
        let mut log = RunLog::default();
        let long = "x".repeat(MAX_PENDING / 4);
        for _ in 0..10 {
            log.add(&long);
        }
        assert!(log.pending.len() < 2 * MAX_PENDING);
        log.open(path.clone());
        log.add("after");
        let found = lines(&path);
        assert_eq!(found[found.len() - 2..], ["6 lines are missing here", "after"]);
    }
}
