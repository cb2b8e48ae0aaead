//! Builds of kernel files: from memory, else from disk, else with the compiler.
//!
//! A build has a key: the BLAKE3 hash of everything that the binary depends on. That is the full
//! text (prelude, definitions and source), the precision, and the backend, device, architecture,
//! driver and compiler.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::cache::{self, Key};
use crate::choice::Backend;
use crate::device::Device;
use crate::driver::{BuildFault, Handle};
use crate::error::DeviceError;
use crate::kernel::{KernelSource, LoadedModule, Module, ModuleOrigin};

/// Builds of this process on one device, by key. The map is locked only to find a build, and a
/// build while it compiles: threads that need the same kernel compile it once, and threads that
/// need different kernels do not wait for one another.
#[derive(Default)]
pub(crate) struct Builds(Mutex<HashMap<Key, Arc<Mutex<KnownBuild>>>>);

/// Result of the builds with one key.
#[derive(Default)]
enum KnownBuild {
    /// None has succeeded.
    #[default]
    New,
    Module(Arc<LoadedModule>),
    /// Binary of a module with variables in constant memory. Every build loads such a module
    /// again, because its variables belong to one user.
    Binary(Vec<u8>),
}

impl Builds {
    /// Returns the module of a source, and compiles it if necessary.
    pub(crate) fn get_or_build(
        &self,
        device: &Device,
        source: &KernelSource<'_>,
    ) -> Result<Module, DeviceError> {
        let start = Instant::now();
        let backend = device.properties().backend;
        let text = source.with_prelude(backend);
        let key = build_key(device, source, &text);
        let build = Arc::clone(lock(&self.0).entry(key).or_default());
        let mut build = lock(&build);
        let loaded = match &*build {
            KnownBuild::Module(code) => {
                return Ok(Module::new(Arc::clone(code), ModuleOrigin::Memory, start.elapsed()));
            }
            KnownBuild::Binary(binary) => {
                let handle = device.driver().load_module(binary);
                LoadedBuild {
                    handle: handle.map_err(|fault| device.error_from(fault, None))?,
                    origin: ModuleOrigin::Memory,
                    binary: Vec::new(),
                }
            }
            KnownBuild::New => load_or_compile(device, source, &text, &key)?,
        };
        let LoadedBuild { handle, origin, binary } = loaded;
        // After the compiler, whose messages about a wrong declaration are better.
        let declarations =
            source.declarations(backend).map_err(|message| build_error(device, source, message))?;
        let has_variables = backend == Backend::Cuda && !declarations.constants.is_empty();
        let code = Arc::new(LoadedModule {
            device: device.clone(),
            name: source.name().to_owned(),
            definitions: source.definition_list(),
            handle,
            declarations,
            requested: Mutex::default(),
        });
        if !has_variables {
            *build = KnownBuild::Module(Arc::clone(&code));
        } else if origin != ModuleOrigin::Memory {
            *build = KnownBuild::Binary(binary);
        }
        Ok(Module::new(code, origin, start.elapsed()))
    }

    /// Returns the modules in memory, sorted by file and definitions. Waits for builds that run.
    pub(crate) fn modules(&self) -> Vec<Arc<LoadedModule>> {
        let builds: Vec<_> = lock(&self.0).values().cloned().collect();
        let module = |build: &Arc<Mutex<KnownBuild>>| match &*lock(build) {
            KnownBuild::Module(code) => Some(Arc::clone(code)),
            KnownBuild::New | KnownBuild::Binary(_) => None,
        };
        let mut modules: Vec<_> = builds.iter().filter_map(module).collect();
        modules.sort_by(|a, b| (&a.name, &a.definitions).cmp(&(&b.name, &b.definitions)));
        modules
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A module of the driver and its binary.
struct LoadedBuild {
    handle: Handle,
    origin: ModuleOrigin,
    binary: Vec<u8>,
}

fn load_or_compile(
    device: &Device,
    source: &KernelSource<'_>,
    text: &str,
    key: &Key,
) -> Result<LoadedBuild, DeviceError> {
    let driver = device.driver();
    // A binary that the driver rejects is treated as damaged: the kernel is compiled again and the
    // entry replaced.
    if let Some(binary) = cache::read_binary(key)
        && let Ok(handle) = driver.load_module(&binary)
    {
        return Ok(LoadedBuild { handle, origin: ModuleOrigin::Disk, binary });
    }
    match driver.compile_module(source.name(), text, source.compile_options()) {
        Ok((handle, binary)) => {
            if !binary.is_empty() {
                cache::write_binary(key, &binary);
            }
            Ok(LoadedBuild { handle, origin: ModuleOrigin::Compiled, binary })
        }
        Err(BuildFault::Fault(fault)) => Err(device.error_from(fault, None)),
        Err(BuildFault::Log(log)) => Err(build_error(device, source, log)),
    }
}

fn build_error(device: &Device, source: &KernelSource<'_>, log: String) -> DeviceError {
    DeviceError::Build {
        device: device.title(),
        name: source.name().to_owned(),
        definitions: source.definition_list(),
        log: log.trim_end().to_owned(),
    }
}

/// Version of the compiler options in `driver/`. Increase it with every change of them.
const OPTIONS_VERSION: &str = "options 4";

fn build_key(device: &Device, source: &KernelSource<'_>, text: &str) -> Key {
    let properties = device.properties();
    let parts = [
        text.to_owned(),
        format!("{:?}", source.math),
        properties.backend.to_string(),
        properties.name.clone(),
        properties.version.clone(),
        format!("{:?}", properties.capability),
        properties.driver.clone(),
        properties.compiler.clone(),
        OPTIONS_VERSION.to_owned(),
    ];
    let mut hasher = blake3::Hasher::new();
    for part in &parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}
