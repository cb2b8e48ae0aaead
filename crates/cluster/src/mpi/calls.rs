//! Functions of an MPI library, with the differences between the ABIs hidden.
//!
//! | | Open MPI | MPICH | standard ABI |
//! |---|---|---|---|
//! | `MPI_Comm`, `MPI_Datatype`, `MPI_Errhandler`, `MPI_Request` | pointers | `int` | pointers |
//! | `MPI_COMM_WORLD` | `&ompi_mpi_comm_world` | 0x44000000 | 0x101 |
//! | `MPI_BYTE` | `&ompi_mpi_byte` | 0x4c00010d | 0x247 |
//! | `MPI_ERRORS_RETURN` | `&ompi_mpi_errors_return` | 0x54000001 | 0x143 |
//! | `MPI_ANY_SOURCE` | -1 | -2 | -1 |
//! | `MPI_THREAD_SERIALIZED` | 2 | 2 | 2048 |
//! | bytes of `MPI_Status` | 24 | 20 | 32 |
//!
//! The values are those of the headers `mpi.h` of Open MPI 4 and 5 and of MPICH 4 and 5, and of
//! `mpi_abi.h` of MPICH 5. The handle type is a parameter of the table of functions, so each
//! function is called with the argument types of its library.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::library::Library;
use crate::error::ClusterError;
use crate::tag::Tag;

/// Longest text of `MPI_Get_library_version` (MPICH: 8192) and of `MPI_Error_string` (512).
const MAX_TEXT: usize = 8192 + 1;

/// A handle of one ABI. Requests are kept as 64 bits outside this module.
trait Handle: Copy + Send + 'static {
    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
}

/// Handle of MPICH.
impl Handle for c_int {
    fn from_bits(bits: u64) -> Self {
        bits as u32 as Self
    }

    fn bits(self) -> u64 {
        u64::from(self as u32)
    }
}

/// Handle of Open MPI and of the standard ABI: an address or a small number. Never dereferenced
/// here.
impl Handle for usize {
    fn from_bits(bits: u64) -> Self {
        bits as Self
    }

    fn bits(self) -> u64 {
        self as u64
    }
}

/// Handle of a message that was started.
pub(super) struct RequestHandle(u64);

/// Status of a received message. Large enough for every ABI.
#[repr(C, align(8))]
pub(super) struct MpiStatus([u8; 64]);

impl MpiStatus {
    fn new() -> Self {
        Self([0; 64])
    }
}

/// MPI functions that the transport uses. Only bytes are sent, and the communicator is
/// `MPI_COMM_WORLD`. Counts are at most 2^31 - 1. The caller makes sure that calls come from one
/// thread at a time and after [`Calls::initialize`].
pub(super) trait Calls: Send {
    /// Initialises MPI. Returns whether any thread may call, as long as there is one call at a
    /// time.
    fn initialize(&self) -> Result<bool, ClusterError>;

    /// Returns rank and size.
    fn rank_and_size(&self) -> Result<(usize, usize), ClusterError>;

    /// Starts a send.
    ///
    /// # Safety
    /// `count` bytes at `bytes` are readable and do not change until the request is complete.
    unsafe fn start_send(
        &self,
        bytes: *const u8,
        count: c_int,
        to: usize,
        tag: Tag,
    ) -> Result<RequestHandle, ClusterError>;

    /// Starts a receive.
    ///
    /// # Safety
    /// `count` bytes at `bytes` are writable, and nobody else uses them until the request is
    /// complete.
    unsafe fn start_receive(
        &self,
        bytes: *mut u8,
        count: c_int,
        from: usize,
        tag: Tag,
    ) -> Result<RequestHandle, ClusterError>;

    /// Returns a status if the request is complete. After an error it is complete as well.
    fn test(&self, request: &mut RequestHandle) -> Result<Option<MpiStatus>, ClusterError>;

    /// Returns the status of the next message if one is there. `None` as sender means any rank.
    fn probe(&self, from: Option<usize>, tag: Tag) -> Result<Option<MpiStatus>, ClusterError>;

    /// Returns the number of bytes of a received or probed message.
    fn count(&self, status: &MpiStatus) -> Result<usize, ClusterError>;

    /// Ends all ranks. Usually does not return.
    fn abort(&self, exit_status: u8);

    /// Ends the use of MPI.
    fn finalize(&self) -> Result<(), ClusterError>;

