//! Errors of transports. Each message is one line.

use thiserror::Error;

use crate::tag::Tag;

/// An error of a transport, or of the start of MPI.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ClusterError {
    /// A rank failed and ended the whole group.
    #[error("rank {rank}: {message}")]
    Aborted {
        /// Rank that failed.
        rank: usize,
        /// Its error.
        message: String,
    },

    /// A message does not have the length of the buffer.
    #[error(
        "message from rank {from} with tag {tag} has {found} bytes, expected {expected}; do all ranks run the same \
         version of orrery?"
    )]
    Length {
        /// Sender.
        from: usize,
        /// Tag of the message.
        tag: Tag,
        /// Length of the message in bytes.
        found: usize,
        /// Length of the buffer in bytes, or the size of the elements of which the length should be
        /// a multiple.
        expected: usize,
    },

    /// A value sent between threads has another type than the receiver expects.
    #[error("value from rank {from} with tag {tag} has another type, expected {expected}")]
    Type {
        /// Sender.
        from: usize,
        /// Tag of the value.
        tag: Tag,
        /// Name of the expected type.
        expected: &'static str,
    },

    /// A message should name shared memory and does not.
    #[error("message from rank {from} with tag {tag} does not name shared memory")]
    Notice {
        /// Sender.
        from: usize,
        /// Tag of the message.
        tag: Tag,
    },

    /// The rank is outside the group.
    #[error("rank {rank} does not exist in a group of {size}")]
    Rank {
        /// Requested rank.
        rank: usize,
        /// Number of ranks.
        size: usize,
    },

    /// The ranks do not share memory, so only bytes can be sent.
    #[error("values without a fixed layout can only be sent between threads of one process")]
    SeparateMemory,

    /// The memory is not that of a CUDA device, or the transport does not accept such memory.
    #[error("memory of a device can only be sent from CUDA devices with a CUDA-aware MPI library")]
    DeviceMemory,

    /// A command of the leader could not be sent or read.
    #[error("a message of rank 0 cannot be read ({message}); do all ranks run the same version of orrery?")]
    Command {
        /// Reason.
        message: String,
    },

    /// A function of MPI failed.
    #[error("{call}: {message}")]
    Call {
        /// Name of the function.
        call: &'static str,
        /// Message of the library.
        message: String,
    },

    /// The library accepts calls from one thread only, and this is another one.
    #[error(
        "{library} was built for one thread per process (MPI_THREAD_FUNNELED or less), but runs need \
         MPI_THREAD_SERIALIZED"
    )]
    Thread {
        /// File of the library.
        library: String,
    },

    /// MPI is initialised at most once per process, and not used after its end.
    #[error("MPI {state} in this process")]
    State {
        /// "is already initialised" or "is finalised".
        state: &'static str,
    },

    /// A launcher started several processes, but there is no library with which they could
    /// communicate.
    #[error(
        "{launcher} started {} processes, but no MPI library could be loaded (tried {}); install the MPI of this \
         launcher, or set ORRERY_MPI_LIBRARY to its libmpi",
        size.map_or("several".to_owned(), |size| size.to_string()), attempts.join(", ")
    )]
    NoLibrary {
        /// Kind of launcher, for example "mpirun of Open MPI".
        launcher: &'static str,
        /// Number of processes according to the launcher's environment.
        size: Option<usize>,
        /// Files that were tried, with the reason of the failure if they exist.
        attempts: Vec<String>,
    },

    /// The library that the user named cannot be loaded.
    #[error("ORRERY_MPI_LIBRARY={path}: {message}")]
    NamedLibrary {
        /// Value of the variable.
        path: String,
        /// Reason of the failure.
        message: String,
    },

    /// The library lacks a function, so it is no MPI library.
    #[error("{library}: {name} is missing, so this is no MPI library")]
    NotMpi {
        /// File of the library.
        library: String,
        /// Missing function.
        name: &'static str,
    },

    /// The library belongs to another kind of launcher.
    #[error(
        "{launcher} started this process, but {library} is {version}; set ORRERY_MPI_LIBRARY to the libmpi of this \
         launcher"
    )]
    OtherLibrary {
        /// Kind of launcher.
        launcher: &'static str,
        /// File of the library.
        library: String,
        /// Version of the library.
        version: String,
    },

    /// The library does not belong to the launcher. Each process would compute everything alone.
    #[error(
        "{launcher} started {expected} processes ({variable}), but {library} ({version}) finds {found}, so each would \
         compute alone; {advice}"
    )]
    Size {
        /// Kind of launcher.
        launcher: &'static str,
        /// Number of processes according to the launcher's environment.
        expected: usize,
        /// Environment variable that says so.
        variable: &'static str,
        /// File of the library.
        library: String,
        /// Version of the library.
        version: String,
        /// Size of the library's communicator.
        found: usize,
        /// Advice for the user.
        advice: &'static str,
    },

    /// The variable that turns MPI off has another value.
    #[error("ORRERY_MPI={value}: expected off, or no such variable")]
    Switch {
        /// Value of the variable.
        value: String,
    },
}

impl ClusterError {
    /// Returns an error if a message does not have the expected length.
    pub(crate) fn check_length(from: usize, tag: Tag, found: usize, expected: usize) -> Result<(), Self> {
        if found == expected { Ok(()) } else { Err(Self::Length { from, tag, found, expected }) }
    }
}
