//! Appending of frames to GSD files.

use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use super::chunks::{Chunk, frame_chunks, name_id};
use super::{
    APPLICATION, CHUNK_NAMES, ENTRY_BYTES, Entry, HEADER_BYTES, Header, NAME_UNIT_BYTES, SCHEMA, ValueType,
    read_u64,
};
use crate::error::{Fault, IoError};
use crate::fluid::trajectory::{HashedSink, TrajectoryFile};
use crate::fluid::{FluidFrame, quoted};
use crate::manifest;
use crate::storage::replace_unlisted_file;

/// 1.4: major version in the upper 16 bits.
const SCHEMA_VERSION: u32 = 1 << 16 | 4;
/// 2.0, which programs with an older library read as well.
const LAYER_VERSION: u32 = 2 << 16;
const NAMES_BYTES: u64 = 1024;
const RECORD_BYTES: u64 = 32;
const RECORD_MAGIC: [u8; 8] = *b"ORRERYIX";
/// Number of entries in the first index. A frame takes about six.
const FIRST_CAPACITY: u64 = 256;

/// Appends a frame.
pub(in crate::fluid) fn append(path: &Path, frame: &FluidFrame<'_>) -> Result<(), IoError> {
    let in_file = |fault: Fault| fault.in_file(path);
    let chunks = frame_chunks(frame).map_err(in_file)?;
    let opened = TrajectoryFile::open(path).and_then(|file| file.map(Appender::open).transpose());
    let appender = match opened.map_err(in_file)? {
        Some(appender) => appender.remove_frames_from(frame.time).map_err(in_file)?,
        None => None,
    };
    let mut hasher = blake3::Hasher::new();
    let (start, end) = match appender {
        Some(mut appender) => appender.append_frame(chunks, &mut hasher).map_err(in_file)?,
        None => {
            let mut range = (0, 0);
            replace_unlisted_file(path, |sink| {
                range = write_first_frame(sink, &chunks, &mut hasher)?;
                Ok(())
            })?;
            range
        }
    };
    manifest::add_frame(path, start, end - start, &hasher)
}

/// First byte, length and hash of a frame. The hash is that of its entries and its data.
pub(crate) type HashedFrame = (u64, u64, blake3::Hash);