    /// Returns the name and version of the library. Works before the initialisation.
    fn library_version(&self) -> String;

    /// Returns whether the library reports that it accepts addresses of CUDA devices.
    fn is_cuda_aware(&self) -> bool;
}

/// Declares the table of functions and its loader. All functions return an error code.
macro_rules! functions {
    ($($field:ident: $name:literal ($($argument:ty),*);)*) => {
        struct Functions<H> {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl<H: Handle> Functions<H> {
            /// Looks all functions up.
            ///
            /// # Safety
            /// `H` is the handle type of the library.
            unsafe fn load(library: &Library) -> Result<Self, ClusterError> {
                Ok(Self { $($field: {
                    // SAFETY: the type is the declaration of the MPI standard with the handles of
                    // the library.
                    let found = unsafe { symbol(library, concat!($name, "\0")) };
                    found.ok_or_else(|| missing(library, $name))?
                },)* })
            }
        }
    };
}

functions! {
    init_thread: "MPI_Init_thread"(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    initialized: "MPI_Initialized"(*mut c_int);
    comm_rank: "MPI_Comm_rank"(H, *mut c_int);
    comm_size: "MPI_Comm_size"(H, *mut c_int);
    comm_set_errhandler: "MPI_Comm_set_errhandler"(H, H);
    isend: "MPI_Isend"(*const c_void, c_int, H, c_int, c_int, H, *mut H);
    irecv: "MPI_Irecv"(*mut c_void, c_int, H, c_int, c_int, H, *mut H);
    test: "MPI_Test"(*mut H, *mut c_int, *mut MpiStatus);
    iprobe: "MPI_Iprobe"(c_int, c_int, H, *mut c_int, *mut MpiStatus);
    get_count: "MPI_Get_count"(*const MpiStatus, H, *mut c_int);
    abort: "MPI_Abort"(H, c_int);
    finalize: "MPI_Finalize"();
    error_string: "MPI_Error_string"(c_int, *mut c_char, *mut c_int);
    get_library_version: "MPI_Get_library_version"(*mut c_char, *mut c_int);
}

/// A library with the constants of its ABI.
struct Abi<H> {
    functions: Functions<H>,
    query_cuda_support: Option<unsafe extern "C" fn() -> c_int>,
    world: H,
    byte: H,
    errors_return: H,
    any_source: c_int,
    thread_serialized: c_int,
}

impl<H: Handle> Abi<H> {
    /// Looks the functions of a library up. `predefined` are the communicator of all ranks, the
    /// type of bytes, and the error handler that returns.
    ///
    /// # Safety
    /// `H` is the handle type of the library, and the constants are those of its ABI.
    unsafe fn load(
        library: &Library,
        predefined: [H; 3],
        any_source: c_int,
        thread_serialized: c_int,
    ) -> Result<Box<dyn Calls>, ClusterError> {
        let [world, byte, errors_return] = predefined;
        Ok(Box::new(Self {
            // SAFETY: the caller guarantees it.
            functions: unsafe { Functions::load(library)? },
            // SAFETY: the declaration in the headers of Open MPI and MPICH.
            query_cuda_support: unsafe { symbol(library, "MPIX_Query_cuda_support\0") },
            world,
            byte,
            errors_return,
            any_source,
            thread_serialized,
        }))
    }
}

/// Returns the functions of a library, whose ABI follows from its symbols.
pub(super) fn load_calls(library: &Library) -> Result<Box<dyn Calls>, ClusterError> {
    if let Some(world) = address(library, "ompi_mpi_comm_world\0") {
        let handle = |name: &'static str| {
            let found = address(library, name);
            found.ok_or_else(|| missing(library, name.trim_end_matches('\0')))
        };
        let predefined = [world, handle("ompi_mpi_byte\0")?, handle("ompi_mpi_errors_return\0")?];
        // SAFETY: handles of Open MPI are pointers.
        return unsafe { Abi::<usize>::load(library, predefined, -1, 2) };
    }
    if has_standard_abi(library) {
        // SAFETY: handles of the standard ABI are pointers.
        return unsafe { Abi::<usize>::load(library, [0x101, 0x247, 0x143], -1, 2048) };
    }
    // SAFETY: the library is neither Open MPI nor has it the standard ABI, and the remaining
    // libraries have the ABI of MPICH, whose handles are integers.
    unsafe { Abi::<c_int>::load(library, [0x4400_0000, 0x4c00_010d, 0x5400_0001], -2, 2) }
}

/// Returns whether the library has the standard ABI. MPICH 5 has the function of MPI 5 in both its
/// libraries, and in the one with its older ABI it returns version -1.
fn has_standard_abi(library: &Library) -> bool {
    // SAFETY: the declaration of MPI 5.
    let function: Option<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int> =
        unsafe { symbol(library, "MPI_Abi_get_version\0") };
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: both arguments are integers, and the function may be called before MPI_Init.
    function.is_some_and(|function| unsafe { function(&mut major, &mut minor) } == 0 && major >= 1)
}

/// Returns a symbol. `name` ends with a zero byte.
///
/// # Safety
/// `T` is a pointer to the type of the symbol.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Option<T> {
    // SAFETY: the caller gives the type.
    unsafe { library.handle.get::<T>(name.as_bytes()) }.ok().map(|symbol| *symbol)
}

