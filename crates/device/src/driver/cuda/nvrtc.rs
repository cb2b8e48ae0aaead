//! NVIDIA's run-time compiler (NVRTC).
//!
//! It is loaded here and not by cudarc for two reasons. cudarc does not know the file names of all
//! versions. And the version must match the driver: a compiler that is newer than the driver may
//! produce binaries that the driver rejects.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::ptr;

use libloading::Library;

use crate::driver::{BuildFault, CompileOptions, DriverFault};
use crate::kernel::Math;

type Program = *mut std::ffi::c_void;
/// nvrtcResult.
type ResultCode = c_int;

const SUCCESS: ResultCode = 0;
const COMPILATION_FAILED: ResultCode = 6;

/// Variable with the folder of the compiler that tests use. `cargo xtask test` sets it.
const TEST_FOLDER_VARIABLE: &str = "ORRERY_NVRTC_DIR";

/// The loaded library: its functions, with the types of nvrtc.h.
pub(super) struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> ResultCode,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> ResultCode,
    destroy: unsafe extern "C" fn(*mut Program) -> ResultCode,
    log_size: SizeFunction,
    log: FillFunction,
    cubin_size: SizeFunction,
    cubin: FillFunction,
    ptx_size: SizeFunction,
    ptx: FillFunction,
    error_string: unsafe extern "C" fn(ResultCode) -> *const c_char,
    version: (u32, u32),
    /// Supported architectures as 10 major + minor, ascending.
    architectures: Vec<u32>,
    /// Keeps the library loaded.
    _library: Library,
}

type SizeFunction = unsafe extern "C" fn(Program, *mut usize) -> ResultCode;
type FillFunction = unsafe extern "C" fn(Program, *mut c_char) -> ResultCode;

/// Result of a compilation: a cubin or PTX, and the compiler's log.
pub(super) struct Compiled {
    pub(super) code: Vec<u8>,
    #[cfg_attr(not(test), allow(dead_code, reason = "only tests read the log of code that compiles"))]
    pub(super) log: String,
}

/// Output of the compiler, for an architecture as 10 major + minor.
#[derive(Clone, Copy)]
enum Target {
    Cubin(u32),
    Ptx(u32),
}

impl Nvrtc {
    /// Loads the compiler with the driver's major version, else an older one, else any.
    pub(super) fn load_for_driver(driver_major: u32) -> Result<Self, String> {
        let mut names = Vec::new();
        for major in (11..=driver_major).rev().chain(driver_major + 1..=driver_major.max(13) + 1) {
            names.extend(library_names(major));
        }
        names.push(format!("{}nvrtc{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
        let mut why = None;
        for name in &names {
            for folder in library_folders() {
                match Self::load(&folder.join(name)) {
                    Ok(nvrtc) => return Ok(nvrtc),
                    Err(reason) => why = why.or(reason),
                }
            }
        }
        let tried = format!("none of {} ... can be loaded", names[..names.len().min(3)].join(", "));
        Err(why.unwrap_or(tried))
    }

    /// Loads the compiler for tests without a GPU: from the folder `ORRERY_NVRTC_DIR` if it is set,
    /// else as for the newest driver.
    pub(super) fn load_for_tests() -> Result<Self, String> {
        let Some(folder) = std::env::var_os(TEST_FOLDER_VARIABLE).map(PathBuf::from) else {
            return Self::load_for_driver(13);
        };
        // NVRTC opens its second library by name. The loader finds it if it is already loaded.
        for file in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if file.file_name().to_string_lossy().starts_with("libnvrtc-builtins.so") {
                // SAFETY: as in `load`. The library has only data for the compiler.
                std::mem::forget(unsafe { Library::new(file.path()) });
            }
        }
        let mut why = None;
        for name in library_names(13) {
            match Self::load(&folder.join(name)) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(reason) => why = why.or(reason),
            }
        }
        Err(why.unwrap_or_else(|| format!("{TEST_FOLDER_VARIABLE}={}: no NVRTC 13", folder.display())))
    }

