//! Folders of the cache that no other user can change.
//!
//! Folders and files are opened first and checked through their handles, so that a check and a read
//! see the same file. Links are not followed, except in the path of the cache itself.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use thiserror::Error;

#[cfg(not(unix))]
use other as system;
#[cfg(unix)]
use unix as system;

/// Reason why a folder or file of the cache is not used. Its message is one line.
#[derive(Debug, Error)]
pub enum CacheError {
    /// The operating system reported an error.
    #[error("{}: {cause}", path.display())]
    System {
        /// Path of the folder or file.
        path: PathBuf,
        /// Its error.
        cause: io::Error,
    },
    /// Another user could have written the file.
    #[error("{}: refused, {reason}", path.display())]
    Refused {
        /// Path of the folder or file.
        path: PathBuf,
        /// Reason, for example `it belongs to user 1000, expected user 0`.
        reason: String,
    },
}

impl CacheError {
    fn of_system(path: &Path, cause: io::Error) -> Self {
        Self::System { path: path.to_owned(), cause }
    }

    /// Returns whether the folder or file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::System { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }
}

/// A folder in the cache that no other user can change, such as `~/.cache/orrery/kernels`.
#[derive(Debug)]
pub struct CacheFolder {
    handle: system::Folder,
    path: PathBuf,
}

impl CacheFolder {
    /// Opens a folder. Takes write permission for others away, and refuses a folder of another
    /// user. The folder that contains it must belong to this user or to the administrator.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        let handle = system::Folder::open(path)?;
        Ok(Self { handle, path: path.to_owned() })
    }

    /// Opens a folder and creates it if it does not exist. Only this user can read a new folder.
    pub fn create(path: &Path) -> Result<Self, CacheError> {
        system::create_folders(path).map_err(|cause| CacheError::of_system(path, cause))?;
        Self::open(path)
    }

    /// Reads a file of at most `max_bytes`. Takes write permission for others away, and refuses a
    /// file of another user, links and special files.
    pub fn read(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>, CacheError> {
        let path = self.path.join(name);
        let file = self.handle.open_file(&self.path, name)?;
        let refused = |reason: String| CacheError::Refused { path: path.clone(), reason };
        let size = file.metadata().map_err(|cause| CacheError::of_system(&path, cause))?.len();
        if size > max_bytes {
            return Err(refused(format!("it has {size} bytes, expected at most {max_bytes}")));
        }
        let mut bytes = Vec::new();
        file.take(max_bytes).read_to_end(&mut bytes).map_err(|cause| CacheError::of_system(&path, cause))?;
        Ok(bytes)
    }

    /// Writes a file that only this user can read. It replaces an existing one, and appears
    /// complete.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), CacheError> {
        let temporary = temporary_name(name);
        let written = self.handle.create_file(&self.path, &temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            self.handle.rename(&self.path, &temporary, name)
        });
        written.map_err(|cause| {
            // Nothing more can be done if it remains.
            let _ = self.handle.remove(&self.path, &temporary);
            CacheError::of_system(&self.path.join(name), cause)
        })
    }

    /// Checks that files can be created in this folder.
    pub fn check_writable(&self) -> Result<(), CacheError> {
        let probe = temporary_name(".probe");
        let created = self.handle.create_file(&self.path, &probe);
        created
            .and_then(|_| self.handle.remove(&self.path, &probe))
            .map_err(|cause| CacheError::of_system(&self.path, cause))
    }
}

/// Returns a name that no other process and no other call uses. Processes of several computers may
/// share the folder, so the number of the process is not enough.
fn temporary_name(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!("{name}.{process}-{number}-{nanos:x}.tmp")
}

#[cfg(unix)]
mod unix {
    use std::fs::{DirBuilder, File, Permissions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, renameat, unlinkat};
    use rustix::io::Errno;
    use rustix::process::geteuid;

    use super::CacheError;
    use crate::cache::access::{AccessVerdict, judge, judge_base};

    /// An open folder, whose files are opened relative to it.
    #[derive(Debug)]
    pub struct Folder(File);

    impl Folder {
        pub fn open(path: &Path) -> Result<Self, CacheError> {
            let base_path = base_of(path);
            let folder_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let base = openat(CWD, &base_path, folder_flags, Mode::empty())
                .map_err(|error| CacheError::of_system(&base_path, error.into()))?;
            let base = File::from(base);
            restrict(&base, &base_path, judge_base)?;
            let name = path.file_name().unwrap_or_default();
            let folder = openat(&base, name, folder_flags | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|error| open_error(path, error, "a folder"))?;
            let folder = File::from(folder);
            restrict(&folder, path, judge)?;
            Ok(Self(folder))
        }

