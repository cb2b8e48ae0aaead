//! NVIDIA's run-time compiler. Loaded here and not by cudarc, which does not know every version's name,
//! and so that the one that fits the driver is taken: a compiler newer than the driver may write binaries
//! that the driver refuses.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::ptr;

use libloading::Library;

use crate::driver::{BuildFault, Fault};
use crate::kernel::Math;

type Program = *mut std::ffi::c_void;
type Code = c_int;

const SUCCESS: Code = 0;
const COMPILATION_FAILED: Code = 6;

/// The functions that are used, each as its header declares it.
pub(super) struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Code,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code,
    destroy: unsafe extern "C" fn(*mut Program) -> Code,
    log_size: Size,
    log: Fill,
    cubin_size: Size,
    cubin: Fill,
    ptx_size: Size,
    ptx: Fill,
    word: unsafe extern "C" fn(Code) -> *const c_char,
    version: (u32, u32),
    /// Architectures it compiles for, as 10 major + minor, ascending.
    architectures: Vec<u32>,
    /// Keeps the functions loaded.
    _library: Library,
}

type Size = unsafe extern "C" fn(Program, *mut usize) -> Code;
type Fill = unsafe extern "C" fn(Program, *mut c_char) -> Code;

/// What the compiler gives: a cubin or PTX, and what it remarked.
pub(super) struct Compiled {
    pub(super) code: Vec<u8>,
    #[cfg_attr(not(test), allow(dead_code, reason = "remarks on code that compiles are for our tests"))]
    pub(super) log: String,
}

impl Nvrtc {
    /// The compiler of the driver's own generation, else an older one, else any.
    pub(super) fn find(driver_major: u32) -> Result<Self, String> {
        let mut names = Vec::new();
        for major in (11..=driver_major).rev().chain(driver_major + 1..=driver_major.max(13) + 1) {
            names.extend(names_of(major));
        }
        names.push(format!("{}nvrtc{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
        let mut why = None;
        for name in &names {
            for folder in folders() {
                match Self::load(&folder.join(name)) {
                    Ok(nvrtc) => return Ok(nvrtc),
                    Err(word) => why = why.or(word),
                }
            }
        }
        let tried = format!("none of {} ... can be loaded", names[..names.len().min(3)].join(", "));
        Err(why.unwrap_or(tried))
    }

    /// Err(None): there is no such library; Err(why): there is, but it cannot be used.
    fn load(path: &std::path::Path) -> Result<Self, Option<String>> {
        // SAFETY: NVRTC's initialisers only prepare the compiler itself.
        let library = unsafe { Library::new(path) }.map_err(|_| None)?;
        // SAFETY: types as in nvrtc.h, unchanged since CUDA 11.2.
        unsafe { Self::from(library) }.map_err(|error| Some(format!("{}: {error}", path.display())))
    }

    /// # Safety
    /// `library` must be NVRTC.
    unsafe fn from(library: Library) -> Result<Self, libloading::Error> {
        // SAFETY: the symbols have the types of the fields that take them.
        unsafe {
            let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code =
                *library.get(b"nvrtcVersion\0")?;
            let (mut major, mut minor) = (0, 0);
            version(&raw mut major, &raw mut minor);
            let count: unsafe extern "C" fn(*mut c_int) -> Code =
                *library.get(b"nvrtcGetNumSupportedArchs\0")?;
            let fill: unsafe extern "C" fn(*mut c_int) -> Code = *library.get(b"nvrtcGetSupportedArchs\0")?;
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
                word: *library.get(b"nvrtcGetErrorString\0")?,
                version: (major.max(0) as u32, minor.max(0) as u32),
                architectures: architectures.iter().map(|&number: &c_int| number.max(0) as u32).collect(),
                _library: library,
            })
        }
    }

    /// "NVRTC 13.0"
    pub(super) fn title(&self) -> String {
        format!("NVRTC {}.{}", self.version.0, self.version.1)
    }