fn address(library: &Library, name: &str) -> Option<usize> {
    // SAFETY: the symbol is an object, of which only the address is used.
    unsafe { symbol::<*const c_void>(library, name) }.map(|pointer| pointer as usize)
}

fn missing(library: &Library, name: &'static str) -> ClusterError {
    ClusterError::NotMpi { library: library.path.display().to_string(), name }
}

impl<H: Handle> Abi<H> {
    /// Returns the error for a code other than 0, which is `MPI_SUCCESS` in all ABIs.
    fn check(&self, call: &'static str, code: c_int) -> Result<(), ClusterError> {
        if code == 0 {
            return Ok(());
        }
        let message = read_text(|text, length| {
            // SAFETY: the buffer has the length that MPI requires.
            unsafe { (self.functions.error_string)(code, text, length) }
        });
        let message = message.unwrap_or_else(|| format!("error {code}"));
        // MPICH adds lines with its calls.
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        Err(ClusterError::Call { call, message })
    }
}

/// Calls a function that writes a text and its length, and returns the text.
fn read_text(call: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> Option<String> {
    let mut text = vec![0u8; MAX_TEXT];
    let mut length = 0;
    if call(text.as_mut_ptr().cast(), &mut length) != 0 {
        return None;
    }
    text.truncate(usize::try_from(length).ok()?);
    Some(String::from_utf8_lossy(&text).trim_end_matches('\0').trim().to_owned())
}

fn rank_argument(rank: usize) -> c_int {
    c_int::try_from(rank).expect("ranks are below the size of the communicator, an int")
}

impl<H: Handle> Calls for Abi<H> {
    fn initialize(&self) -> Result<bool, ClusterError> {
        let (mut is_initialized, mut provided) = (0, 0);
        // SAFETY: the function may be called at any time.
        self.check("MPI_Initialized", unsafe { (self.functions.initialized)(&mut is_initialized) })?;
        if is_initialized != 0 {
            return Err(ClusterError::State { state: "is already initialised" });
        }
        let (argc, argv) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: MPI was not initialised, and it allows null pointers for the arguments.
        let code = unsafe { (self.functions.init_thread)(argc, argv, self.thread_serialized, &mut provided) };
        self.check("MPI_Init_thread", code)?;
        // SAFETY: both handles are predefined.
        let code = unsafe { (self.functions.comm_set_errhandler)(self.world, self.errors_return) };
        self.check("MPI_Comm_set_errhandler", code)?;
        Ok(provided >= self.thread_serialized)
    }

    fn rank_and_size(&self) -> Result<(usize, usize), ClusterError> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: MPI is initialised, and the handle is predefined.
        self.check("MPI_Comm_rank", unsafe { (self.functions.comm_rank)(self.world, &mut rank) })?;
        // SAFETY: as above.
        self.check("MPI_Comm_size", unsafe { (self.functions.comm_size)(self.world, &mut size) })?;
        Ok((rank as usize, size as usize))
    }

    unsafe fn start_send(
        &self,
        bytes: *const u8,
        count: c_int,
        to: usize,
        tag: Tag,
    ) -> Result<RequestHandle, ClusterError> {
        let mut request = H::from_bits(0);
        let (to, tag) = (rank_argument(to), c_int::from(tag.number()));
        // SAFETY: the caller keeps the bytes until the request is complete.
        let code = unsafe {
            (self.functions.isend)(bytes.cast(), count, self.byte, to, tag, self.world, &mut request)
        };
        self.check("MPI_Isend", code)?;
        Ok(RequestHandle(request.bits()))
    }

    unsafe fn start_receive(
        &self,
        bytes: *mut u8,
        count: c_int,
        from: usize,
        tag: Tag,
    ) -> Result<RequestHandle, ClusterError> {
        let mut request = H::from_bits(0);
        let (from, tag) = (rank_argument(from), c_int::from(tag.number()));
        // SAFETY: the caller leaves the bytes to MPI until the request is complete.
        let code = unsafe {
            (self.functions.irecv)(bytes.cast(), count, self.byte, from, tag, self.world, &mut request)
        };
        self.check("MPI_Irecv", code)?;
        Ok(RequestHandle(request.bits()))
    }

    fn test(&self, request: &mut RequestHandle) -> Result<Option<MpiStatus>, ClusterError> {
        let mut handle = H::from_bits(request.0);
        let (mut is_complete, mut status) = (0, MpiStatus::new());
        // SAFETY: the request was started by this library. After its end it is MPI_REQUEST_NULL,
        // which may be tested too.
        let code = unsafe { (self.functions.test)(&mut handle, &mut is_complete, &mut status) };
        request.0 = handle.bits();
        self.check("MPI_Test", code)?;
        Ok((is_complete != 0).then_some(status))
    }

    fn probe(&self, from: Option<usize>, tag: Tag) -> Result<Option<MpiStatus>, ClusterError> {
        let (mut is_there, mut status) = (0, MpiStatus::new());
        let (from, tag) = (from.map_or(self.any_source, rank_argument), c_int::from(tag.number()));
        // SAFETY: MPI is initialised, and the status is large enough.
        let code = unsafe { (self.functions.iprobe)(from, tag, self.world, &mut is_there, &mut status) };
        self.check("MPI_Iprobe", code)?;
        Ok((is_there != 0).then_some(status))
    }

    fn count(&self, status: &MpiStatus) -> Result<usize, ClusterError> {
        let mut count = 0;
        // SAFETY: the status is of a received or probed message.
        self.check("MPI_Get_count", unsafe { (self.functions.get_count)(status, self.byte, &mut count) })?;
        usize::try_from(count).map_err(|_| ClusterError::Call {
            call: "MPI_Get_count",
            message: format!("found {count}, expected a number of bytes"),
        })
    }

    fn abort(&self, exit_status: u8) {
        // SAFETY: MPI is initialised. The call ends this process, usually without a return.
        unsafe { (self.functions.abort)(self.world, c_int::from(exit_status)) };
    }

    fn finalize(&self) -> Result<(), ClusterError> {
        // SAFETY: MPI is initialised, and the caller does not use it afterwards.
        self.check("MPI_Finalize", unsafe { (self.functions.finalize)() })
    }

    fn library_version(&self) -> String {
        let text = read_text(|text, length| {
            // SAFETY: the buffer has the length that MPI requires, and the function may be called
            // before MPI_Init.
            unsafe { (self.functions.get_library_version)(text, length) }
        });
        short_version(&text.unwrap_or_default())
    }

    fn is_cuda_aware(&self) -> bool {
        // SAFETY: the function has no arguments.
        self.query_cuda_support.is_some_and(|query| unsafe { query() } == 1)
    }
}

/// Returns the first line of a version up to a comma, with single spaces.
fn short_version(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let name = line.split(',').next().unwrap_or_default();
    name.split_whitespace().collect::<Vec<_>>().join(" ").replace("MPICH Version:", "MPICH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_keep_their_bits() {
        for bits in [0x4400_0000u64, 0x9c00_0001, u64::from(u32::MAX)] {
            assert_eq!(<c_int as Handle>::from_bits(bits).bits(), bits);
        }
        assert_eq!(<usize as Handle>::from_bits(0x7fff_1234_5678_9abc).bits(), 0x7fff_1234_5678_9abc);
    }

    #[test]
    fn versions_are_shortened_to_name_and_number() {
        let debian = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";
        assert_eq!(short_version(debian), "Open MPI v4.1.4");
        assert_eq!(short_version("MPICH Version:      5.0.2\nMPICH Release date: ..."), "MPICH 5.0.2");
        assert_eq!(short_version(""), "");
    }
}
