//! Reader of cubins, the ELF files of NVIDIA's compilers: which resources each kernel needs.
//!
//! The driver reports the same values for a loaded module, but it needs a GPU. Layout: section
//! `.text.NAME` has the code of kernel NAME, `.nv.shared.NAME` its shared memory, `.nv.info.NAME`
//! its attributes, and `.nv.info` attributes that name their kernel by its index in `.symtab`.
//! Section `.nv.constant3` has the variables in constant memory, which are symbols too. An
//! attribute starts with a byte for its format, a byte for its kind and 16 bits. For format 4 these
//! bits are the size of the value that follows. `cuobjdump -elf` prints all of this.

use std::ops::Range;

/// Attributes (EIATTR_...) that are read here.
const MAX_THREADS: u8 = 0x05;
const FRAME_SIZE: u8 = 0x11;
const MIN_STACK_SIZE: u8 = 0x12;
const KERNEL_PARAMETER: u8 = 0x17;
const REGISTER_COUNT: u8 = 0x2f;
/// Format of an attribute with a value of its own size.
const SIZED_VALUE: u8 = 4;

/// A kernel in a cubin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CubinKernel {
    pub(super) name: String,
    /// 32-bit registers per thread.
    pub(super) registers: u32,
    /// Bytes of the section of shared memory. Since compute capability 9.0 it includes 1 KiB that
    /// the system reserves.
    pub(super) shared_section_bytes: u32,
    /// Bytes per thread of local memory: spilled registers, and arrays with dynamic indices.
    pub(super) local_bytes: u32,
    /// Largest block size.
    pub(super) max_block_size: u32,
    /// Size of each parameter in bytes.
    pub(super) parameter_bytes: Vec<usize>,
}

/// Returns the kernels of a cubin, sorted by name, or None if it is not a valid cubin.
pub(super) fn read_kernels(cubin: &[u8]) -> Option<Vec<CubinKernel>> {
    let sections = read_sections(cubin)?;
    let mut kernels: Vec<CubinKernel> = Vec::new();
    for (name, _) in &sections {
        if let Some(name) = name.strip_prefix(".text.") {
            kernels.push(CubinKernel { name: name.to_owned(), ..CubinKernel::default() });
        }
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    let symbols = read_symbols(cubin, &sections)?;
    for (name, section) in &sections {
        let bytes = || cubin.get(section.range.clone());
        if name == ".nv.info" {
            for attribute in read_attributes(bytes()?)? {
                let symbol = u32_at(attribute.value, 0).and_then(|index| symbols.get(index as usize));
                if let Some(kernel) = symbol.and_then(|symbol| find_kernel(&mut kernels, &symbol.name)) {
                    kernel.add_attribute(&attribute, 4)?;
                }
            }
        } else if let Some(kernel) =
            name.strip_prefix(".nv.info.").and_then(|name| find_kernel(&mut kernels, name))
        {
            for attribute in read_attributes(bytes()?)? {
                kernel.add_attribute(&attribute, 0)?;
            }
        } else if let Some(kernel) =
            name.strip_prefix(".nv.shared.").and_then(|name| find_kernel(&mut kernels, name))
        {
            kernel.shared_section_bytes = u32::try_from(section.range.len()).ok()?;
        }
    }
    Some(kernels)
}

/// Returns the names and sizes in bytes of the variables in constant memory, or None if it is not a
/// valid cubin.
pub(super) fn read_constants(cubin: &[u8]) -> Option<Vec<(String, usize)>> {
    let sections = read_sections(cubin)?;
    let Some(constants) = sections.iter().position(|(name, _)| name == ".nv.constant3") else {
        return Some(Vec::new());
    };
    let mut found = Vec::new();
    for symbol in read_symbols(cubin, &sections)? {
        if symbol.section == constants && symbol.bytes > 0 {
            found.push((symbol.name, symbol.bytes));
        }
    }
    Some(found)
}

fn find_kernel<'a>(kernels: &'a mut [CubinKernel], name: &str) -> Option<&'a mut CubinKernel> {
    kernels.iter_mut().find(|kernel| kernel.name == name)
}

