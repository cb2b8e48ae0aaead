//! Builds of kernel files: from memory, else from disk, else with the compiler.
//!
//! A build has a key: the BLAKE3 hash of everything that the binary depends on. That is the full
//! text (prelude, definitions and source), the precision, and the backend, device, architecture,
//! driver and compiler.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::cache::{self, Key};
use crate::choice::Backend;
use crate::device::Device;
use crate::driver::{BuildFault, Handle};
use crate::error::DeviceError;
use crate::kernel::{KernelSource, LoadedModule, Module, ModuleOrigin};

/// Modules that this process has built on one device, by key.
#[derive(Default)]
pub(crate) struct Builds(Mutex<KnownBuilds>);

#[derive(Default)]
struct KnownBuilds {
    modules: HashMap<Key, Arc<LoadedModule>>,
    /// Binaries of modules with variables in constant memory. Every build loads such a module
    /// again, because its variables belong to one user.
    binaries: HashMap<Key, Vec<u8>>,
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
        // Locked while compiling, so that two threads that need the same kernel compile it once.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = known.modules.get(&key) {
            let (code, origin) = (Arc::clone(code), ModuleOrigin::Memory);
            return Ok(Module::new(code, origin, start.elapsed()));
        }
        let loaded = match known.binaries.get(&key) {
            Some(binary) => {
                let handle = device.driver().load_module(binary);
                LoadedBuild {
                    handle: handle.map_err(|fault| device.error_from(fault, None))?,
                    origin: ModuleOrigin::Memory,
                    binary: Vec::new(),
                }
            }
            None => load_or_compile(device, source, &text, &key)?,
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
        if has_variables {
            known.binaries.entry(key).or_insert(binary);
        } else {
            known.modules.insert(key, Arc::clone(&code));
        }
        Ok(Module::new(code, origin, start.elapsed()))
    }

    /// Returns the modules in memory, sorted by file and definitions.
    pub(crate) fn modules(&self) -> Vec<Arc<LoadedModule>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut modules: Vec<_> = known.modules.values().cloned().collect();
        modules.sort_by(|a, b| (&a.name, &a.definitions).cmp(&(&b.name, &b.definitions)));
        modules
    }

    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = KnownBuilds::default();
    }
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