    /// Loads the library at `path`. Err(None): there is none. Err(reason): it cannot be used.
    fn load(path: &std::path::Path) -> Result<Self, Option<String>> {
        // SAFETY: NVRTC's initialisers only affect the compiler.
        let library = unsafe { Library::new(path) }.map_err(|_| None)?;
        // SAFETY: the types are those of nvrtc.h, unchanged since CUDA 11.2.
        unsafe { Self::from_library(library) }.map_err(|error| Some(format!("{}: {error}", path.display())))
    }

    /// # Safety
    /// `library` must be NVRTC.
    unsafe fn from_library(library: Library) -> Result<Self, libloading::Error> {
        // SAFETY: the symbols have the types of the fields.
        unsafe {
            let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> ResultCode =
                *library.get(b"nvrtcVersion\0")?;
            let (mut major, mut minor) = (0, 0);
            version(&raw mut major, &raw mut minor);
            let count: unsafe extern "C" fn(*mut c_int) -> ResultCode =
                *library.get(b"nvrtcGetNumSupportedArchs\0")?;
            let fill: unsafe extern "C" fn(*mut c_int) -> ResultCode =
                *library.get(b"nvrtcGetSupportedArchs\0")?;
            let mut len = 0;
            count(&raw mut len);
            let mut architectures = vec![0; len.max(0) as usize];
            if len > 0 {
                fill(architectures.as_mut_ptr());
            }
            Ok(Self {
                create: *library.get(b"nvrtcCreateProgram\0")?,
                compile: *library.get(b"nvrtcCompileProgram\0")?,
                destroy: *library.get(b"nvrtcDestroyProgram\0")?,
                log_size: *library.get(b"nvrtcGetProgramLogSize\0")?,
                log: *library.get(b"nvrtcGetProgramLog\0")?,
                cubin_size: *library.get(b"nvrtcGetCUBINSize\0")?,
                cubin: *library.get(b"nvrtcGetCUBIN\0")?,
                ptx_size: *library.get(b"nvrtcGetPTXSize\0")?,
                ptx: *library.get(b"nvrtcGetPTX\0")?,
                error_string: *library.get(b"nvrtcGetErrorString\0")?,
                version: (major.max(0) as u32, minor.max(0) as u32),
                architectures: architectures.iter().map(|&number: &c_int| number.max(0) as u32).collect(),
                _library: library,
            })
        }
    }

    /// Returns name and version, for example "NVRTC 13.0".
    pub(super) fn title(&self) -> String {
        format!("NVRTC {}.{}", self.version.0, self.version.1)
    }

    /// Compiles for a device. If this compiler supports the architecture, the result is machine
    /// code. Otherwise it is PTX for the newest older architecture, which the driver then compiles.
    pub(super) fn compile(
        &self,
        name: &str,
        text: &str,
        options: CompileOptions,
        capability: (u32, u32),
    ) -> Result<Compiled, BuildFault> {
        let architecture = 10 * capability.0 + capability.1;
        let is_known = self.architectures.is_empty() || self.architectures.contains(&architecture);
        let nearest = self.architectures.iter().copied().filter(|&known| known <= architecture).max();
        let target = match (is_known, nearest) {
            (false, Some(nearest)) => Target::Ptx(nearest),
            _ => Target::Cubin(architecture),
        };
        self.compile_to(target, name, text, options)
    }

    /// Compiles to PTX, which takes two thirds of the time of a cubin.
    pub(super) fn compile_to_ptx(
        &self,
        name: &str,
        text: &str,
        options: CompileOptions,
        capability: (u32, u32),
    ) -> Result<Compiled, BuildFault> {
        self.compile_to(Target::Ptx(10 * capability.0 + capability.1), name, text, options)
    }

