//! Memory that processes of one computer share.
//!
//! It is a file without a path (`memfd_create` of Linux), which each process maps. The creator
//! sends its process id and the number of its descriptor, and others open `/proc/PID/fd/N`. The
//! kernel allows that to processes of the same user.
//!
//! Invariant: the size of the file cannot change, because it is sealed before it is mapped, and all
//! its pages are allocated. So no access to a mapping fails. Pages exist until the last mapping
//! ends, in whatever order the processes end theirs.

use std::fs::File;
use std::io;

/// Name of memory that processes of one computer share. Another process can open the memory as
/// long as its creator has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedName {
    /// Process that created the memory, and its descriptor of the file.
    process: u32,
    descriptor: i32,
    /// Identity of the file. A descriptor or a process id may refer to something else.
    file_system: u64,
    inode: u64,
    /// Bytes of the elements. The file may be larger.
    bytes: u64,
    /// Start of the kernel: different on other computers.
    boot: String,
    /// Processes of other containers have other process ids.
    pid_namespace: String,
}

impl SharedName {
    /// Returns a text of one line for a message.
    pub fn to_text(&self) -> String {
        let Self { process, descriptor, file_system, inode, bytes, boot, pid_namespace } = self;
        format!("{process} {descriptor} {file_system} {inode} {bytes} {boot} {pid_namespace}")
    }

    /// Reads a text of [`SharedName::to_text`]. Returns None if it is something else.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let name = Self {
            process: words.next()?.parse().ok()?,
            descriptor: words.next()?.parse().ok()?,
            file_system: words.next()?.parse().ok()?,
            inode: words.next()?.parse().ok()?,
            bytes: words.next()?.parse().ok()?,
            boot: words.next()?.to_owned(),
            pid_namespace: words.next()?.to_owned(),
        };
        words.next().is_none().then_some(name)
    }

    /// Returns the bytes of the elements.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A mapping of shared memory.
pub(crate) struct SharedMemory {
    pointer: *mut u8,
    mapped_bytes: usize,
    /// Keeps the descriptor of the name open.
    _file: File,
}

