//! MP4 films of numbered PNG files, encoded by the program ffmpeg.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use orrery_formats::{IoError, create_new_file};

use super::PictureError;

/// Pause between two looks at the program and at the request to stop it.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Largest part of the messages of the program that is kept.
const MAX_MESSAGE_BYTES: u64 = 1 << 16;

/// Returns the path of ffmpeg if it is in `PATH`.
pub fn find_ffmpeg() -> Option<PathBuf> {
    let name = format!("ffmpeg{}", std::env::consts::EXE_SUFFIX);
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(&name)).find(|path| is_executable(path))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Encodes the first `frames` of the PNG files `pattern`, such as `images/image_%04d.png`, as H.264
/// in MP4. `pattern` and the file `name` are relative to `folder`.
///
/// The film appears under its name when it is complete. The error has the message of `ffmpeg`. As
/// soon as `is_stopped` returns true, `ffmpeg` is ended, which is an error too.
pub fn write_mp4(
    ffmpeg: &Path,
    folder: &Path,
    pattern: &str,
    frames: usize,
    frames_per_second: u32,
    name: &str,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), PictureError> {
    let path = folder.join(name);
    let failed = |reason: String| PictureError::encoding(&path)(format!("ffmpeg: {reason}"));
    let part = format!(".{name}.{}.part", std::process::id());
    // ffmpeg would write through a link of this name.
    create_new_file(&folder.join(&part)).map_err(|e| PictureError::Io(IoError::from_system(&path, e)))?;
    let arguments = mp4_arguments(pattern, frames, frames_per_second, &part);
    // Relative paths: ffmpeg would take a % in the path of the folder as a number.
    let mut command = Command::new(ffmpeg);
    command.args(&arguments).current_dir(folder).stdin(Stdio::null());
    let result = match run_until(&mut command, is_stopped) {
        Err(error) => Err(failed(error.to_string())),
        Ok(None) => Err(failed("ended by a stop request".to_owned())),
        Ok(Some((status, _))) if status.success() => std::fs::rename(folder.join(&part), &path)
            .map_err(|error| PictureError::Io(IoError::from_system(&path, error))),
        Ok(Some((status, message))) => {
            let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            Err(failed(format!("{status}: {}", lines.join("; "))))
        }
    };
    if result.is_err() {
        let _ = std::fs::remove_file(folder.join(&part));
    }
    result
}

/// Runs a program and returns its status and the start of its standard error. As soon as
/// `is_stopped` returns true, ends it and returns `None`.
fn run_until(
    command: &mut Command,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<Option<(ExitStatus, String)>> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    // A full pipe would block the program.
    let errors = child.stderr.take().map(|errors| std::thread::spawn(move || read_start(errors)));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if is_stopped() {
            let _ = child.kill();
            child.wait()?;
            // A process that it has started may keep the pipe open, so the reader is not waited
            // for.
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let message = errors.and_then(|reader| reader.join().ok()).unwrap_or_default();
    Ok(Some((status, String::from_utf8_lossy(&message).into_owned())))
}

/// Reads to the end, and returns the first bytes.
fn read_start(mut source: impl Read) -> Vec<u8> {
    let mut start = Vec::new();
    let _ = source.by_ref().take(MAX_MESSAGE_BYTES).read_to_end(&mut start);
    let _ = io::copy(&mut source, &mut io::sink());
    start
}

fn mp4_arguments(pattern: &str, frames: usize, frames_per_second: u32, part: &str) -> Vec<String> {
    let (frames, speed) = (frames.to_string(), frames_per_second.to_string());
    let input = ["-framerate", &speed, "-start_number", "0", "-i", pattern, "-frames:v", &frames];
    // Players need sizes divisible by two and the pixel format yuv420p.
    let filter = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"];
    let codec = ["-c:v", "libx264", "-crf", "18", "-pix_fmt", "yuv420p"];
    // The index at the start of the file, for players that read from the network.
    let container = ["-movflags", "+faststart", "-fflags", "+bitexact", "-f", "mp4", part];
    let quiet = ["-hide_banner", "-loglevel", "error", "-nostdin", "-y"];
    let all = quiet.into_iter().chain(input).chain(filter).chain(codec).chain(container);
    all.map(str::to_owned).collect()
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_ends_with_a_stop_request() {
        let calls = Cell::new(0);
        let is_stopped = || calls.replace(calls.get() + 1) > 2;
        let folder = tempfile::tempdir().unwrap();
        let end = folder.path().join("end");
        let script = format!("sleep 30; touch {}", end.display());
        assert!(run_until(&mut shell(&script), &is_stopped).unwrap().is_none());
        assert!(!end.exists(), "the program was not ended");
    }

    #[test]
    fn long_messages_do_not_block_a_program() {
        let script = "i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789 >&2; \
                      i=$((i+1)); done; exit 3";
        let (status, message) = run_until(&mut shell(script), &|| false).unwrap().unwrap();
        assert_eq!((status.code(), message.len()), (Some(3), MAX_MESSAGE_BYTES as usize));
    }
}