    fn compile_to(
        &self,
        target: Target,
        name: &str,
        text: &str,
        CompileOptions { math, max_registers }: CompileOptions,
    ) -> Result<Compiled, BuildFault> {
        let (to_cubin, target) = match target {
            Target::Cubin(architecture) => (true, format!("sm_{architecture}")),
            Target::Ptx(architecture) => (false, format!("compute_{architecture}")),
        };
        let mut options = vec![format!("--gpu-architecture={target}"), "--std=c++17".to_owned()];
        options.extend(math_options(math).into_iter().map(str::to_owned));
        options.extend(cache_options(self.version).iter().map(|option| (*option).to_owned()));
        options.extend(max_registers.map(|limit| format!("--maxrregcount={limit}")));
        let text = to_c_string(text)?;
        let name = to_c_string(name)?;
        let options = options.iter().map(|option| to_c_string(option)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: strings end with NUL and outlive the calls, the program is destroyed once, and
        // buffers have the sizes that the compiler reports.
        unsafe {
            let mut program = ptr::null_mut();
            let (none, count) = (ptr::null(), options.len() as c_int);
            self.check(
                "nvrtcCreateProgram",
                (self.create)(&raw mut program, text.as_ptr(), name.as_ptr(), 0, none, none),
            )?;
            let result =
                self.read_result((self.compile)(program, count, options.as_ptr()), program, to_cubin);
            (self.destroy)(&raw mut program);
            result
        }
    }

    /// Returns the binary of a compiled program, or the reason for the failure.
    ///
    /// # Safety
    /// `program` must be valid, and its compilation must have returned `code`.
    unsafe fn read_result(
        &self,
        code: ResultCode,
        program: Program,
        to_cubin: bool,
    ) -> Result<Compiled, BuildFault> {
        // SAFETY: the caller guarantees it.
        unsafe {
            let log = self.read_data("nvrtcGetProgramLog", program, self.log_size, self.log)?;
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
            if code == COMPILATION_FAILED {
                return Err(BuildFault::Log(log));
            }
            if let Err(fault) = self.check("nvrtcCompileProgram", code) {
                let message = format!("{} {}", fault.message, log.trim()).trim_end().to_owned();
                return Err(DriverFault { message, ..fault }.into());
            }
            let code = if to_cubin {
                self.read_data("nvrtcGetCUBIN", program, self.cubin_size, self.cubin)?
            } else {
                self.read_data("nvrtcGetPTX", program, self.ptx_size, self.ptx)?
            };
            Ok(Compiled { code, log })
        }
    }

    /// Reads data of a program, whose size `size` returns and which `fill` copies.
    ///
    /// # Safety
    /// `program` must be valid, and `size` and `fill` must belong together.
    unsafe fn read_data(
        &self,
        call: &'static str,
        program: Program,
        size: SizeFunction,
        fill: FillFunction,
    ) -> Result<Vec<u8>, DriverFault> {
        let mut len = 0;
        // SAFETY: the caller guarantees it, and the buffer has the reported size.
        unsafe {
            self.check(call, size(program, &raw mut len))?;
            let mut bytes = vec![0u8; len];
            if len > 0 {
                self.check(call, fill(program, bytes.as_mut_ptr().cast()))?;
            }
            Ok(bytes)
        }
    }

    fn check(&self, call: &'static str, code: ResultCode) -> Result<(), DriverFault> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: NVRTC returns static strings, for unknown codes too.
        let message = unsafe { CStr::from_ptr((self.error_string)(code)) };
        Err(DriverFault::new(call, message.to_string_lossy()))
    }
}

/// Returns the options for the arithmetic.
fn math_options(math: Math) -> Vec<&'static str> {
    let Some(flags) = math.flags() else { return vec!["--fmad=true", "--use_fast_math"] };
    let mut options = vec![if flags.no_contraction { "--fmad=false" } else { "--fmad=true" }];
    let optional = [
        (flags.flush_to_zero, "--ftz=true"),
        (flags.approximate_division, "--prec-div=false"),
        (flags.approximate_sqrt, "--prec-sqrt=false"),
    ];
    options.extend(optional.iter().filter(|(is_set, _)| *is_set).map(|(_, option)| option));
    options
}