// SAFETY: a mapping is valid on all threads. This type only passes its address on and ends it.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Returns the first byte, which is aligned to a page.
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    /// Returns the bytes of the mapping, a multiple of the size of a page.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.mapped_bytes
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::ptr;

    use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
    use rustix::mm::{MapFlags, ProtFlags};

    use super::*;

    /// Sizes of files are multiples of this: the largest page of a supported system.
    const PAGE_BYTES: u64 = 1 << 16;

    /// Nobody can change the size of the file, or allow it again.
    const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

    impl SharedMemory {
        /// Creates shared memory of zeros.
        pub(crate) fn create(bytes: u64) -> io::Result<(Self, SharedName)> {
            let size = file_bytes(bytes)?;
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = File::from(rustix::fs::memfd_create("orrery", flags)?);
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size)?;
            rustix::fs::fcntl_add_seals(&file, SEALS)?;
            let found = file.metadata()?;
            let name = SharedName {
                process: std::process::id(),
                descriptor: file.as_raw_fd(),
                file_system: found.dev(),
                inode: found.ino(),
                bytes,
                boot: read_boot()?,
                pid_namespace: read_pid_namespace()?,
            };
            Ok((Self::map(file, size)?, name))
        }

        /// Opens shared memory of this or another process.
        pub(crate) fn open(name: &SharedName) -> io::Result<Self> {
            if name.boot != read_boot()? {
                return Err(io::Error::other("belongs to another computer"));
            }
            if name.pid_namespace != read_pid_namespace()? {
                return Err(io::Error::other("belongs to another container"));
            }
            let path = format!("/proc/{}/fd/{}", name.process, name.descriptor);
            // Before it is opened, because opening another kind of file may wait.
            check_file(name, &fs::metadata(&path)?)?;
            let file = File::options().read(true).write(true).open(&path)?;
            check_file(name, &file.metadata()?)?;
            if !rustix::fs::fcntl_get_seals(&file)?.contains(SEALS) {
                return Err(io::Error::other("its size is not sealed"));
            }
            Self::map(file, file_bytes(name.bytes)?)
        }

        fn map(file: File, size: u64) -> io::Result<Self> {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the kernel chooses an address that is not in use, and no reference to the
            // contents ever exists.
            let pointer = unsafe {
                rustix::mm::mmap(ptr::null_mut(), size as usize, access, MapFlags::SHARED, &file, 0)?
            };
            Ok(Self { pointer: pointer.cast(), mapped_bytes: size as usize, _file: file })
        }
    }

    impl Drop for SharedMemory {
        fn drop(&mut self) {
            // SAFETY: `map` created the mapping. The owner of this value does not use it any more.
            let _ = unsafe { rustix::mm::munmap(self.pointer.cast(), self.mapped_bytes) };
        }
    }

    /// Checks that a file is the one with this name.
    fn check_file(name: &SharedName, found: &fs::Metadata) -> io::Result<()> {
        let expected = (name.file_system, name.inode, file_bytes(name.bytes)?);
        if (found.dev(), found.ino(), found.size()) == expected {
            return Ok(());
        }
        Err(io::Error::other("its descriptor refers to another file"))
    }

    /// Returns the size of a file for this many bytes.
    fn file_bytes(bytes: u64) -> io::Result<u64> {
        let size = bytes.max(1).checked_next_multiple_of(PAGE_BYTES);
        let size = size.filter(|size| isize::try_from(*size).is_ok());
        size.ok_or_else(|| io::Error::other("exceeds the address space"))
    }

    fn read_boot() -> io::Result<String> {
        Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
    }

    fn read_pid_namespace() -> io::Result<String> {
        Ok(fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
    }
}

#[cfg(not(target_os = "linux"))]
impl SharedMemory {
    /// Returns an error: only Linux has files without a path that others can open.
    pub(crate) fn create(_bytes: u64) -> io::Result<(Self, SharedName)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns an error.
    pub(crate) fn open(_name: &SharedName) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_pass_through_messages() {
        let name = SharedName {
            process: 1234,
            descriptor: 7,
            file_system: 1,
            inode: u64::MAX,
            bytes: 1 << 40,
            boot: "3a-b".to_owned(),
            pid_namespace: "pid:[4026531836]".to_owned(),
        };
        assert_eq!(SharedName::from_text(&name.to_text()), Some(name.clone()));
        for text in ["", "1 2 3", &format!("{} 5", name.to_text()), &name.to_text().replace("1234", "x")] {
            assert_eq!(SharedName::from_text(text), None, "{text}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn other_files_and_other_computers_are_refused() {
        let (_memory, name) = SharedMemory::create(1000).unwrap();
        let (_other, other_name) = SharedMemory::create(1000).unwrap();
        assert!(SharedMemory::open(&name).is_ok());
        let wrong_names = [
            SharedName { inode: name.inode + 1, ..name.clone() },
            SharedName { file_system: name.file_system + 1, ..name.clone() },
            SharedName { bytes: 1 << 20, ..name.clone() },
            SharedName { bytes: u64::MAX, ..name.clone() },
            SharedName { descriptor: other_name.descriptor, ..name.clone() },
            SharedName { descriptor: 9999, ..name.clone() },
            SharedName { process: u32::MAX, ..name.clone() },
            SharedName { boot: "another".to_owned(), ..name.clone() },
            SharedName { pid_namespace: "pid:[1]".to_owned(), ..name.clone() },
        ];
        for wrong in wrong_names {
            assert!(SharedMemory::open(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_size_of_the_file_cannot_change() {
        let (memory, _name) = SharedMemory::create(1000).unwrap();
        for size in [0, 1 << 20] {
            assert!(memory._file.set_len(size).is_err());
        }
    }
}
