//! MP4 films of numbered PNG files, encoded by the program ffmpeg.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::PictureError;
use crate::error::IoError;
use crate::storage::create_new_file;

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
/// The film appears under its name when it is complete. The error has the message of `ffmpeg`.
pub fn write_mp4(
    ffmpeg: &Path,
    folder: &Path,
    pattern: &str,
    frames: usize,
    frames_per_second: u32,
    name: &str,
) -> Result<(), PictureError> {
    let path = folder.join(name);
    let failed = |reason: String| PictureError::encoding(&path)(format!("ffmpeg: {reason}"));
    let part = format!(".{name}.{}.part", std::process::id());
    // ffmpeg would write through a link of this name.
    create_new_file(&folder.join(&part)).map_err(|e| PictureError::Io(IoError::from_system(&path, e)))?;
    let arguments = mp4_arguments(pattern, frames, frames_per_second, &part);
    // Relative paths: ffmpeg would take a % in the path of the folder as a number.
    let output = Command::new(ffmpeg).args(&arguments).current_dir(folder).stdin(Stdio::null()).output();
    let result = match output {
        Err(error) => Err(failed(error.to_string())),
        Ok(output) if output.status.success() => std::fs::rename(folder.join(&part), &path)
            .map_err(|error| PictureError::Io(IoError::from_system(&path, error))),
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            Err(failed(format!("{}: {}", output.status, lines.join("; "))))
        }
    };
    if result.is_err() {
        let _ = std::fs::remove_file(folder.join(&part));
    }
    result
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
