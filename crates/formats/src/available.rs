//! Memory that this process can use: the smallest of the free memory of the machine, the limits of
//! its control groups, and its limit of address space.
//!
//! Batch systems limit a job in a parent of the control group of its processes, so all parents are
//! read. Both versions of control groups are supported: `memory.max` (version 2) and
//! `memory.limit_in_bytes` (version 1, usually mounted at /sys/fs/cgroup/memory).

use std::path::{Component, Path, PathBuf};

/// Returns the memory in bytes that can be used without swapping. `None` except on Linux.
pub fn available_memory() -> Option<u64> {
    memory_below(Path::new("/"))
}

/// Returns the available memory according to the files below `root`.
fn memory_below(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let free = kibibytes(&text, "MemAvailable:")?;
    let limits = [group_limit(root), address_space(root)];
    Some(limits.into_iter().flatten().fold(free, u64::min))
}

/// Returns the bytes of a line such as `MemAvailable:   12345 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns the rest of the address space, which `ulimit -v` limits. `None` without a limit.
fn address_space(root: &Path) -> Option<u64> {
    let limits = std::fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let status = std::fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    Some(limit.saturating_sub(kibibytes(&status, "VmSize:").unwrap_or(0)))
}

/// Version of a hierarchy of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupVersion {
    /// One hierarchy per controller.
    One,
    /// One hierarchy for all controllers.
    Two,
}

impl GroupVersion {
    /// File with the memory limit of a group.
    fn limit_file(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }
}

/// A mounted hierarchy of control groups with limits of memory.
#[derive(Debug, PartialEq, Eq)]
struct GroupMount {
    version: GroupVersion,
    /// Group that is visible at the mount point. In a container it may be that of the container.
    group: PathBuf,
    /// Folder of that group.
    point: PathBuf,
}

/// Returns the smallest memory limit of the control groups of this process and their parents.
/// `None` without a limit.
fn group_limit(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = std::fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let mounts = mounts.lines().filter_map(read_mount);
    mounts.filter_map(|mount| mount_limit(root, &mount, &groups)).min()
}

/// Returns the smallest limit of the group of this process in one hierarchy and its parents.
/// `groups` is the text of `/proc/self/cgroup`.
fn mount_limit(root: &Path, mount: &GroupMount, groups: &str) -> Option<u64> {
    let group = Path::new(process_group(groups, mount.version)?);
    // A group outside the visible ones has a path with "..": the limit of the mount point applies.
    let is_plain = !group.components().any(|part| part == Component::ParentDir);
    let inside = group.strip_prefix(&mount.group).ok().filter(|_| is_plain).unwrap_or(Path::new(""));
    let file = mount.version.limit_file();
    inside
        .ancestors()
        .filter_map(|inside| {
            let folder = root.join(mount.point.strip_prefix("/").ok()?).join(inside);
            // "max" means no limit.
            std::fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
        })
        .min()
}

/// Returns the group of this process in the hierarchy that limits memory.
fn process_group(groups: &str, version: GroupVersion) -> Option<&str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let is_found = match version {
            GroupVersion::One => controllers.split(',').any(|controller| controller == "memory"),
            GroupVersion::Two => controllers.is_empty(),
        };
        is_found.then_some(group)
    })
}

/// Reads a line of `/proc/self/mountinfo`. `None` if it is no hierarchy with limits of memory.
fn read_mount(line: &str) -> Option<GroupMount> {
    // id, parent, device, root, mount point, options, optional fields, "-", type, source, options.
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (group, point) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let version = match (after.next()?, after.nth(1)) {
        ("cgroup2", _) => GroupVersion::Two,
        ("cgroup", Some(options)) if options.split(',').any(|option| option == "memory") => GroupVersion::One,
        _ => return None,
    };
    Some(GroupMount { version, group: unescaped(group), point: unescaped(point) })
}

