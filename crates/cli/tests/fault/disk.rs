//! Model of a disk after a power cut, rebuilt from the storage calls of a run.
//!
//! The model assumes only the guarantees of POSIX. The bytes of a file are safe once the file was
//! synced. The creation, removal or renaming of a name is safe once its folder was synced. Changes
//! that were not synced may or may not be on the disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A storage call recorded by the shim.
#[derive(Clone, Debug)]
pub struct Call {
    /// Number of the call, from 1. It is 0 for calls that only map a descriptor to a file.
    pub number: usize,
    /// Kind of the call: open, mkdir, write, sync, rename, truncate or unlink.
    pub kind: String,
    /// Return value of the call.
    pub result: i64,
    /// Offset of a write, or new length of a truncated file. For an open: 0 without creation, 1
    /// created if missing, 2 truncated to zero.
    pub offset: u64,
    /// Bytes that were written.
    pub bytes: Vec<u8>,
    /// Path of the file, if the call has one.
    pub path: PathBuf,
    /// Path after a rename.
    pub new_path: PathBuf,
    /// File descriptor, or -1.
    pub fd: i32,
}

impl Call {
    /// Reads all calls of a log, in order.
    pub fn read_log(log: &Path) -> Vec<Self> {
        let log = fs::read(log).unwrap_or_else(|e| panic!("the shim wrote no log, was it loaded? {e}"));
        let (mut calls, mut rest) = (Vec::new(), &log[..]);
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let line = std::str::from_utf8(&rest[..end]).expect("text");
            let fields: Vec<&str> = line.split('\t').collect();
            let [number, kind, result, fd, offset, length, path, new_path] = fields[..] else {
                panic!("eight fields in {line:?}")
            };
            let integer = |field: &str| field.parse::<i64>().expect("an integer");
            let (bytes, after) = rest[end + 1..].split_at(integer(length) as usize);
            calls.push(Self {
                number: integer(number) as usize,
                kind: kind.to_owned(),
                result: integer(result),
                offset: integer(offset) as u64,
                bytes: bytes.to_vec(),
                path: path.into(),
                new_path: new_path.into(),
                fd: integer(fd) as i32,
            });
            rest = after;
        }
        calls
    }
}

/// File or folder that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Folder,
    /// Index into [`Disk::files`].
    File(usize),
}

#[derive(Clone, Debug, Default)]
struct File {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Whether a sync failed and the file was not truncated since. The system may then treat lost
    /// bytes as written.
    sync_failed: bool,
}

/// An atomic change of names in one folder.
#[derive(Clone, Debug)]
struct Change {
    removed: Option<PathBuf>,
    added: Option<(PathBuf, Node)>,
}

impl Change {
    fn folder(&self) -> &Path {
        let name = self.added.as_ref().map(|(name, _)| name).or(self.removed.as_ref());
        name.and_then(|name| name.parent()).expect("a name in a folder")
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        if let Some(name) = &self.removed {
            names.remove(name);
        }
        names.extend(self.added.clone());
    }
}

/// Assumption about which unsynced changes are on the disk after the power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// No names and no bytes.
    Nothing,
    /// All names. Files have their bytes of the last sync.
    Names,
    /// All names and file lengths. Unsynced bytes are zero.
    NamesAndLengths,
    /// Everything, as if only the process was killed.
    Everything,
    /// The changes of names that are selected by the bits of this number. Files have their bytes of
    /// the last sync.
    SomeNames(u64),
}

/// The disk as the program sees it, and the part of it that is safe.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    files: Vec<File>,
    names: BTreeMap<PathBuf, Node>,
    safe_names: BTreeMap<PathBuf, Node>,
    changes: Vec<Change>,
    open: BTreeMap<i32, Opened>,
}

/// File or folder that a descriptor refers to.
#[derive(Clone, Debug)]
enum Opened {
    Folder(PathBuf),
    File(usize),
}

impl Disk {
    /// Returns a disk with this content, all of it synced.
    pub fn with_content(folder: &Path, content: &BTreeMap<PathBuf, Option<Vec<u8>>>) -> Self {
        let mut disk = Self::default();
        for (name, bytes) in content {
            let node = match bytes {
                None => Node::Folder,
                Some(bytes) => {
                    disk.files.push(File { now: bytes.clone(), synced: bytes.clone(), sync_failed: false });
                    Node::File(disk.files.len() - 1)
                }
            };
            disk.names.insert(folder.join(name), node);
        }
        disk.safe_names = disk.names.clone();
        disk
    }

