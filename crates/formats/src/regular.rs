//! Opening regular files in folders that somebody else may have prepared.
//!
//! A pipe, a device or a socket is refused before it is opened, and again after, because the name
//! may have been replaced in between. Files are opened without blocking, so a pipe cannot hang the
//! program. An input may be a link. A file that a program changes may not: a link in a folder from
//! somebody else could name any file of the user.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

use crate::error::{Fault, IoError};
use crate::limits::Limits;

/// Opens a regular file for reading and returns it with its length. Links are followed.
pub(crate) fn open_input(path: &Path) -> Result<(File, u64), Fault> {
    check_is_file(fs::metadata(path)?.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    set_flags(&mut options, false);
    let file = options.open(path)?;
    let found = file.metadata()?;
    check_is_file(found.file_type())?;
    Ok((file, found.len()))
}

fn check_is_file(kind: FileType) -> Result<(), Fault> {
    if kind.is_file() {
        return Ok(());
    }
    let got = if kind.is_dir() { "a directory" } else { "a device or a pipe" };
    Err(Fault::malformed("path", got, "a file"))
}

/// Reads a regular file that should be small, such as a case or a list. A file of more than
/// `max_bytes` is refused, and no more than that is read.
pub fn read_small_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, IoError> {
    let read = || {
        let (file, length) = open_input(path)?;
        let mut bytes = Vec::new();
        if length <= max_bytes {
            // The file may grow after its length was read.
            file.take(max_bytes + 1).read_to_end(&mut bytes)?;
        }
        let is_too_large = length.max(bytes.len() as u64) > max_bytes;
        if is_too_large { Err(Fault::TooLarge { limit: max_bytes }) } else { Ok(bytes) }
    };
    read().map_err(|fault: Fault| fault.in_file(path))
}

/// Does the same as [`read_small_file`] for a text in UTF-8.
pub fn read_small_text(path: &Path, max_bytes: u64) -> Result<String, IoError> {
    String::from_utf8(read_small_file(path, max_bytes)?)
        .map_err(|_| Fault::malformed("content", "bytes that are not UTF-8", "text in UTF-8").in_file(path))
}

/// Reads a text in UTF-8 whose length is limited by the memory for it.
pub fn read_text(path: &Path, limits: &Limits) -> Result<String, IoError> {
    let length = open_input(path).map_err(|fault| fault.in_file(path))?.1;
    if length > limits.memory {
        return Err(Fault::TooLong { length, limit: limits.memory }.in_file(path));
    }
    read_small_text(path, limits.memory)
}

/// Opens a regular file to change it, with the access of `options`. A link is refused.
///
/// `options` may create the file. For example, `run.log` is opened for appending.
pub fn open_unlinked(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let refused = |kind: FileType| {
        let what = if kind.is_symlink() { "a symbolic link" } else { "not a regular file" };
        (!kind.is_file()).then(|| io::Error::other(what)).map_or(Ok(()), Err)
    };
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        found => refused(found?.file_type())?,
    }
    let mut options = options.clone();
    set_flags(&mut options, true);
    let file = options.open(path)?;
    refused(file.metadata()?.file_type())?;
    Ok(file)
}

/// Returns true if the file has another name, so that a change would be visible there too.
#[cfg(unix)]
pub fn has_other_names(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(file.metadata()?.nlink() > 1)
}

/// Returns true if the file has another name, which only Unix reports.
#[cfg(not(unix))]
pub fn has_other_names(_file: &File) -> io::Result<bool> {
    Ok(false)
}

/// Returns true if `path` is a symbolic link, also one to nothing.
pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink())
}

#[cfg(unix)]
fn set_flags(options: &mut OpenOptions, refuse_links: bool) {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = if refuse_links { OFlags::NONBLOCK | OFlags::NOFOLLOW } else { OFlags::NONBLOCK };
    options.custom_flags(flags.bits() as i32);
}

#[cfg(not(unix))]
fn set_flags(_options: &mut OpenOptions, _refuse_links: bool) {}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_inputs_may_be_links() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, nothing] = ["file", "link", "nothing"].map(|name| folder.path().join(name));
        fs::write(&file, "12345").unwrap();
        symlink(&file, &link).unwrap();
        symlink(folder.path().join("absent"), &nothing).unwrap();
        assert_eq!(open_input(&link).unwrap().1, 5);

        let mut options = OpenOptions::new();
        options.append(true).create(true);
        assert!(open_unlinked(&file, &options).is_ok());
        for path in [&link, &nothing] {
            assert!(is_link(path));
            assert_eq!(open_unlinked(path, &options).unwrap_err().to_string(), "a symbolic link");
        }
        assert!(!folder.path().join("absent").exists());
        assert_eq!(open_unlinked(folder.path(), &options).unwrap_err().to_string(), "not a regular file");
    }

    /// Opening a pipe without `O_NONBLOCK` would wait for its other end for ever.
    #[test]
    fn a_pipe_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let Err(fault) = open_input(&path) else { panic!("a pipe was opened") };
        assert_eq!(fault.to_string(), "path: got a device or a pipe, expected a file");
        let error = open_unlinked(&path, OpenOptions::new().append(true)).unwrap_err();
        assert_eq!(error.to_string(), "not a regular file");
        // The name may become a pipe after the check, so the flag is needed too.
        let mut options = OpenOptions::new();
        options.read(true);
        set_flags(&mut options, false);
        assert!(options.open(&path).is_ok());
    }

    #[test]
    fn the_check_of_a_folder_empties_no_file_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "12345").unwrap();
        symlink(&file, &link).unwrap();
        crate::check_writable(folder.path(), "link").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"12345");
        assert!(!is_link(&link));
    }

    #[test]
    fn small_files_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("case.toml");
        fs::write(&path, "123456").unwrap();
        assert_eq!(read_small_text(&path, 6).unwrap(), "123456");
        let error = read_small_text(&path, 5).unwrap_err().to_string();
        assert!(
            error.ends_with("case.toml: the file is larger than 5.0 B, expected a small text file"),
            "{error}"
        );
        // A sparse file of 1 TiB is refused by its length, and not read.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(matches!(read_small_file(&path, 1 << 20).unwrap_err().fault, Fault::TooLarge { .. }));
        fs::write(&path, b"\xff").unwrap();
        let error = read_small_text(&path, 5).unwrap_err().to_string();
        assert!(error.ends_with("content: got bytes that are not UTF-8, expected text in UTF-8"), "{error}");
        // Its length is reported as 0.
        #[cfg(target_os = "linux")]
        assert!(read_small_file(Path::new("/proc/self/status"), 20).is_err());
    }

    #[test]
    fn other_names_of_a_file_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let [file, other] = ["file", "other"].map(|name| folder.path().join(name));
        fs::write(&file, "").unwrap();
        assert!(!has_other_names(&File::open(&file).unwrap()).unwrap());
        fs::hard_link(&file, &other).unwrap();
        assert!(has_other_names(&File::open(&file).unwrap()).unwrap());
    }
}