    /// Compiles for a device: to its machine code where this compiler knows the architecture, else to the
    /// newest PTX that the device can take, which the driver then compiles.
    pub(super) fn compile(
        &self,
        name: &str,
        text: &str,
        math: Math,
        capability: (u32, u32),
    ) -> Result<Compiled, BuildFault> {
        let own = 10 * capability.0 + capability.1;
        let is_known = self.architectures.is_empty() || self.architectures.contains(&own);
        let nearest = self.architectures.iter().copied().filter(|&architecture| architecture <= own).max();
        let target = match (is_known, nearest) {
            (false, Some(nearest)) => format!("compute_{nearest}"),
            _ => format!("sm_{own}"),
        };
        let mut options =
            vec![format!("--gpu-architecture={target}"), "--std=c++17".to_owned(), "--fmad=true".to_owned()];
        match math {
            Math::Precise => {}
            Math::FlushToZero => options.push("--ftz=true".to_owned()),
            Math::Fast => options.push("--use_fast_math".to_owned()),
        }
        let text = c_string(text)?;
        let name = c_string(name)?;
        let options = options.iter().map(|option| c_string(option)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: strings end in NUL and outlive the calls, the program is destroyed once, and buffers have
        // the sizes that the compiler asks for.
        unsafe {
            let mut program = ptr::null_mut();
            let (none, count) = (ptr::null(), options.len() as c_int);
            self.check(
                "nvrtcCreateProgram",
                (self.create)(&raw mut program, text.as_ptr(), name.as_ptr(), 0, none, none),
            )?;
            let result = self.finish((self.compile)(program, count, options.as_ptr()), program, is_known);
            (self.destroy)(&raw mut program);
            result
        }
    }

    /// # Safety
    /// `program` must be alive, and compiled with the result `code`.
    unsafe fn finish(&self, code: Code, program: Program, to_cubin: bool) -> Result<Compiled, BuildFault> {
        // SAFETY: as the caller says.
        unsafe {
            let log = self.bytes("nvrtcGetProgramLog", program, self.log_size, self.log)?;
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
            if code == COMPILATION_FAILED {
                return Err(BuildFault::Log(log));
            }
            if let Err(fault) = self.check("nvrtcCompileProgram", code) {
                let word = format!("{} {}", fault.word, log.trim()).trim_end().to_owned();
                return Err(Fault { word, ..fault }.into());
            }
            let code = if to_cubin {
                self.bytes("nvrtcGetCUBIN", program, self.cubin_size, self.cubin)?
            } else {
                self.bytes("nvrtcGetPTX", program, self.ptx_size, self.ptx)?
            };
            Ok(Compiled { code, log })
        }
    }

    /// # Safety
    /// `program` must be alive, and `size` and `fill` belong together.
    unsafe fn bytes(
        &self,
        call: &'static str,
        program: Program,
        size: Size,
        fill: Fill,
    ) -> Result<Vec<u8>, Fault> {
        let mut len = 0;
        // SAFETY: as the caller says; the buffer has the size that was asked for.
        unsafe {
            self.check(call, size(program, &raw mut len))?;
            let mut bytes = vec![0u8; len];
            if len > 0 {
                self.check(call, fill(program, bytes.as_mut_ptr().cast()))?;
            }
            Ok(bytes)
        }
    }

    fn check(&self, call: &'static str, code: Code) -> Result<(), Fault> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: NVRTC gives static strings, for unknown codes as well.
        let word = unsafe { CStr::from_ptr((self.word)(code)) };
        Err(Fault::new(call, word.to_string_lossy()))
    }
}

fn c_string(text: &str) -> Result<CString, Fault> {
    CString::new(text).map_err(|_| Fault::new("nvrtcCreateProgram", "the source has a NUL byte"))
}

/// The names that version `major` goes by.
fn names_of(major: u32) -> Vec<String> {
    if cfg!(windows) {
        // 11.2 is the last that renamed it within a generation.
        let minor = if major == 11 { 2 } else { 0 };
        return vec![format!("nvrtc64_{major}{minor}_0.dll")];
    }
    let mut names = vec![format!("libnvrtc.so.{major}")];
    if major == 11 {
        names.push("libnvrtc.so.11.2".to_owned());
    }
    names
}

/// Where to look: as the loader does, then where toolkits are installed.
fn folders() -> Vec<PathBuf> {
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
    use crate::kernel::Source;

    fn compiler() -> Option<Nvrtc> {
        match Nvrtc::find(13) {
            Ok(nvrtc) => Some(nvrtc),
            Err(why) => {
                println!("skipped: no NVRTC here: {why}");
                None
            }
        }
    }

    fn source<'a>(text: &'a str, definitions: &'a [(&'a str, String)], math: Math) -> (String, Source<'a>) {
        let source = Source { name: "some.cu", text, definitions, math };
        (source.whole(Backend::Cuda), source)
    }

    /// The prelude with every one of its words, and the ceilings, without as much as a warning.
    #[test]
    fn prelude_compiles_without_a_word() {
        let Some(nvrtc) = compiler() else { return };
        let every_word = include_str!("../../../tests/words.cu");
        let ceiling = include_str!("../../kernels/ceiling.cu");
        let values = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
            pairs.iter().map(|&(name, value)| (name, value.to_owned())).collect()
        };
        let sizes = [("BLOCK_SIZE", "256"), ("CHAINS", "8"), ("STEPS", "16"), ("AFTER_ROUND", "")];
        let f32_values = values(&[&sizes[..], &[("REAL", "float"), ("MULTIPLY_ADD", "FMA")]].concat());
        let f64_values = values(&[&sizes[..], &[("REAL", "double"), ("MULTIPLY_ADD", "FMA64")]].concat());
        let cases =
            [(every_word, values(&[("BLOCK_SIZE", "64")])), (ceiling, f32_values), (ceiling, f64_values)];
        for (text, definitions) in &cases {
            for math in [Math::Precise, Math::FlushToZero, Math::Fast] {
                let known = &nvrtc.architectures;
                for architecture in [known.first(), Some(&90), known.last()].into_iter().flatten() {
                    let (whole, source) = source(text, definitions, math);
                    let capability = (architecture / 10, architecture % 10);
                    let compiled = nvrtc.compile(source.name, &whole, math, capability);
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
    fn a_mistake_is_shown_with_file_and_line() {
        let Some(nvrtc) = compiler() else { return };
        let (whole, source) = source("KERNEL(32) f()\n{\n    no_such_thing = 1;\n}\n", &[], Math::Precise);
        match nvrtc.compile(source.name, &whole, Math::Precise, (9, 0)) {
            Err(BuildFault::Log(log)) => assert!(log.contains("some.cu(3): error"), "{log}"),
            other => panic!("{:?}", other.map(|compiled| compiled.log)),
        }
    }

    /// A device that is newer than the compiler gets PTX, which is text.
    #[test]
    fn an_unknown_architecture_gets_ptx() {
        let Some(nvrtc) = compiler() else { return };
        let (whole, source) = source("KERNEL(32) f()\n{\n}\n", &[], Math::Precise);
        match nvrtc.compile(source.name, &whole, Math::Precise, (99, 0)) {
            Ok(compiled) => assert!(String::from_utf8_lossy(&compiled.code).contains(".entry f")),
            Err(fault) => panic!("{fault:?}"),
        }
    }
}