    /// Applies the effect of a call. Panics if a file is synced again after a failed sync.
    pub fn apply(&mut self, call: &Call) {
        let failed = call.result < 0;
        match (call.kind.as_str(), failed) {
            ("open", false) => self.open(call),
            ("mkdir", false) => self.change_names(None, Some((call.path.clone(), Node::Folder))),
            ("unlink", false) => self.change_names(Some(call.path.clone()), None),
            ("rename", false) => {
                let node = *self.names.get(&call.path).expect("an existing name");
                self.change_names(Some(call.path.clone()), Some((call.new_path.clone(), node)));
            }
            ("write", false) => {
                let (start, end) = (call.offset as usize, call.offset as usize + call.bytes.len());
                let file = self.file(call);
                file.now.resize(file.now.len().max(end), 0);
                file.now[start..end].copy_from_slice(&call.bytes);
            }
            ("truncate", false) => self.file(call).now.resize(call.offset as usize, 0),
            ("sync", _) => match (&self.open[&call.fd], failed) {
                (Opened::Folder(folder), false) => {
                    let folder = folder.clone();
                    let (synced, rest) = std::mem::take(&mut self.changes)
                        .into_iter()
                        .partition(|change| change.folder() == folder);
                    self.changes = rest;
                    let synced: Vec<Change> = synced;
                    synced.iter().for_each(|change| change.apply(&mut self.safe_names));
                }
                (Opened::Folder(_), true) => {}
                (Opened::File(_), true) => self.file(call).sync_failed = true,
                (Opened::File(_), false) => {
                    let number = call.number;
                    let file = self.file(call);
                    assert!(!file.sync_failed, "call {number} syncs a file again after a failed sync");
                    file.synced = file.now.clone();
                }
            },
            _ => {}
        }
    }

    fn open(&mut self, call: &Call) {
        let node = match self.names.get(&call.path) {
            Some(node) => *node,
            // The parent folder of the run existed before. Everything else was created by a call.
            None if call.offset == 0 => Node::Folder,
            None => {
                self.files.push(File::default());
                let node = Node::File(self.files.len() - 1);
                self.change_names(None, Some((call.path.clone(), node)));
                node
            }
        };
        let opened = match node {
            Node::Folder => Opened::Folder(call.path.clone()),
            Node::File(index) => {
                if call.offset == 2 {
                    (self.files[index].now, self.files[index].sync_failed) = (Vec::new(), false);
                }
                Opened::File(index)
            }
        };
        self.open.insert(call.fd, opened);
    }

    fn change_names(&mut self, removed: Option<PathBuf>, added: Option<(PathBuf, Node)>) {
        let change = Change { removed, added };
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn file(&mut self, call: &Call) -> &mut File {
        match &self.open[&call.fd] {
            Opened::File(index) => &mut self.files[*index],
            Opened::Folder(path) => panic!("{} is a folder", path.display()),
        }
    }

    /// Returns the number of unsynced changes of names.
    pub fn unsynced_change_count(&self) -> usize {
        self.changes.len()
    }

    /// Returns the content of `folder` after a power cut at this moment.
    pub fn content_after_cut(&self, folder: &Path, unsynced: Unsynced) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut names = self.safe_names.clone();
        for (k, change) in self.changes.iter().enumerate() {
            let happened = match unsynced {
                Unsynced::Nothing => false,
                Unsynced::Names | Unsynced::NamesAndLengths | Unsynced::Everything => true,
                Unsynced::SomeNames(bits) => bits >> (k % 64) & 1 == 1,
            };
            if happened {
                change.apply(&mut names);
            }
        }
        let is_reachable = |name: &Path| {
            let above = name.ancestors().skip(1).take_while(|above| *above != folder);
            name.starts_with(folder) && above.into_iter().all(|above| names.get(above) == Some(&Node::Folder))
        };
        let bytes = |node: Node| match node {
            Node::Folder => None,
            Node::File(index) => {
                let file = &self.files[index];
                let mut bytes =
                    if unsynced == Unsynced::Everything { &file.now } else { &file.synced }.clone();
                if unsynced == Unsynced::NamesAndLengths {
                    bytes.resize(file.now.len(), 0);
                }
                Some(bytes)
            }
        };
        let reachable = names.iter().filter(|(name, _)| is_reachable(name));
        reachable
            .map(|(name, &node)| (name.strip_prefix(folder).expect("below it").to_owned(), bytes(node)))
            .collect()
    }
}