/// Replaces the octal escapes of spaces, tabs, line ends and backslashes.
fn unescaped(path: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    PathBuf::from(escapes.iter().fold(path.to_owned(), |path, (escape, c)| path.replace(escape, c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n";
    const FREE: u64 = 8_000_000 * 1024;
    const V1: &str = "36 25 0:31 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n\
                      35 25 0:30 / /sys/fs/cgroup/cpu rw,nosuid shared:8 - cgroup cgroup rw,cpu,cpuacct\n";
    const V2: &str = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    /// A machine with these files below its root.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.write("proc/meminfo", MEMINFO);
            files.iter().for_each(|(path, text)| machine.write(path, text));
            machine
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn memory(&self) -> Option<u64> {
            memory_below(self.0.path())
        }
    }

    #[test]
    fn without_limits_the_free_memory_is_available() {
        assert_eq!(Machine::new(&[]).memory(), Some(FREE));
        let machine = Machine::new(&[
            ("proc/self/cgroup", "0::/user.slice\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
            (
                "proc/self/limits",
                "Max address space         unlimited            unlimited            bytes\n",
            ),
        ]);
        assert_eq!(machine.memory(), Some(FREE));
        let none = tempfile::tempdir().unwrap();
        assert_eq!(memory_below(none.path()), None);
    }

    /// Slurm limits the job and leaves the group of the step or task without a limit.
    #[test]
    fn the_limit_of_a_parent_group_applies() {
        let job = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7";
        let machine = Machine::new(&[
            ("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"),
            ("proc/self/mountinfo", V2),
            (&format!("{job}/memory.max"), "2147483648\n"),
            (&format!("{job}/step_0/memory.max"), "3221225472\n"),
            (&format!("{job}/step_0/user/task_0/memory.max"), "max\n"),
        ]);
        assert_eq!(machine.memory(), Some(2 << 30));
        machine.write("sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
        assert_eq!(machine.memory(), Some(1 << 30));
        machine.write(&format!("{job}/step_0/user/memory.max"), "4096\n");
        assert_eq!(machine.memory(), Some(4096));
    }

    #[test]
    fn groups_of_version_1_have_limits() {
        let groups = "5:cpu,cpuacct:/slurm/uid_1/job_7\n4:memory:/slurm/uid_1/job_7/step_0\n0::/\n";
        let machine = Machine::new(&[
            ("proc/self/cgroup", groups),
            ("proc/self/mountinfo", &(V1.to_owned() + V2)),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/slurm/uid_1/job_7/step_0/memory.limit_in_bytes", "9223372036854771712\n"),
            // A limit of another group.
            ("sys/fs/cgroup/memory/slurm/uid_1/job_8/memory.limit_in_bytes", "1024\n"),
        ]);
        assert_eq!(machine.memory(), Some(FREE));
        machine.write("sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.limit_in_bytes", "1073741824\n");
        assert_eq!(machine.memory(), Some(1 << 30));
        // Both versions are mounted, with limits in both.
        machine.write("sys/fs/cgroup/memory.max", "536870912\n");
        assert_eq!(machine.memory(), Some(512 << 20));
    }

    /// A container sees its group at the mount point, with the path that the machine knows or with
    /// one of its own name space.
    #[test]
    fn groups_of_containers_have_limits() {
        let mount = "30 25 0:26 /docker/a\\040b /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        for group in ["/docker/a b", "/", "/../../other", "/docker/a b c"] {
            let machine = Machine::new(&[
                ("proc/self/cgroup", &format!("0::{group}\n")),
                ("proc/self/mountinfo", mount),
                ("sys/fs/cgroup/memory.max", "1073741824\n"),
            ]);
            assert_eq!(machine.memory(), Some(1 << 30), "{group}");
        }
        let machine = Machine::new(&[
            ("proc/self/cgroup", "0::/docker/a b/inner\n"),
            ("proc/self/mountinfo", mount),
            ("sys/fs/cgroup/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/inner/memory.max", "536870912\n"),
        ]);
        assert_eq!(machine.memory(), Some(512 << 20));
    }

    #[test]
    fn the_limit_of_address_space_applies() {
        let machine = Machine::new(&[
            (
                "proc/self/limits",
                "Max address space         1073741824           2147483648           bytes\n",
            ),
            ("proc/self/status", "VmPeak:\t  300000 kB\nVmSize:\t  262144 kB\n"),
        ]);
        assert_eq!(machine.memory(), Some(768 << 20));
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(!cfg!(target_os = "linux") || available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
