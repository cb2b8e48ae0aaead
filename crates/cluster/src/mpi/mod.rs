//! Ranks as MPI processes.
//!
//! Only messages between two ranks are used, and they never block: `MPI_Isend`, `MPI_Irecv`,
//! `MPI_Test` and `MPI_Iprobe`. Collective operations are built on them in `collectives`, once for
//! all transports. So few functions depend on an ABI, a waiting rank can sleep, and the order of
//! sums is known.
//!
//! Invariant: memory that MPI reads or writes belongs to a [`Transfer`] or is borrowed by a
//! [`PendingMessages`]. Neither gives the memory back before its requests are complete.

mod calls;
mod chunks;
pub(crate) mod launcher;
mod library;
mod transfer;
mod wait;

use std::ffi::c_int;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use crate::error::ClusterError;
use crate::tag::Tag;
use calls::{Calls, RequestHandle};
pub(crate) use launcher::Launcher;
use launcher::LauncherKind;
pub(crate) use transfer::{PendingMessages, Transfer};

/// Time in which a rank that failed learns that a lower rank failed too. See [`Mpi::abort`].
const ELECTION: Duration = Duration::from_millis(100);
/// Time in which a launcher reads the last output of a process.
const LAST_OUTPUT: Duration = Duration::from_millis(100);
/// Time in which another rank ends this one.
const END_BY_OTHERS: Duration = Duration::from_millis(1500);
/// Time for the last messages of a run. Longer means that nobody receives them.
const LAST_MESSAGES: Duration = Duration::from_secs(10);

/// Whether this process has initialised MPI. It can do so only once.
static IS_INITIALIZED: AtomicBool = AtomicBool::new(false);

/// Address for empty messages. The address of an empty slice is arbitrary and may equal a constant
/// such as `MPI_IN_PLACE`. No byte is read or written here.
static EMPTY: AtomicU8 = AtomicU8::new(0);

/// This process as a rank of `MPI_COMM_WORLD`.
pub(crate) struct Mpi {
    /// Functions of the library. The lock ensures that there is one call at a time.
    calls: Mutex<Box<dyn Calls>>,
    rank: usize,
    size: usize,
    /// File of the library.
    library: String,
    /// Name and version of the library.
    version: String,
    is_cuda_aware: bool,
    /// Longest message in bytes. The same on all ranks.
    chunk: usize,
    /// The only thread that may call, if the library does not support several.
    only_thread: Option<ThreadId>,
    is_finalized: AtomicBool,
    /// Whether this rank has a core that no other rank uses. See `wait`.
    has_core: AtomicBool,
    /// Sends whose requests were dropped. Their buffers are freed when they are complete.
    detached: Mutex<Vec<Transfer>>,
}

/// A message or chunk that is not complete.
pub(crate) struct Request {
    handle: RequestHandle,
    bytes: usize,
    /// Sender and tag of a receive.
    receive: Option<(usize, Tag)>,
}

