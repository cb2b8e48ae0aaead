//! Builds of kernel files: from memory, else from disk, else with the compiler.
//!
//! A build has a key: the BLAKE3 hash of everything that the binary depends on. That is the full
//! text (prelude, definitions and source), the precision, and the backend, device, architecture,
//! driver and compiler.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::cache::{self, Key};
use crate::device::Device;
use crate::driver::{BuildFault, Handle};
use crate::error::DeviceError;
use crate::kernel::{LoadedModule, Module, Origin, Source};

/// Modules that this process has built on one device, by key.
#[derive(Default)]
pub(crate) struct Builds(Mutex<HashMap<Key, Arc<LoadedModule>>>);

impl Builds {
    /// Returns the module of a source, and compiles it if necessary.
    pub(crate) fn get_or_build(&self, device: &Device, source: &Source<'_>) -> Result<Module, DeviceError> {
        let start = Instant::now();
        let text = source.with_prelude(device.properties().backend);
        let key = build_key(device, source, &text);
        // Locked while compiling, so that two threads that need the same kernel compile it once.
        let mut builds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (code, origin) = match builds.get(&key) {
            Some(code) => (Arc::clone(code), Origin::Memory),
            None => {
                let (handle, origin) = load_or_compile(device, source, &text, &key)?;
                // After the compiler, whose messages about a wrong declaration are better.
                let signatures = source
                    .signatures(device.properties().backend)
                    .map_err(|message| build_error(device, source, message))?;
                let name = source.name().to_owned();
                let code = Arc::new(LoadedModule { device: device.clone(), name, handle, signatures });
                builds.insert(key, Arc::clone(&code));
                (code, origin)
            }
        };
        Ok(Module { code, origin, build_time: start.elapsed() })
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn load_or_compile(
    device: &Device,
    source: &Source<'_>,
    text: &str,
    key: &Key,
) -> Result<(Handle, Origin), DeviceError> {
    let driver = device.driver();
    // A binary that the driver rejects is treated as damaged: the kernel is compiled again and the
    // entry replaced.
    if let Some(handle) = cache::read_binary(key).and_then(|binary| driver.load_module(&binary).ok()) {
        return Ok((handle, Origin::Disk));
    }
    match driver.compile_module(source.name(), text, source.compile_options()) {
        Ok((handle, binary)) => {
            if !binary.is_empty() {
                cache::write_binary(key, &binary);
            }
            Ok((handle, Origin::Compiled))
        }
        Err(BuildFault::Fault(fault)) => Err(device.error_from(fault, None)),
        Err(BuildFault::Log(log)) => Err(build_error(device, source, log)),
    }
}

fn build_error(device: &Device, source: &Source<'_>, log: String) -> DeviceError {
    DeviceError::Build {
        device: device.title(),
        name: source.name().to_owned(),
        definitions: source.definition_list(),
        log: log.trim_end().to_owned(),
    }
}

/// Version of the compiler options in `driver/`. Increase it with every change of them.
const OPTIONS_VERSION: &str = "options 2";

fn build_key(device: &Device, source: &Source<'_>, text: &str) -> Key {
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