        pub fn open_file(&self, folder: &Path, name: &str) -> Result<File, CacheError> {
            let path = folder.join(name);
            // Opening a named pipe would wait for a writer.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = openat(&self.0, name, flags, Mode::empty())
                .map_err(|error| open_error(&path, error, "a regular file"))?;
            let file = File::from(file);
            let found = file.metadata().map_err(|cause| CacheError::of_system(&path, cause))?;
            if !found.is_file() {
                let reason = "it is not a regular file".to_owned();
                return Err(CacheError::Refused { path, reason });
            }
            restrict(&file, &path, judge)?;
            Ok(file)
        }

        pub fn create_file(&self, _folder: &Path, name: &str) -> io::Result<File> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(File::from(openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?))
        }

        pub fn rename(&self, _folder: &Path, from: &str, to: &str) -> io::Result<()> {
            Ok(renameat(&self.0, from, &self.0, to)?)
        }

        pub fn remove(&self, _folder: &Path, name: &str) -> io::Result<()> {
            Ok(unlinkat(&self.0, name, AtFlags::empty())?)
        }
    }

    /// Creates a folder and those that contain it. Only this user can read new ones.
    pub fn create_folders(path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn base_of(path: &Path) -> PathBuf {
        match path.parent() {
            Some(base) if base != Path::new("") => base.to_owned(),
            _ => PathBuf::from("."),
        }
    }

    /// A link has its own message, because the one of the system names loops of links.
    fn open_error(path: &Path, error: Errno, expected: &str) -> CacheError {
        let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        match is_link && matches!(error, Errno::LOOP | Errno::NOTDIR) {
            true => CacheError::Refused {
                path: path.to_owned(),
                reason: format!("it is a symbolic link, expected {expected}"),
            },
            false => CacheError::of_system(path, error.into()),
        }
    }

    /// Changes the mode of a folder or file so that no other user can write to it, or refuses it.
    fn restrict(
        file: &File,
        path: &Path,
        judge: fn(u32, u32, u32) -> AccessVerdict,
    ) -> Result<(), CacheError> {
        let user = geteuid().as_raw();
        let access = || {
            let found = file.metadata().map_err(|cause| CacheError::of_system(path, cause))?;
            Ok((found.mode(), judge(found.uid(), found.mode(), user)))
        };
        let refused = |reason| Err(CacheError::Refused { path: path.to_owned(), reason });
        let mode = match access()?.1 {
            AccessVerdict::Trusted => return Ok(()),
            AccessVerdict::Refused(reason) => return refused(reason),
            AccessVerdict::Restrict(mode) => mode,
        };
        let changed = file.set_permissions(Permissions::from_mode(mode));
        // Some file systems accept a mode and keep the old one.
        match (access()?, changed) {
            ((_, AccessVerdict::Trusted), _) => Ok(()),
            ((found, _), changed) => {
                let cause = changed.err().map_or_else(String::new, |error| format!(": {error}"));
                refused(format!(
                    "others can write to it (mode {:04o}), expected mode {mode:04o}, which cannot be set{cause}",
                    found & 0o7777
                ))
            }
        }
    }
}

/// Systems without owners and modes of this kind. The folder of a user is private there.
#[cfg(not(unix))]
mod other {
    use std::fs::{self, File};
    use std::io;
    use std::path::Path;

    use super::CacheError;

    #[derive(Debug)]
    pub struct Folder;

    impl Folder {
        pub fn open(path: &Path) -> Result<Self, CacheError> {
            match fs::metadata(path) {
                Ok(found) if found.is_dir() => Ok(Self),
                Ok(_) => Err(CacheError::of_system(path, io::ErrorKind::NotADirectory.into())),
                Err(cause) => Err(CacheError::of_system(path, cause)),
            }
        }

        pub fn open_file(&self, folder: &Path, name: &str) -> Result<File, CacheError> {
            let path = folder.join(name);
            File::open(&path).map_err(|cause| CacheError::of_system(&path, cause))
        }

        pub fn create_file(&self, folder: &Path, name: &str) -> io::Result<File> {
            File::options().write(true).create_new(true).open(folder.join(name))
        }

