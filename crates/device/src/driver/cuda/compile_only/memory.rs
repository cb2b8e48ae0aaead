//! Memory of the device without a GPU: all of it is host memory.

use std::ptr;

use super::{CompileOnly, lock};
use crate::driver::{
    DriverFault, Handle, MappedMemory, MemoryDriver, MemorySlice, Pin, PitchedRows, PrefetchTarget,
    TextureDriver, TextureLimits, TextureObject,
};
use crate::properties::Memory;
use crate::texture::TextureSettings;

/// Bytes that [`MemoryDriver::memory`] reports. Benchmarks choose the sizes of their buffers from
/// it.
const MEMORY: Memory = Memory { free: 64 << 20, total: 64 << 20 };

fn pointer_of(memory: Handle) -> *mut u8 {
    memory.0 as usize as *mut u8
}

fn address_of(slice: MemorySlice) -> *mut u8 {
    pointer_of(slice.memory).wrapping_add(slice.offset)
}

// SAFETY of the blocks below: memory handles are addresses of `allocate`, and byte counts are
// within both ends of a copy (the contract in driver/mod.rs).
impl MemoryDriver for CompileOnly {
    fn memory(&self, _held_bytes: u64) -> Result<Memory, DriverFault> {
        Ok(MEMORY)
    }

    fn largest_buffer(&self, _held_bytes: u64) -> u64 {
        u64::MAX
    }

    fn allocate_memory(&self, bytes: u64) -> Result<Handle, DriverFault> {
        Ok(Handle(self.allocate(bytes as usize) as usize as u64))
    }

    unsafe fn free_memory(&self, memory: Handle) {
        lock(&self.memory).remove(&memory.0);
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<Pin, DriverFault> {
        let pointer = self.allocate(bytes);
        Ok(Pin { pointer, handle: Handle(pointer as usize as u64) })
    }

    unsafe fn free_pinned(&self, pin: Pin, _bytes: usize) {
        lock(&self.memory).remove(&pin.handle.0);
    }

    unsafe fn clear_memory(&self, _queue: Handle, memory: Handle, bytes: usize) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { ptr::write_bytes(pointer_of(memory), 0, bytes) };
        Ok(())
    }

    unsafe fn write(&self, _queue: Handle, to: MemorySlice, from: *const u8) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { ptr::copy(from, address_of(to), to.bytes) };
        Ok(())
    }

    unsafe fn read(&self, _queue: Handle, from: MemorySlice, to: *mut u8) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { ptr::copy(address_of(from), to, from.bytes) };
        Ok(())
    }

    unsafe fn write_async(&self, queue: Handle, to: MemorySlice, from: *const u8) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { self.write(queue, to, from) }
    }

    unsafe fn read_async(&self, queue: Handle, from: MemorySlice, to: *mut u8) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { self.read(queue, from, to) }
    }

    unsafe fn copy(&self, _queue: Handle, from: MemorySlice, to: MemorySlice) -> Result<(), DriverFault> {
        // SAFETY: see above.
        unsafe { ptr::copy(address_of(from), address_of(to), from.bytes) };
        Ok(())
    }

    unsafe fn write_rows(&self, _queue: Handle, to: PitchedRows, from: *const u8) -> Result<(), DriverFault> {
        for row in 0..to.rows {
            // SAFETY: see above.
            unsafe {
                ptr::copy(
                    from.add(row * to.row_bytes),
                    pointer_of(to.memory).add(row * to.pitch),
                    to.row_bytes,
                );
            }
        }
        Ok(())
    }

    unsafe fn read_rows(&self, _queue: Handle, from: PitchedRows, to: *mut u8) -> Result<(), DriverFault> {
        for row in 0..from.rows {
            // SAFETY: see above.
            unsafe {
                let source = pointer_of(from.memory).add(row * from.pitch);
                ptr::copy(source, to.add(row * from.row_bytes), from.row_bytes);
            }
        }
        Ok(())
    }

    unsafe fn copy_rows(
        &self,
        _queue: Handle,
        from: PitchedRows,
        to: PitchedRows,
    ) -> Result<(), DriverFault> {
        for row in 0..from.rows {
            // SAFETY: see above.
            unsafe {
                let source = pointer_of(from.memory).add(row * from.pitch);
                ptr::copy(source, pointer_of(to.memory).add(row * to.pitch), from.row_bytes);
            }
        }
        Ok(())
    }

    fn allocate_mapped(&self, bytes: usize) -> Result<MappedMemory, DriverFault> {
        let memory = Handle(self.allocate(bytes) as usize as u64);
        Ok(MappedMemory { memory, host: Some(memory) })
    }

    unsafe fn free_mapped(&self, mapped: MappedMemory) {
        lock(&self.memory).remove(&mapped.memory.0);
    }

    unsafe fn map(&self, mapped: MappedMemory, _bytes: usize) -> Result<*mut u8, DriverFault> {
        Ok(pointer_of(mapped.memory))
    }

    unsafe fn unmap(&self, _mapped: MappedMemory, _pointer: *mut u8) -> Result<(), DriverFault> {
        Ok(())
    }

    fn allocate_managed(&self, bytes: u64) -> Result<Handle, DriverFault> {
        self.allocate_memory(bytes)
    }

    unsafe fn prefetch(
        &self,
        _queue: Handle,
        _memory: MemorySlice,
        _target: PrefetchTarget,
    ) -> Result<(), DriverFault> {
        Ok(())
    }
}

/// Textures without texels, because no kernel reads them.
impl TextureDriver for CompileOnly {
    fn texture_limits(&self) -> Option<TextureLimits> {
        Some(TextureLimits { len: 1 << 27, size: [1 << 17, 1 << 16] })
    }

    unsafe fn create_texture_1d(&self, _memory: Handle, _len: usize) -> Result<TextureObject, DriverFault> {
        Ok(TextureObject { object: Handle(0), array: None, sampler: None })
    }

    unsafe fn create_texture_2d(
        &self,
        _queue: Handle,
        _size: [usize; 2],
        _texels: *const f32,
        _settings: TextureSettings,
    ) -> Result<TextureObject, DriverFault> {
        Ok(TextureObject { object: Handle(0), array: None, sampler: None })
    }

    unsafe fn free_texture(&self, _texture: TextureObject) {}
}