/// Returns the options that disable the cache of the compiler, which exists since version 12.9.
///
/// That of NVRTC 13.0.88 ignores `--ftz`, `--prec-div` and `--prec-sqrt`: a kernel that was
/// compiled with other ones before, in any process, comes back with their arithmetic. `Builds` has
/// a cache that knows all options.
fn cache_options(version: (u32, u32)) -> &'static [&'static str] {
    if version >= (12, 9) { &["--no-cache"] } else { &[] }
}

fn to_c_string(text: &str) -> Result<CString, DriverFault> {
    CString::new(text).map_err(|_| DriverFault::new("nvrtcCreateProgram", "the source contains a NUL byte"))
}

/// Returns the file names of version `major`.
fn library_names(major: u32) -> Vec<String> {
    if cfg!(windows) {
        // 11.2 is the last minor version with a new name.
        let minor = if major == 11 { 2 } else { 0 };
        return vec![format!("nvrtc64_{major}{minor}_0.dll")];
    }
    let mut names = vec![format!("libnvrtc.so.{major}")];
    if major == 11 {
        names.push("libnvrtc.so.11.2".to_owned());
    }
    names
}

/// Returns the folders to search: first the empty path, for the loader's search path, then the
/// folders of toolkits.
fn library_folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::new()];
    for name in ["CUDA_PATH", "CUDA_HOME"] {
        if let Some(home) = std::env::var_os(name).filter(|home| !home.is_empty()) {
            folders.push(PathBuf::from(home).join(if cfg!(windows) { "bin" } else { "lib64" }));
        }
    }
    if cfg!(unix) {
        folders.push(PathBuf::from("/usr/local/cuda/lib64"));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Backend;
    use crate::kernel::{KernelFile, KernelSource, MathFlags};

    fn installed_compiler() -> Option<Nvrtc> {
        match Nvrtc::load_for_tests() {
            Ok(nvrtc) => Some(nvrtc),
            Err(why) => {
                println!("skipped: no NVRTC: {why}");
                None
            }
        }
    }

    fn source<'a>(
        text: &'a str,
        definitions: &'a [(&'a str, String)],
        math: Math,
    ) -> (String, KernelSource<'a>) {
        // SAFETY: the code is compiled and never launched.
        let file = unsafe { KernelFile::new("test.cu", text) };
        let source = KernelSource { file, definitions, math };
        (source.with_prelude(Backend::Cuda), source)
    }

    /// Compiles every macro of the prelude, and the ceiling kernels, for several architectures.
    #[test]
    fn prelude_compiles_without_warnings() {
        let Some(nvrtc) = installed_compiler() else { return };
        let every_macro = include_str!("../../../tests/dialect.cu");
        let textures = include_str!("../../../tests/textures.cu");
        let constants = include_str!("../../../tests/constants.cu");
        let ceiling = include_str!("../../kernels/ceiling.cu");
        let values = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
            pairs.iter().map(|&(name, value)| (name, value.to_owned())).collect()
        };
        let sizes = [("BLOCK_SIZE", "256"), ("CHAINS", "8"), ("STEPS", "16"), ("AFTER_ROUND", "")];
        let f32_values = values(&[&sizes[..], &[("REAL", "float"), ("MULTIPLY_ADD", "FMA")]].concat());
        let f64_values = values(&[&sizes[..], &[("REAL", "double"), ("MULTIPLY_ADD", "FMA64")]].concat());
        let block_size = values(&[("BLOCK_SIZE", "64")]);
        let cases = [
            (every_macro, block_size.clone()),
            (textures, block_size),
            (constants, values(&[("BLOCK_SIZE", "64"), ("COUNT", "8")])),
            (ceiling, f32_values),
            (ceiling, f64_values),
        ];
        for (text, definitions) in &cases {
            for math in [Math::Precise, Math::FlushToZero, Math::Fast] {
                let known = &nvrtc.architectures;
                for architecture in [known.first(), Some(&90), known.last()].into_iter().flatten() {
                    let (full_text, source) = source(text, definitions, math);
                    let capability = (architecture / 10, architecture % 10);
                    let compiled =
                        nvrtc.compile(source.name(), &full_text, source.compile_options(), capability);
                    match compiled {
                        Ok(compiled) => {
                            assert!(compiled.log.trim().is_empty(), "{}", compiled.log);
                            assert!(!compiled.code.is_empty());
                        }
                        Err(BuildFault::Log(log)) => panic!("{log}"),
                        Err(BuildFault::Fault(fault)) => panic!("{fault:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn every_flag_has_its_option() {
        let none = MathFlags::default();
        assert_eq!(math_options(Math::Precise), math_options(Math::Flags(none)));
        assert_eq!(math_options(Math::Precise), ["--fmad=true"]);
        assert_eq!(math_options(Math::FlushToZero), ["--fmad=true", "--ftz=true"]);
        assert_eq!(math_options(Math::Fast), ["--fmad=true", "--use_fast_math"]);
        let all = MathFlags {
            flush_to_zero: true,
            approximate_division: true,
            approximate_sqrt: true,
            no_contraction: true,
        };
        let options = ["--fmad=false", "--ftz=true", "--prec-div=false", "--prec-sqrt=false"];
        assert_eq!(math_options(Math::Flags(all)), options);
    }

    #[test]
    fn newer_compilers_do_not_use_their_cache() {
        assert!([(11, 8), (12, 8)].into_iter().all(|version| cache_options(version).is_empty()));
        assert!([(12, 9), (13, 0)].into_iter().all(|version| cache_options(version) == ["--no-cache"]));
    }

    #[test]
    fn every_flag_changes_the_code() {
        let Some(nvrtc) = installed_compiler() else { return };
        let text = "KERNEL(32) f(GLOBAL float* x)\n{\n    x[0] = SQRT(x[1] * x[2] + x[3]) / x[4];\n}\n";
        let none = MathFlags::default();
        let flags = [
            none,
            MathFlags { flush_to_zero: true, ..none },
            MathFlags { approximate_division: true, ..none },
            MathFlags { approximate_sqrt: true, ..none },
            MathFlags { no_contraction: true, ..none },
        ];
        let codes = flags.map(|flags| {
            let (full_text, source) = source(text, &[], Math::Flags(flags));
            match nvrtc.compile(source.name(), &full_text, source.compile_options(), (9, 0)) {
                Ok(compiled) if compiled.log.trim().is_empty() => compiled.code,
                other => panic!("{flags:?}: {:?}", other.map(|compiled| compiled.log)),
            }
        });
        let different: std::collections::HashSet<_> = codes.iter().collect();
        assert_eq!(different.len(), flags.len());
    }

    #[test]
    fn an_error_in_the_source_names_file_and_line() {
        let Some(nvrtc) = installed_compiler() else { return };
        let (full_text, source) =
            source("KERNEL(32) f()\n{\n    no_such_thing = 1;\n}\n", &[], Math::Precise);
        match nvrtc.compile(source.name(), &full_text, source.compile_options(), (9, 0)) {
            Err(BuildFault::Log(log)) => assert!(log.contains("test.cu(3): error"), "{log}"),
            other => panic!("{:?}", other.map(|compiled| compiled.log)),
        }
    }

    #[test]
    fn code_for_an_unknown_architecture_is_ptx() {
        let Some(nvrtc) = installed_compiler() else { return };
        let (full_text, source) = source("KERNEL(32) f()\n{\n}\n", &[], Math::Precise);
        match nvrtc.compile(source.name(), &full_text, source.compile_options(), (99, 0)) {
            Ok(compiled) => assert!(String::from_utf8_lossy(&compiled.code).contains(".entry f")),
            Err(fault) => panic!("{fault:?}"),
        }
    }
}
