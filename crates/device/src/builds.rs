//! Building a source: from memory, else from the disk, else with the compiler.
//!
//! A key is the BLAKE3 hash of all that the binary depends on: the whole text (prelude, values and source),
//! the arithmetic, the backend, device, architecture, driver and compiler.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::cache::{self, Key};
use crate::device::Device;
use crate::driver::{BuildFault, Handle};
use crate::error::DeviceError;
use crate::kernel::{Code, Module, Origin, Source};

/// What this process has built on one device.
#[derive(Default)]
pub(crate) struct Builds(Mutex<HashMap<Key, Arc<Code>>>);

impl Builds {
    pub(crate) fn get(&self, device: &Device, source: &Source<'_>) -> Result<Module, DeviceError> {
        let start = Instant::now();
        let text = source.whole(device.properties().backend);
        let key = key(device, source, &text);
        // Held while compiling: two threads that want the same kernel compile it once.
        let mut builds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (code, origin) = match builds.get(&key) {
            Some(code) => (Arc::clone(code), Origin::Memory),
            None => {
                let (handle, origin) = load_or_compile(device, source, &text, &key)?;
                let code = Arc::new(Code { device: device.clone(), name: source.name.to_owned(), handle });
                builds.insert(key, Arc::clone(&code));
                (code, origin)
            }
        };
        Ok(Module { code, origin, build_time: start.elapsed() })
    }

    pub(crate) fn forget(&self) {
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
    // A binary that the driver refuses is as good as a damaged one: it is compiled anew and replaced.
    if let Some(handle) = cache::read(key).and_then(|binary| driver.load(&binary).ok()) {
        return Ok((handle, Origin::Disk));
    }
    match driver.compile(source.name, text, source.math) {
        Ok((handle, binary)) => {
            cache::write(key, &binary);
            Ok((handle, Origin::Compiled))
        }
        Err(BuildFault::Fault(fault)) => Err(device.fault(fault, None)),
        Err(BuildFault::Log(log)) => Err(DeviceError::Build {
            device: device.title(),
            name: source.name.to_owned(),
            definitions: source.values(),
            log: log.trim_end().to_owned(),
        }),
    }
}

/// To be counted up with every change of the options that the drivers hand to their compilers.
const OPTIONS: &str = "options 2";

fn key(device: &Device, source: &Source<'_>, text: &str) -> Key {
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
        OPTIONS.to_owned(),
    ];
    let mut hasher = blake3::Hasher::new();
    for part in &parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}