/// Hashes the first `count` frames. Returns `None` as soon as `is_stopped` returns true.
pub(crate) fn hash_frames(
    path: &Path,
    count: usize,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<Vec<HashedFrame>>, Fault> {
    let Appender { mut file, entries, .. } = Appender::open(TrajectoryFile::open_read_only(path)?)?;
    let frames = entries.chunk_by(|a, b| a.frame == b.frame).take(count);
    let hash = |frame: &[Entry]| {
        if is_stopped() {
            return Ok(None);
        }
        let mut hasher = blake3::Hasher::new();
        let (start, end) = hash_entries(frame, &mut hasher);
        file.hash_range(start, end, &mut hasher)?;
        Ok(Some((start, end.saturating_sub(start), hasher.finalize())))
    };
    frames.map(hash).collect()
}

/// Hashes the entries of a frame. Returns the first byte and the end of its data.
fn hash_entries(entries: &[Entry], hasher: &mut blake3::Hasher) -> (u64, u64) {
    for entry in entries {
        hasher.update(&entry.to_bytes());
    }
    (entries.first().map_or(0, |first| first.location), entries.last().map_or(0, Entry::end))
}

/// Removes all frames at `time` or later. Returns false if no frame is left. The file is then
/// unchanged.
pub(in crate::fluid) fn remove_frames_from(file: TrajectoryFile, time: f64) -> Result<bool, Fault> {
    Ok(Appender::open(file)?.remove_frames_from(time)?.is_some())
}

/// Writes a file with one frame, and hashes the frame. Returns the first byte and the end of its
/// data.
fn write_first_frame(
    sink: &mut impl Write,
    chunks: &[Chunk<'_>],
    hasher: &mut blake3::Hasher,
) -> Result<(u64, u64), Fault> {
    let block = IndexBlock {
        location: HEADER_BYTES + NAMES_BYTES + RECORD_BYTES,
        capacity: FIRST_CAPACITY,
        previous: 0,
    };
    let header = Header {
        index_location: block.location,
        index_entries: chunks.len() as u64,
        names_location: HEADER_BYTES,
        names_units: NAMES_BYTES / NAME_UNIT_BYTES,
        schema_version: SCHEMA_VERSION,
        layer_version: LAYER_VERSION,
        application: APPLICATION.to_owned(),
        schema: SCHEMA.to_owned(),
    };
    sink.write_all(&header.to_bytes())?;
    sink.write_all(&names_bytes())?;
    let entries = place_chunks(chunks, 0, block.end());
    write_block(sink, &block, &entries)?;
    let range = hash_entries(&entries, hasher);
    // The chunks write a few bytes at a time.
    let mut buffered = BufWriter::with_capacity(1 << 16, HashedSink { sink, hasher });
    write_chunks(&mut buffered, chunks)?;
    buffered.flush()?;
    Ok(range)
}

/// Returns the list of names, each with a NUL at its end, filled up with NUL.
fn names_bytes() -> Vec<u8> {
    let mut bytes: Vec<u8> = CHUNK_NAMES.iter().flat_map(|name| name.bytes().chain([0])).collect();
    assert!(bytes.len() < NAMES_BYTES as usize, "the names must fit into their block");
    bytes.resize(NAMES_BYTES as usize, 0);
    bytes
}

/// Returns the entries of chunks that follow each other from `location` on.
fn place_chunks(chunks: &[Chunk<'_>], frame: u64, mut location: u64) -> Vec<Entry> {
    let place = |chunk: &Chunk<'_>| {
        let entry = chunk.entry(frame, location);
        location = entry.end();
        entry
    };
    chunks.iter().map(place).collect()
}

fn write_chunks(sink: &mut dyn Write, chunks: &[Chunk<'_>]) -> Result<(), Fault> {
    chunks.iter().try_for_each(|chunk| Ok((chunk.write)(sink)?))
}

/// Writes the record of an index, its entries, and zeros up to its capacity.
fn write_block(sink: &mut dyn Write, block: &IndexBlock, entries: &[Entry]) -> Result<(), Fault> {
    sink.write_all(&block.record_bytes())?;
    for entry in entries {
        sink.write_all(&entry.to_bytes())?;
    }
    for _ in entries.len() as u64..block.capacity {
        sink.write_all(&[0; ENTRY_BYTES as usize])?;
    }
    Ok(())
}

/// Position of an index, and its number of entries in use and free ones.
#[derive(Clone, Copy)]
struct IndexBlock {
    location: u64,
    capacity: u64,
    /// Position of the index before this one, or 0.
    previous: u64,
}

impl IndexBlock {
    fn end(&self) -> u64 {
        self.location + self.capacity * ENTRY_BYTES
    }

    /// Returns the record before the index: signature, position of the index before, capacity,
    /// zero.
    fn record_bytes(&self) -> [u8; RECORD_BYTES as usize] {
        let mut bytes = [0; RECORD_BYTES as usize];
        bytes[..8].copy_from_slice(&RECORD_MAGIC);
        bytes[8..16].copy_from_slice(&self.previous.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.capacity.to_le_bytes());
        bytes
    }

    /// Reads the record of the index at `location`.
    fn read(file: &mut TrajectoryFile, location: u64) -> Result<Self, Fault> {
        let mut bytes = [0; RECORD_BYTES as usize];
        let record = location.checked_sub(RECORD_BYTES).filter(|_| location <= file.length());
        let is_read = record.map(|record| file.read_at(record, &mut bytes)).transpose()?.is_some();
        let (previous, capacity) = (read_u64(&bytes, 8), read_u64(&bytes, 16));
        let is_possible = capacity.checked_mul(ENTRY_BYTES).and_then(|length| length.checked_add(location));
        // An index comes after the one before, so a chain of them ends.
        if !is_read
            || bytes[..8] != RECORD_MAGIC
            || previous >= location
            || is_possible.is_none_or(|end| end > file.length())
        {
            return Err(foreign_file("an index of another program"));
        }
        Ok(Self { location, capacity, previous })
    }
}

fn foreign_file(got: &str) -> Fault {
    Fault::malformed("content", got, "a GSD file that orrery has written")
}

/// Trajectory that is open for appending, with at least one frame.
struct Appender {
    file: TrajectoryFile,
    header: Header,
    block: IndexBlock,
    /// Entries in use.
    entries: Vec<Entry>,
}

impl Appender {
    /// Reads the index of a file.
    fn open(mut file: TrajectoryFile) -> Result<Self, Fault> {
        let file_bytes = file.length();
        if file_bytes < HEADER_BYTES {
            return Err(foreign_file("a shorter file"));
        }
        let mut bytes = [0; HEADER_BYTES as usize];
        file.read_at(0, &mut bytes)?;
        let header = Header::parse(&bytes, file_bytes)?;
        if header.application != APPLICATION || header.schema != SCHEMA {
            return Err(foreign_file(&format!("the application {}", quoted(&header.application))));
        }
        let mut names = vec![0; NAMES_BYTES as usize];
        file.read_at(header.names_location, &mut names)?;
        if names != names_bytes() {
            return Err(foreign_file("other names of chunks"));
        }
        let block = IndexBlock::read(&mut file, header.index_location)?;
        if header.index_entries == 0 || header.index_entries > block.capacity {
            return Err(foreign_file(&format!("{} entries", header.index_entries)));
        }
        // The header has checked that the index is within the file.
        let mut bytes = vec![0; (header.index_entries * ENTRY_BYTES) as usize];
        file.read_at(block.location, &mut bytes)?;
        let mut entries: Vec<Entry> = Vec::new();
        for (number, bytes) in bytes.chunks_exact(ENTRY_BYTES as usize).enumerate() {
            let entry = Entry::parse(bytes, number as u64, file_bytes)?;
            let last = entries.last().map_or((0, None), |last| (last.frame, Some(last.name)));
            match entry {
                Some(entry) if (entry.frame, Some(entry.name)) > last => entries.push(entry),
                _ => return Err(foreign_file("an index that is not sorted")),
            }
        }
        Ok(Self { file, header, block, entries })
    }

    /// Removes all frames at `time` or later, and the remains of an interrupted call. Returns
    /// `None` if no frame is left.
    fn remove_frames_from(mut self, time: f64) -> Result<Option<Self>, Fault> {
        let in_use = self.entries.len();
        while let Some(last) = self.entries.last() {
            let frame = last.frame;
            if self.time_of_frame(frame)? < time {
                break;
            }
            self.entries.truncate(self.entries.partition_point(|entry| entry.frame < frame));
        }
        let Some(end) = self.entries.last().map(Entry::end) else { return Ok(None) };
        if self.entries.len() < in_use {
            // A file that had never had the frames would still use a smaller index.
            while self.block.previous > 0 {
                let previous = IndexBlock::read(&mut self.file, self.block.previous)?;
                if previous.capacity < self.entries.len() as u64 {
                    break;
                }
                self.block = previous;
            }
            self.commit()?;
        }
        let used_end = self.block.location + self.entries.len() as u64 * ENTRY_BYTES;
        if self.entries.len() < in_use || self.file.length() != end || self.has_remains(used_end)? {
            self.file.overwrite(used_end, &vec![0; (self.block.end() - used_end) as usize])?;
            self.file.sync()?;
            // The length comes last. As long as it differs from the end, the next call repeats
            // this.
            self.file.truncate(end)?;
        }
        Ok(Some(self))
    }

    /// Returns true if the entries behind those in use are not zero. An interrupted call has
    /// written at most one per name.
    fn has_remains(&mut self, used_end: u64) -> Result<bool, Fault> {
        let length = (self.block.end() - used_end).min(CHUNK_NAMES.len() as u64 * ENTRY_BYTES);
        let mut bytes = vec![0; length as usize];
        self.file.read_at(used_end, &mut bytes)?;
        Ok(bytes.iter().any(|&byte| byte != 0))
    }

    /// Returns the time of a frame.
    fn time_of_frame(&mut self, frame: u64) -> Result<f64, Fault> {
        let name = name_id("log/orrery/time");
        let entry = self.entries.iter().rev().find(|entry| entry.frame == frame && entry.name == name);
        let entry = entry.filter(|entry| entry.kind == ValueType::F64 && entry.rows == 1);
        let location = entry.ok_or_else(|| foreign_file(&format!("no time of frame {frame}")))?.location;
        let mut bytes = [0; 8];
        self.file.read_at(location, &mut bytes)?;
        Ok(f64::from_le_bytes(bytes))
    }

    /// Writes the position of the index and the number of entries in use, and syncs them to disk.
    fn commit(&mut self) -> Result<(), Fault> {
        self.header.index_location = self.block.location;
        self.header.index_entries = self.entries.len() as u64;
        self.file.overwrite(8, &self.header.index_bytes())?;
        self.file.sync()
    }

    /// Appends a frame after the last one, and hashes it. Returns the first byte and the end of its
    /// data.
    fn append_frame(
        &mut self,
        mut chunks: Vec<Chunk<'_>>,
        hasher: &mut blake3::Hasher,
    ) -> Result<(u64, u64), Fault> {
        let mut is_new = Vec::new();
        for chunk in &chunks {
            is_new.push(self.is_new(chunk)?);
        }
        let mut is_new = is_new.into_iter();
        chunks.retain(|_| is_new.next().unwrap_or(true));
        let (end, in_use) = (self.file.length(), self.entries.len());
        let frame = self.entries.last().map_or(0, |last| last.frame + 1);
        let needed = (in_use + chunks.len()) as u64;
        let range;
        if needed <= self.block.capacity {
            let new = place_chunks(&chunks, frame, end);
            range = hash_entries(&new, hasher);
            self.file.append(hasher, |sink| write_chunks(sink, &chunks))?;
            let bytes: Vec<u8> = new.iter().flat_map(|entry| entry.to_bytes()).collect();
            self.file.overwrite(self.block.location + in_use as u64 * ENTRY_BYTES, &bytes)?;
            self.entries.extend(new);
        } else {
            // Entries are aligned, so none crosses the border of a sector.
            let padding = end.next_multiple_of(RECORD_BYTES) - end;
            let mut capacity = self.block.capacity;
            while capacity < needed {
                capacity *= 2;
            }
            let (location, previous) = (end + padding + RECORD_BYTES, self.block.location);
            let block = IndexBlock { location, capacity, previous };
            let mut entries = self.entries.clone();
            entries.extend(place_chunks(&chunks, frame, block.end()));
            range = hash_entries(&entries[in_use..], hasher);
            self.file.append(&mut blake3::Hasher::new(), |sink| {
                sink.write_all(&[0; RECORD_BYTES as usize][..padding as usize])?;
                write_block(sink, &block, &entries)
            })?;
            self.file.append(hasher, |sink| write_chunks(sink, &chunks))?;
            (self.block, self.entries) = (block, entries);
        }
        // The data must be on the disk before the header counts them.
        self.file.sync()?;
        self.commit()?;
        Ok(range)
    }

    /// Returns true if a chunk has to be written: if it differs from that of frame 0. The
    /// provenance is in frame 0 only.
    fn is_new(&mut self, chunk: &Chunk<'_>) -> Result<bool, Fault> {
        if chunk.name == name_id("log/orrery/provenance") {
            return Ok(false);
        }
        let first = self.entries.iter().find(|entry| entry.frame == 0 && entry.name == chunk.name);
        let Some(first) = first.copied().filter(|first| *first == chunk.entry(0, first.location)) else {
            return Ok(true);
        };
        let source = self.file.reader_at(first.location)?.take(first.end() - first.location);
        let mut comparison = Comparison { source, buffer: Vec::new() };
        match (chunk.write)(&mut comparison) {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sink that compares the bytes written to it with those of a source. It fails with `InvalidData`
/// at the first difference.
struct Comparison<R> {
    source: R,
    buffer: Vec<u8>,
}

impl<R: Read> Write for Comparison<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.resize(bytes.len(), 0);
        self.source.read_exact(&mut self.buffer)?;
        if self.buffer == bytes { Ok(bytes.len()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
