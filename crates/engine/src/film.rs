//! `animation.mp4` of the images of a run, see `image.animation`.

use std::path::Path;

use orrery_draw::picture::{find_ffmpeg, write_mp4};

use crate::case::{AnimationFormat, Case};
use crate::error::EngineError;
use crate::folder::{FILM, IMAGES};

/// Returns true if the case asks for a film that cannot be made, because ffmpeg is not in `PATH`.
pub(crate) fn lacks_ffmpeg(case: &Case) -> bool {
    case.image.animation == AnimationFormat::Mp4 && find_ffmpeg().is_none()
}

/// Writes the film of a finished run, if the case asks for it and ffmpeg is installed. Returns true
/// if it did. As soon as `is_stopped` returns true, ffmpeg is ended, which is an error.
pub(crate) fn write_film(
    case: &Case,
    folder: &Path,
    is_stopped: &dyn Fn() -> bool,
) -> Result<bool, EngineError> {
    if case.image.animation != AnimationFormat::Mp4 {
        return Ok(false);
    }
    let Some(ffmpeg) = find_ffmpeg() else { return Ok(false) };
    let frames = IMAGES.list_files(folder).len();
    let pattern = format!("{}/{}%04d.png", IMAGES.folder, IMAGES.prefix);
    write_mp4(&ffmpeg, folder, &pattern, frames, case.image.frames_per_second, FILM, is_stopped)?;
    Ok(true)
}
