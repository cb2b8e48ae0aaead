//! Launches on PoCL, which can abort the process if launches of one kernel overlap.
//!
//! PoCL keeps the code of a kernel for launches of up to a certain width, the number of threads
//! along the longest axis. A wider launch adds an entry. When a launch ends, PoCL 3.1 looks for its
//! entry by kernel and block size alone, and finds the newest one. If narrower launches end while a
//! wider one starts, they lower the wrong count, and the process can end with
//! `pocl_release_dlhandle_cache: Assertion 'found->ref_count > 0' failed`. It was seen once in five
//! runs of the tests of `particles` with an empty cache of PoCL.
//!
//! Here, a launch that is wider than all before of its kernel waits until nothing else runs, and
//! runs alone. All later launches that are not wider use its entry.
//!
//! The lock cost nothing measurable with PoCL 3.1 on two busy cores. The stress test in
//! `tests/parallel.rs` (8 threads, 24 kernels) took 9.6 and 11.2 s with it, 11.9 and 11.8 s without
//! it, and the same CPU time. It did not fail in four runs without the lock, which are too few to
//! exclude an abort that was seen in one of five. One lock for all builds made no difference either
//! (11.3 and 11.0 s).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use opencl3::command_queue as queues;
use opencl3::types::{cl_command_queue, cl_kernel};

use super::new_fault;
use crate::driver::DriverFault;

/// All devices of PoCL, because they share its table of kernels. Locked during a launch.
static LAUNCHES: Mutex<Launches> = Mutex::new(Launches { queues: Vec::new(), widest: BTreeMap::new() });

struct Launches {
    /// Addresses of all queues that exist.
    queues: Vec<usize>,
    /// Width of the widest launch of a kernel with a block size. Kernels are addresses.
    widest: BTreeMap<(usize, [usize; 3]), usize>,
}

/// Locks the launches of all devices.
fn launches() -> MutexGuard<'static, Launches> {
    LAUNCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a queue that was created.
pub(super) fn add_queue(queue: cl_command_queue) {
    launches().queues.push(queue as usize);
}

/// Removes a queue that is about to be released.
pub(super) fn remove_queue(queue: cl_command_queue) {
    launches().queues.retain(|known| *known != queue as usize);
}

/// Removes a kernel that is about to be released. Another one may get its address.
pub(super) fn remove_kernel(kernel: cl_kernel) {
    launches().widest.retain(|(known, _), _| *known != kernel as usize);
}

/// Calls `enqueue`, which adds a launch to `queue`.
pub(super) fn launch(
    queue: cl_command_queue,
    kernel: cl_kernel,
    block_size: [usize; 3],
    threads: [usize; 3],
    enqueue: impl FnOnce() -> Result<(), DriverFault>,
) -> Result<(), DriverFault> {
    let mut launches = launches();
    let (key, width) = ((kernel as usize, block_size), threads[0].max(threads[1]).max(threads[2]));
    if launches.widest.get(&key).is_some_and(|widest| width <= *widest) {
        return enqueue();
    }
    for &other in &launches.queues {
        // An error belongs to the work of that queue, whose user gets it.
        let _ = queues::finish(other as cl_command_queue);
    }
    enqueue()?;
    queues::finish(queue).map_err(|code| new_fault("clFinish", code))?;
    launches.widest.insert(key, width);
    Ok(())
}
