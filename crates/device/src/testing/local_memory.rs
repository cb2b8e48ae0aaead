//! Check of the local memory of kernels that a device without a GPU compiled.

use crate::driver::cuda::compile_only::{CompileOnlyCuda, CompiledKernel};

/// A kernel that may use local memory: spilled registers, or arrays with dynamic indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedLocalMemory {
    /// Kernel file.
    pub file: &'static str,
    /// Kernel.
    pub kernel: &'static str,
    /// Definitions that the module must have, each as "NAME=VALUE".
    pub definitions: &'static [&'static str],
    /// Largest number of bytes per thread.
    pub max_bytes: u32,
    /// Reason why it is accepted.
    pub reason: &'static str,
}

impl AllowedLocalMemory {
    /// Returns whether this entry is for `kernel`.
    fn matches(&self, kernel: &CompiledKernel) -> bool {
        let definitions: Vec<&str> = kernel.definitions.split(' ').collect();
        self.file == kernel.file
            && self.kernel == kernel.name
            && self.definitions.iter().all(|definition| definitions.contains(definition))
    }
}

impl CompileOnlyCuda {
    /// Checks the local memory of all kernels that were compiled so far, and that there are at
    /// least `min_kernels` of them. Kernels in PTX are only counted, because their local memory is
    /// unknown.
    ///
    /// # Panics
    /// If a kernel uses more local memory than the first entry of `allowed` that matches, or if
    /// there are fewer kernels.
    pub fn check_kernels(&self, min_kernels: usize, allowed: &[AllowedLocalMemory]) {
        let (kernels, device) = (self.kernels(), self.device.title());
        assert!(
            kernels.len() >= min_kernels,
            "{device}: expected {min_kernels} kernels, got {}",
            kernels.len()
        );
        println!("{device}: {} kernels", kernels.len());
        let mut failures = Vec::new();
        for kernel in &kernels {
            let CompiledKernel { file, definitions, name, resources } = kernel;
            let bytes = resources.spill_bytes.unwrap_or(0);
            let line = format!("{name} in {file} with {definitions}: {bytes} bytes");
            match allowed.iter().find(|entry| entry.matches(kernel)) {
                _ if bytes == 0 => {}
                Some(entry) if bytes <= entry.max_bytes => println!("{line}: {}", entry.reason),
                _ => failures.push(line),
            }
        }
        assert!(failures.is_empty(), "{device}: local memory that is not allowed:\n{}", failures.join("\n"));
    }
}