impl CubinKernel {
    /// Stores an attribute, whose value starts at `start`. Ignores other attributes.
    fn add_attribute(&mut self, attribute: &Attribute<'_>, start: usize) -> Option<()> {
        let value = |index: usize| u32_at(attribute.value, start + 4 * index);
        match attribute.kind {
            REGISTER_COUNT => self.registers = value(0)?,
            // The stack of the kernel alone, and with the functions that it calls.
            FRAME_SIZE | MIN_STACK_SIZE => self.local_bytes = self.local_bytes.max(value(0)?),
            MAX_THREADS => {
                self.max_block_size = value(0)?.checked_mul(value(1)?)?.checked_mul(value(2)?)?;
            }
            KERNEL_PARAMETER => {
                // Word 1 has the index in its lower half, word 2 the size from bit 18 on.
                let (index, bytes) = ((value(1)? & 0xffff) as usize, (value(2)? >> 18) as usize);
                if self.parameter_bytes.len() <= index {
                    self.parameter_bytes.resize(index + 1, 0);
                }
                self.parameter_bytes[index] = bytes;
            }
            _ => {}
        }
        Some(())
    }
}

struct Attribute<'a> {
    kind: u8,
    /// Empty unless the format is [`SIZED_VALUE`].
    value: &'a [u8],
}

fn read_attributes(mut bytes: &[u8]) -> Option<Vec<Attribute<'_>>> {
    let mut attributes = Vec::new();
    while let Some((&[format, kind, low, high], rest)) = bytes.split_first_chunk() {
        let size = if format == SIZED_VALUE { usize::from(u16::from_le_bytes([low, high])) } else { 0 };
        let (value, rest) = rest.split_at_checked(size)?;
        attributes.push(Attribute { kind, value });
        bytes = rest;
    }
    Some(attributes)
}

struct Section {
    range: Range<usize>,
    /// Index of the section that this one refers to.
    link: usize,
}

/// Returns names and sections of a little-endian 64-bit ELF file. The range of a section without
/// contents in the file (shared memory) still has its size.
fn read_sections(elf: &[u8]) -> Option<Vec<(String, Section)>> {
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(u64_at(elf, 0x28)?).ok()?;
    let [entry_size, count, names] = [0x3a, 0x3c, 0x3e].map(|offset| u16_at(elf, offset));
    let (entry_size, names) = (usize::from(entry_size?), usize::from(names?));
    let mut headers = Vec::new();
    for index in 0..usize::from(count?) {
        let header = elf.get(table.checked_add(index * entry_size)?..)?;
        let start = usize::try_from(u64_at(header, 0x18)?).ok()?;
        let end = start.checked_add(usize::try_from(u64_at(header, 0x20)?).ok()?)?;
        headers
            .push((u32_at(header, 0)?, Section { range: start..end, link: u32_at(header, 0x28)? as usize }));
    }
    let names = elf.get(headers.get(names)?.1.range.clone())?;
    headers.into_iter().map(|(name, section)| Some((string_at(names, name)?, section))).collect()
}

struct Symbol {
    name: String,
    /// Index of the section that contains it.
    section: usize,
    bytes: usize,
}

/// Returns the symbols, in the order of `.symtab`.
fn read_symbols(elf: &[u8], sections: &[(String, Section)]) -> Option<Vec<Symbol>> {
    const SYMBOL_BYTES: usize = 24;
    let (_, table) = sections.iter().find(|(name, _)| name == ".symtab")?;
    let names = elf.get(sections.get(table.link)?.1.range.clone())?;
    let symbols = elf.get(table.range.clone())?.chunks_exact(SYMBOL_BYTES);
    symbols
        .map(|symbol| {
            let (section, bytes) = (usize::from(u16_at(symbol, 6)?), usize::try_from(u64_at(symbol, 16)?));
            Some(Symbol { name: string_at(names, u32_at(symbol, 0)?)?, section, bytes: bytes.ok()? })
        })
        .collect()
}

fn string_at(bytes: &[u8], offset: u32) -> Option<String> {
    let text = bytes.get(offset as usize..)?.split(|byte| *byte == 0).next()?;
    String::from_utf8(text.to_vec()).ok()
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}