impl Mpi {
    /// Loads the library of the launcher and initialises MPI. Messages are divided into chunks of
    /// at most `chunk` bytes. Returns `None` if the launcher started only this process and there is
    /// no library: MPI is not needed then.
    pub(crate) fn connect(launcher: &Launcher, chunk: Option<usize>) -> Result<Option<Self>, ClusterError> {
        let library = match library::load_library(launcher) {
            Err(ClusterError::NoLibrary { size: Some(1), .. }) => return Ok(None),
            other => other?,
        };
        let path = library.path.display().to_string();
        let calls = calls::load_calls(&library)?;
        // MPI cannot be unloaded: its threads and exit handlers remain.
        std::mem::forget(library);
        let version = calls.library_version();
        if launcher.kind == LauncherKind::OpenMpi && version.starts_with("MPICH") {
            // MPICH would end the process in MPI_Init_thread, because it finds PMIx.
            let launcher = launcher.kind.name();
            return Err(ClusterError::OtherLibrary { launcher, library: path, version });
        }
        if IS_INITIALIZED.swap(true, Ordering::SeqCst) {
            return Err(ClusterError::State { state: "is already initialised" });
        }
        let is_serialized = calls.initialize()?;
        let (rank, size) = calls.rank_and_size()?;
        let is_known = launcher.size.is_some();
        let differs = |expected: &usize| if is_known { *expected != size } else { *expected > size };
        if let Some(expected) = launcher.least_size().filter(differs) {
            // The communicator contains only this process, so the end waits for nobody.
            calls.finalize()?;
            return Err(ClusterError::Size {
                launcher: launcher.kind.name(),
                expected,
                variable: launcher.size_variable,
                library: path,
                version,
                found: size,
                advice: launcher.kind.size_advice(),
            });
        }
        Ok(Some(Self {
            rank,
            size,
            library: path,
            version,
            is_cuda_aware: calls.is_cuda_aware(),
            calls: Mutex::new(calls),
            chunk: chunk.unwrap_or(chunks::MAX_CHUNK).clamp(1, chunks::MAX_CHUNK),
            only_thread: (!is_serialized).then(|| std::thread::current().id()),
            is_finalized: AtomicBool::new(false),
            has_core: AtomicBool::new(false),
            detached: Mutex::default(),
        }))
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns name and version of the library, and its file.
    pub(crate) fn description(&self) -> String {
        format!("{} ({})", self.version, self.library)
    }

    pub(crate) fn is_cuda_aware(&self) -> bool {
        self.is_cuda_aware
    }

    /// Sets whether this rank has a core that no other rank uses.
    pub(crate) fn set_has_core(&self, has_core: bool) {
        self.has_core.store(has_core, Ordering::Relaxed);
    }

    fn busy_time(&self) -> Duration {
        wait::busy_time(self.has_core.load(Ordering::Relaxed))
    }

    /// Locks the functions of MPI.
    fn calls(&self) -> Result<MutexGuard<'_, Box<dyn Calls>>, ClusterError> {
        if self.is_finalized.load(Ordering::SeqCst) {
            return Err(ClusterError::State { state: "is finalised" });
        }
        if self.only_thread.is_some_and(|thread| thread != std::thread::current().id()) {
            return Err(ClusterError::Thread { library: self.library.clone() });
        }
        Ok(self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts to send a message and adds its chunks to `requests`, also if a later chunk fails.
    ///
    /// # Safety
    /// `length` bytes at `bytes` are readable and do not change until the requests are complete.
    unsafe fn start_send(
        &self,
        to: usize,
        tag: Tag,
        bytes: *const u8,
        length: usize,
        requests: &mut Vec<Request>,
    ) -> Result<(), ClusterError> {
        let calls = self.calls()?;
        for range in chunks::chunk_ranges(length, self.chunk) {
            // SAFETY: the range is within the message, or empty at its end.
            let start = if range.is_empty() { EMPTY.as_ptr() } else { unsafe { bytes.add(range.start) } };
            // SAFETY: the caller keeps the bytes, and an empty chunk has none.
            let handle = unsafe { calls.start_send(start, count_argument(range.len()), to, tag)? };
            requests.push(Request { handle, bytes: range.len(), receive: None });
        }
        Ok(())
    }

    /// Starts to receive a message and adds its chunks to `requests`, also if a later chunk fails.
    ///
    /// # Safety
    /// `length` bytes at `bytes` are writable, and nobody else uses them until the requests are
    /// complete.
    unsafe fn start_receive(
        &self,
        from: usize,
        tag: Tag,
        bytes: *mut u8,
        length: usize,
        requests: &mut Vec<Request>,
    ) -> Result<(), ClusterError> {
        for range in chunks::chunk_ranges(length, self.chunk) {
            // SAFETY: the range is within the buffer, or empty at its end.
            let start = unsafe { bytes.add(range.start) };
            // SAFETY: the caller leaves the bytes to MPI.
            requests.push(unsafe { self.start_chunk(from, tag, start, range.len())? });
        }
        Ok(())
    }

    /// Starts to receive one chunk.
    ///
    /// # Safety
    /// As for `start_receive`.
    unsafe fn start_chunk(
        &self,
        from: usize,
        tag: Tag,
        bytes: *mut u8,
        length: usize,
    ) -> Result<Request, ClusterError> {
        let bytes = if length == 0 { EMPTY.as_ptr() } else { bytes };
        // SAFETY: the caller leaves the bytes to MPI, and an empty chunk has none.
        let handle = unsafe { self.calls()?.start_receive(bytes, count_argument(length), from, tag)? };
        Ok(Request { handle, bytes: length, receive: Some((from, tag)) })
    }

    /// Removes the requests that are complete. Returns whether all are. A request with an error is
    /// complete.
    fn test(&self, requests: &mut Vec<Request>) -> Result<bool, ClusterError> {
        let calls = self.calls()?;
        let mut index = 0;
        while index < requests.len() {
            let outcome = match calls.test(&mut requests[index].handle) {
                Ok(None) => {
                    index += 1;
                    continue;
                }
                Ok(Some(status)) => Ok(status),
                Err(error) => Err(error),
            };
            let request = requests.swap_remove(index);
            let status = outcome?;
            if let Some((from, tag)) = request.receive {
                ClusterError::check_length(from, tag, calls.count(&status)?, request.bytes)?;
            }
        }
        Ok(requests.is_empty())
    }

    /// Waits until all requests are complete, or until `limit` has passed. Returns whether they are
    /// complete.
    fn wait(
        &self,
        requests: &mut Vec<Request>,
        limit: Option<Duration>,
        waited: &mut Duration,
    ) -> Result<bool, ClusterError> {
        let bytes = requests.iter().map(|request| request.bytes).sum();
        let busy = wait::busy_time_of_bytes(self.has_core.load(Ordering::Relaxed), bytes);
        let outcome = wait::repeat_until(busy, limit, waited, || Ok(self.test(requests)?.then_some(())))?;
        Ok(outcome.is_some())
    }

    /// Receives the next message of any length.
    pub(crate) fn receive(
        &self,
        from: usize,
        tag: Tag,
        waited: &mut Duration,
    ) -> Result<Vec<u8>, ClusterError> {
        let mut message = Vec::new();
        loop {
            let next_length = || {
                let calls = self.calls()?;
                let status = calls.probe(Some(from), tag)?;
                status.map(|status| calls.count(&status)).transpose()
            };
            let length =
                wait::repeat_until(self.busy_time(), None, waited, next_length)?.expect("there is no limit");
            let chunk = Transfer::receive_chunk(self, from, tag, length)?.wait(self, waited)?;
            if message.is_empty() {
                message = chunk;
            } else {
                message.extend_from_slice(&chunk);
            }
            if length < self.chunk {
                return Ok(message);
            }
        }
    }

    /// Waits at most `limit` for the next message, and returns whether it is there.
    pub(crate) fn wait_for_message(
        &self,
        from: usize,
        tag: Tag,
        limit: Duration,
        waited: &mut Duration,
    ) -> Result<bool, ClusterError> {
        let probe = || Ok(self.calls()?.probe(Some(from), tag)?.map(|_| ()));
        Ok(wait::repeat_until(self.busy_time(), Some(limit), waited, probe)?.is_some())
    }

    /// Keeps a send until it is complete.
    pub(crate) fn detach(&self, transfer: Transfer) {
        self.detached.lock().unwrap_or_else(PoisonError::into_inner).push(transfer);
        self.free_detached();
    }

    /// Frees the buffers of detached sends that are complete. Returns whether all are.
    fn free_detached(&self) -> bool {
        let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
        // Their errors have no receiver. MPI reports a broken connection to later calls as well.
        detached.retain_mut(|transfer| matches!(transfer.poll(self), Ok(false)));
        detached.is_empty()
    }

    /// Prints the message of this rank and ends all ranks. If several ranks fail at the same time,
    /// for example because all of them read the same file, only the lowest one prints: each rank
    /// that failed notifies all higher ranks, and prints its message if it has got no notice
    /// itself.
    pub(crate) fn abort(&self, message: &str, exit_status: u8) -> ! {
        // Without MPI nobody knows about the others.
        if self.is_lowest_failure().unwrap_or(true) {
            let place =
                if self.size > 1 { format!("rank {} of {}: ", self.rank, self.size) } else { String::new() };
            // One call, and time for the launcher to read it. It forwards nothing after the abort.
            let _ = std::io::stderr().write_all(format!("error: {place}{message}\n").as_bytes());
            std::thread::sleep(LAST_OUTPUT);
        } else {
            std::thread::sleep(END_BY_OTHERS);
        }
        if !self.is_finalized.load(Ordering::SeqCst) {
            self.calls.lock().unwrap_or_else(PoisonError::into_inner).abort(exit_status);
        }
        std::process::exit(i32::from(exit_status));
    }

    fn is_lowest_failure(&self) -> Result<bool, ClusterError> {
        let mut notices = Vec::new();
        for rank in self.rank + 1..self.size {
            // SAFETY: the notices are empty.
            unsafe { self.start_send(rank, Tag::FAILURE, EMPTY.as_ptr(), 0, &mut notices)? };
        }
        if self.rank == 0 {
            return Ok(true);
        }
        // Tests the own notices too, because they move only during calls.
        let notice_of_lower_rank = || {
            let _ = self.test(&mut notices)?;
            Ok(self.calls()?.probe(None, Tag::FAILURE)?.map(|_| ()))
        };
        let notice = wait::repeat_until(
            self.busy_time(),
            Some(ELECTION),
            &mut Duration::default(),
            notice_of_lower_rank,
        )?;
        Ok(notice.is_none())
    }

    /// Waits for detached sends and ends the use of MPI. All ranks must call it.
    pub(crate) fn finalize(&self) -> Result<(), ClusterError> {
        let all_sent = || Ok::<_, ClusterError>(self.free_detached().then_some(()));
        if wait::repeat_until(self.busy_time(), Some(LAST_MESSAGES), &mut Duration::default(), all_sent)?
            .is_none()
        {
            self.abort("internal error: a message was not received before the end of the run", 1);
        }
        let calls = self.calls()?;
        self.is_finalized.store(true, Ordering::SeqCst);
        calls.finalize()
    }
}

fn count_argument(count: usize) -> c_int {
    c_int::try_from(count).expect("chunks are below 2^31 bytes")
}