        pub fn rename(&self, folder: &Path, from: &str, to: &str) -> io::Result<()> {
            fs::rename(folder.join(from), folder.join(to))
        }

        pub fn remove(&self, folder: &Path, name: &str) -> io::Result<()> {
            fs::remove_file(folder.join(name))
        }
    }

    pub fn create_folders(path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    const LIMIT: u64 = 100;

    fn mode_of(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    /// Returns a cache with `kernels/entry`, and the paths of both.
    fn some_cache() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("orrery/kernels");
        CacheFolder::create(&folder).unwrap().write("entry", b"binary").unwrap();
        let entry = folder.join("entry");
        (base, folder, entry)
    }

    fn read_entry(folder: &Path) -> Result<Vec<u8>, String> {
        let folder = CacheFolder::open(folder).map_err(|error| error.to_string())?;
        folder.read("entry", LIMIT).map_err(|error| error.to_string())
    }

    #[test]
    fn new_folders_and_files_are_private() {
        let (base, folder, entry) = some_cache();
        assert_eq!(mode_of(&base.path().join("orrery")), 0o700);
        assert_eq!([mode_of(&folder), mode_of(&entry)], [0o700, 0o600]);
        assert_eq!(read_entry(&folder).unwrap(), b"binary");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file remains");
        CacheFolder::open(&folder).unwrap().check_writable().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file remains");
        assert!(CacheFolder::open(&folder).unwrap().read("other", LIMIT).unwrap_err().is_not_found());
        assert!(CacheFolder::open(&base.path().join("none/kernels")).unwrap_err().is_not_found());
    }

    #[test]
    fn write_permission_for_others_is_taken_away() {
        let (base, folder, entry) = some_cache();
        let parent = base.path().join("orrery");
        set_mode(&parent, 0o775);
        set_mode(&folder, 0o2777);
        set_mode(&entry, 0o664);
        assert_eq!(read_entry(&folder).unwrap(), b"binary");
        assert_eq!([mode_of(&parent), mode_of(&folder), mode_of(&entry)], [0o755, 0o2755, 0o644]);
    }

    #[test]
    fn folders_and_entries_of_others_are_refused() {
        if !is_root() {
            return;
        }
        let (base, folder, entry) = some_cache();
        let parent = base.path().join("orrery");
        for path in [&entry, &folder, &parent] {
            chown(path, Some(4321), None).unwrap();
            let expected = format!("{}: refused, it belongs to user 4321, expected user 0", path.display());
            assert_eq!(read_entry(&folder).unwrap_err(), expected);
            chown(path, Some(0), None).unwrap();
            assert_eq!(read_entry(&folder).unwrap(), b"binary");
        }
    }

    #[test]
    fn links_and_special_files_are_refused() {
        let (base, folder, entry) = some_cache();
        let target = base.path().join("target");
        fs::rename(&entry, &target).unwrap();
        symlink(&target, &entry).unwrap();
        let message = read_entry(&folder).unwrap_err();
        assert!(
            message.ends_with("entry: refused, it is a symbolic link, expected a regular file"),
            "{message}"
        );
        fs::remove_file(&entry).unwrap();
        let pipe = std::process::Command::new("mkfifo").arg(&entry).status().unwrap();
        assert!(pipe.success());
        let message = read_entry(&folder).unwrap_err();
        assert!(message.ends_with("entry: refused, it is not a regular file"), "{message}");
        let moved = base.path().join("moved");
        fs::rename(&folder, &moved).unwrap();
        symlink(&moved, &folder).unwrap();
        let message = read_entry(&folder).unwrap_err();
        assert!(message.ends_with("kernels: refused, it is a symbolic link, expected a folder"), "{message}");
    }

    /// The cache itself may be a link, for example to a disk without backup.
    #[test]
    fn a_link_to_the_cache_is_followed() {
        let (base, ..) = some_cache();
        let link = base.path().join("link");
        symlink(base.path().join("orrery"), &link).unwrap();
        assert_eq!(read_entry(&link.join("kernels")).unwrap(), b"binary");
    }

    #[test]
    fn a_file_above_the_limit_is_refused() {
        let (_base, folder, entry) = some_cache();
        fs::write(&entry, [0; 101]).unwrap();
        let message = read_entry(&folder).unwrap_err();
        assert!(message.ends_with("entry: refused, it has 101 bytes, expected at most 100"), "{message}");
    }
}
