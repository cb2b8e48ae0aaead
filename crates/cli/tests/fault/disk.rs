//! A disk rebuilt from the calls that a run made, as it may look after the power was cut.
//!
//! What POSIX promises and no more: a file's bytes are safe once the file was synced; that a name was given,
//! taken away or changed is safe once its folder was synced. What was not synced may have happened or not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A storage call, as the shim recorded it.
#[derive(Clone, Debug)]
pub struct Call {
    /// From 1; 0 for calls that only tell which file a descriptor is.
    pub number: usize,
    /// open, mkdir, write, sync, rename, truncate or unlink.
    pub kind: String,
    /// What the program was told.
    pub result: i64,
    /// Where a write went, or how long a truncated file became. For an open: 0 as it was, 1 made where it was
    /// not there, 2 emptied.
    pub offset: u64,
    /// What was written.
    pub bytes: Vec<u8>,
    /// Which file, where the call says so by name.
    pub path: PathBuf,
    /// Its name after a rename.
    pub new_path: PathBuf,
    /// Its descriptor, or -1.
    pub fd: i32,
}

impl Call {
    /// All calls of a log, in order.
    pub fn read(log: &Path) -> Vec<Self> {
        let log = fs::read(log).unwrap_or_else(|e| panic!("the shim wrote no log (is it loaded?): {e}"));
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

/// What a name stands for.
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
    /// A sync failed, and it was not emptied since: the system may take lost bytes for written ones.
    suspect: bool,
}

/// A change of names in one folder: happens whole or not at all.
#[derive(Clone, Debug)]
struct Change {
    taken: Option<PathBuf>,
    given: Option<(PathBuf, Node)>,
}

impl Change {
    fn folder(&self) -> &Path {
        let name = self.given.as_ref().map(|(name, _)| name).or(self.taken.as_ref());
        name.and_then(|name| name.parent()).expect("a name in a folder")
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        if let Some(name) = &self.taken {
            names.remove(name);
        }
        names.extend(self.given.clone());
    }
}

/// What of all that was not synced is there after the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// No name, no byte.
    Nothing,
    /// All names; files hold what they held when they were last synced.
    Names,
    /// All names, and files have their length; bytes that were not synced are zero.
    NamesAndLengths,
    /// Everything, as when only the process was killed.
    Everything,
    /// Each change of a name or not, by the bits of this number; bytes as synced.
    SomeNames(u64),
}

/// The disk as the program sees it, and what of it is safe.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    files: Vec<File>,
    names: BTreeMap<PathBuf, Node>,
    safe_names: BTreeMap<PathBuf, Node>,
    changes: Vec<Change>,
    open: BTreeMap<i32, Opened>,
}

/// What a descriptor stands for.
#[derive(Clone, Debug)]
enum Opened {
    Folder(PathBuf),
    File(usize),
}

impl Disk {
    /// One on which all this is safe.
    pub fn holding(folder: &Path, content: &BTreeMap<PathBuf, Option<Vec<u8>>>) -> Self {
        let mut disk = Self::default();
        for (name, bytes) in content {
            let node = match bytes {
                None => Node::Folder,
                Some(bytes) => {
                    disk.files.push(File { now: bytes.clone(), synced: bytes.clone(), suspect: false });
                    Node::File(disk.files.len() - 1)
                }
            };
            disk.names.insert(folder.join(name), node);
        }
        disk.safe_names = disk.names.clone();
        disk
    }

    /// Does what the call did. Panics where a sync is trusted that cannot be.
    pub fn apply(&mut self, call: &Call) {
        let failed = call.result < 0;
        match (call.kind.as_str(), failed) {
            ("open", false) => self.open(call),
            ("mkdir", false) => self.change(None, Some((call.path.clone(), Node::Folder))),
            ("unlink", false) => self.change(Some(call.path.clone()), None),
            ("rename", false) => {
                let node = *self.names.get(&call.path).expect("a name to change");
                self.change(Some(call.path.clone()), Some((call.new_path.clone(), node)));
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
                (Opened::File(_), true) => self.file(call).suspect = true,
                (Opened::File(_), false) => {
                    let number = call.number;
                    let file = self.file(call);
                    assert!(!file.suspect, "call {number} syncs a file again whose sync has failed");
                    file.synced = file.now.clone();
                }
            },
            _ => {}
        }
    }

    fn open(&mut self, call: &Call) {
        let node = match self.names.get(&call.path) {
            Some(node) => *node,
            // The folder that holds the run's was there before; all else was made by a call.
            None if call.offset == 0 => Node::Folder,
            None => {
                self.files.push(File::default());
                let node = Node::File(self.files.len() - 1);
                self.change(None, Some((call.path.clone(), node)));
                node
            }
        };
        let opened = match node {
            Node::Folder => Opened::Folder(call.path.clone()),
            Node::File(index) => {
                if call.offset == 2 {
                    (self.files[index].now, self.files[index].suspect) = (Vec::new(), false);
                }
                Opened::File(index)
            }
        };
        self.open.insert(call.fd, opened);
    }

    fn change(&mut self, taken: Option<PathBuf>, given: Option<(PathBuf, Node)>) {
        let change = Change { taken, given };
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn file(&mut self, call: &Call) -> &mut File {
        match &self.open[&call.fd] {
            Opened::File(index) => &mut self.files[*index],
            Opened::Folder(path) => panic!("{} is a folder", path.display()),
        }
    }

    /// How many changes of names are not safe.
    pub fn unsafe_changes(&self) -> usize {
        self.changes.len()
    }

    /// What lies in `folder` after the power was cut now.
    pub fn after_cut(&self, folder: &Path, unsynced: Unsynced) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
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
