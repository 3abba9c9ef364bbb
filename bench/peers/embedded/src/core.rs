use bench_pair::{Core, Outcome};
use wasmtime::{Engine, Instance, Memory, Module, OptLevel, Store, TypedFunc};

/// Epochs that a call may last; nothing advances them here, but the checks are in the code as in the product.
const EPOCHS: u64 = 1;
/// First size of the buffer for input.
const LEAST_INPUT: u32 = 64 * 1024;

/// A core in wasmtime, with one node once `create` was called
pub(crate) struct Embedded {
    store: Store<()>,
    memory: Memory,
    alloc: TypedFunc<u32, u32>,
    free: TypedFunc<(u32, u32), ()>,
    step: TypedFunc<(u32, u32, u32), u32>,
    create: TypedFunc<(u32, u32), u32>,
    input: u32,
    capacity: u32,
    handle: u32,
}

/// An engine set up as the product's host sets it up.
pub(crate) fn engine() -> Outcome<Engine> {
    let mut config = wasmtime::Config::new();
    config
        .wasm_relaxed_simd(false)
        .epoch_interruption(true)
        .cranelift_opt_level(OptLevel::Speed);
    Engine::new(&config).map_err(one_line)
}

/// An error of wasmtime without its backtrace.
pub(crate) fn one_line(error: impl core::fmt::Display) -> String {
    format!("{error:#}")
}

impl Embedded {
    /// Instantiates a core.
    pub(crate) fn new(engine: &Engine, module: &Module) -> Outcome<Self> {
        let mut store = Store::new(engine, ());
        store.set_epoch_deadline(EPOCHS);
        let instance = Instance::new(&mut store, module, &[]).map_err(one_line)?;
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or("the core exports no memory")?;
        Ok(Self {
            memory,
            alloc: instance.get_typed_func(&mut store, "alloc").map_err(one_line)?,
            free: instance.get_typed_func(&mut store, "free").map_err(one_line)?,
            step: instance.get_typed_func(&mut store, "step").map_err(one_line)?,
            create: instance.get_typed_func(&mut store, "create").map_err(one_line)?,
            input: 0,
            capacity: 0,
            handle: 0,
            store,
        })
    }

    /// Creates the node.
    pub(crate) fn create(&mut self, configuration: &[u8]) -> Outcome<()> {
        let len = self.write(configuration)?;
        self.handle = self
            .create
            .call(&mut self.store, (self.input, len))
            .map_err(one_line)?;
        if self.handle == 0 {
            Err("the core refused the configuration".into())
        } else {
            Ok(())
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Outcome<u32> {
        let len = u32::try_from(bytes.len()).map_err(|_| "input over 4 GiB")?;
        if self.capacity < len {
            if self.capacity > 0 {
                self.free
                    .call(&mut self.store, (self.input, self.capacity))
                    .map_err(one_line)?;
            }
            self.capacity = len.next_power_of_two().max(LEAST_INPUT);
            self.input = self
                .alloc
                .call(&mut self.store, self.capacity)
                .map_err(one_line)?;
        }
        let start = self.input as usize;
        let target = self
            .memory
            .data_mut(&mut self.store)
            .get_mut(start..start + bytes.len());
        target
            .ok_or("the core allocated outside its memory")?
            .copy_from_slice(bytes);
        Ok(len)
    }
}

impl Core for Embedded {
    fn step(&mut self, batch: &[u8]) -> Outcome<&[u8]> {
        let len = self.write(batch)?;
        self.store.set_epoch_deadline(EPOCHS);
        let header = self
            .step
            .call(&mut self.store, (self.handle, self.input, len))
            .map_err(one_line)?;
        read(self.memory.data(&self.store), header).ok_or_else(|| "the core points outside its memory".into())
    }
}

fn read(memory: &[u8], header: u32) -> Option<&[u8]> {
    let (at, rest) = memory.get(header as usize..)?.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*rest.first_chunk::<4>()?) as usize;
    let at = u32::from_le_bytes(*at) as usize;
    memory.get(at..at.checked_add(len)?)
}
