//! The wasm core as a value: compile once, instantiate for each node, step.
//!
//! Everything a core can do goes through this file; the rest of the crate sees batches of bytes.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::sync::OnceLock;
use std::thread;

use selfsame_codec::{ABI_VERSION, Code, Config, INSECURE, REFUSED, capsule, rpc};
use wasmtime::{
    Engine, Instance, Memory, Module, OptLevel, Store, StoreLimits, StoreLimitsBuilder, TypedFunc,
};

#[cfg(feature = "cache")]
mod cache;
mod registers;

use registers::clear_upper_halves;

#[cfg(all(feature = "insecure", feature = "cli"))]
compile_error!(
    "the feature `insecure` is for benchmarks: the command `selfsame` takes no core without cryptography"
);

/// The core that this crate ships.
pub const CORE_WASM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/core.wasm"));

/// The core for closed networks that this crate ships.
pub const CLOSED_CORE_WASM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/core-closed.wasm"));

/// The module of admission to closed networks that this crate ships.
const ADMISSION_WASM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/admission.wasm"));

/// The module of capsules that this crate ships.
pub(crate) const CAPSULE_WASM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/capsule.wasm"));

/// The module of the RPC that this crate ships.
pub const RPC_WASM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rpc.wasm"));

/// A step takes microseconds to a few milliseconds; one that takes this long has run away.
const STEP_LIMIT: Duration = Duration::from_secs(10);
/// A node needs a few megabytes; this is where a leak ends instead of the machine's memory.
const MEMORY_LIMIT: usize = 256 * 1024 * 1024;
/// Parts into which the step limit is divided: a runaway step ends after the limit plus at most one part.
const TICKS_A_STEP: u32 = 10;
/// Smallest input buffer, so that ordinary batches never reallocate.
const LEAST_INPUT: usize = 64 * 1024;
/// Largest input buffer that is kept between steps.
const KEPT_INPUT: usize = 4 * 1024 * 1024;

/// What one instance of a core may use
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest time of one call.
    pub step: Duration,
    /// Most bytes of linear memory.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            step: STEP_LIMIT,
            memory: MEMORY_LIMIT,
        }
    }
}

/// Why a core cannot be used
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CoreError {
    /// The bytes are not a core: they do not compile, or an export is missing.
    NotACore(String),
    /// The core speaks another version of the boundary.
    WrongAbi(u32),
    /// The core refused the configuration, for this reason.
    Refused(Code),
    /// The core trapped: this instance is poisoned, what it stored is not.
    Trapped(String),
    /// An earlier call trapped.
    Poisoned,
}

impl fmt::Display for CoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotACore(why) => write!(f, "core.wasm cannot be used: {why}"),
            Self::WrongAbi(version) if version & INSECURE != 0 => {
                f.write_str("core.wasm is a build without cryptography, which is for benchmarks only")
            }
            Self::WrongAbi(version) => write!(
                f,
                "core.wasm speaks version {version} of the boundary, this host version {ABI_VERSION}: build both from one release"
            ),
            Self::Refused(code) => write!(f, "the core refuses the configuration: {code}"),
            Self::Trapped(why) => write!(f, "the core trapped and is started anew from its store: {why}"),
            Self::Poisoned => f.write_str("the core trapped before and takes no more calls"),
        }
    }
}

impl core::error::Error for CoreError {}

/// A compiled core; cheap to clone
#[derive(Clone)]
pub struct CoreModule {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    module: Module,
    limits: Limits,
    /// Version of the boundary that it must speak.
    version: u32,
}

impl CoreModule {
    /// The embedded core, compiled on first use and shared by all nodes of the process.
    ///
    /// # Errors
    /// [`CoreError::NotACore`] when the build embedded something else.
    pub fn embedded() -> Result<Self, CoreError> {
        static EMBEDDED: OnceLock<Result<CoreModule, CoreError>> = OnceLock::new();
        EMBEDDED
            .get_or_init(|| Self::compile_kept(CORE_WASM, ABI_VERSION))
            .clone()
    }

    /// The embedded core for closed networks, compiled on first use and shared by all their nodes of the process.
    ///
    /// # Errors
    /// [`CoreError::NotACore`] when the build embedded something else.
    pub fn closed() -> Result<Self, CoreError> {
        static CLOSED: OnceLock<Result<CoreModule, CoreError>> = OnceLock::new();
        CLOSED
            .get_or_init(|| Self::compile_kept(CLOSED_CORE_WASM, ABI_VERSION))
            .clone()
    }

    /// The embedded module of capsules, compiled on first use and shared by all replicas of the process.
    ///
    /// # Errors
    /// [`CoreError::NotACore`] when the build embedded something else.
    pub fn capsules() -> Result<Self, CoreError> {
        static CAPSULES: OnceLock<Result<CoreModule, CoreError>> = OnceLock::new();
        CAPSULES
            .get_or_init(|| Self::compile_kept(CAPSULE_WASM, capsule::ABI_VERSION))
            .clone()
    }

    /// The embedded module of the RPC, compiled on first use and shared by all clients and servers of the process.
    ///
    /// # Errors
    /// [`CoreError::NotACore`] when the build embedded something else.
    pub fn rpc() -> Result<Self, CoreError> {
        static RPC: OnceLock<Result<CoreModule, CoreError>> = OnceLock::new();
        RPC.get_or_init(|| Self::compile_kept(RPC_WASM, rpc::ABI_VERSION))
            .clone()
    }

    /// The embedded module of admission, compiled on first use and shared by all resolvers of the process.
    ///
    /// # Errors
    /// [`CoreError::NotACore`] when the build embedded something else.
    pub fn admission() -> Result<Self, CoreError> {
        static ADMISSION: OnceLock<Result<CoreModule, CoreError>> = OnceLock::new();
        ADMISSION
            .get_or_init(|| Self::compile_kept(ADMISSION_WASM, selfsame_codec::admission::ABI_VERSION))
            .clone()
    }

    fn compile_kept(wasm: &[u8], version: u32) -> Result<Self, CoreError> {
        let config = engine_config();
        #[cfg(feature = "cache")]
        let config = cache::with_cache(config);
        Self::compile_with(&config, wasm, Limits::default(), version)
    }

    /// Has [`Self::embedded`] keep what it compiles in a folder, and take it from there when another process has
    /// compiled it already, which needs a hundredth of the time. Must be called before anything uses the core, and the
    /// first call counts. A folder that cannot be used, or that others may write to, is not used.
    #[cfg(feature = "cache")]
    pub fn keep_compiled_in(folder: impl Into<std::path::PathBuf>) {
        cache::keep_in(folder.into());
    }

    /// Compiles a core.
    ///
    /// # Errors
    /// [`CoreError::NotACore`] when the bytes are no WebAssembly or import something.
    pub fn compile(wasm: &[u8], limits: Limits) -> Result<Self, CoreError> {
        Self::compile_with(&engine_config(), wasm, limits, ABI_VERSION)
    }

    fn compile_with(
        config: &wasmtime::Config,
        wasm: &[u8],
        limits: Limits,
        version: u32,
    ) -> Result<Self, CoreError> {
        let engine = Engine::new(config).map_err(not_a_core)?;
        let module = Module::new(&engine, wasm).map_err(not_a_core)?;
        if let Some(import) = module.imports().next() {
            let name = format!("it imports {}.{}", import.module(), import.name());
            return Err(CoreError::NotACore(name));
        }
        start_clock(&engine, limits.step / TICKS_A_STEP)?;
        Ok(Self {
            shared: Arc::new(Shared {
                engine,
                module,
                limits,
                version,
            }),
        })
    }

    /// A fresh instance without a node: for [`Core::derive`] and [`Core::verify`], or to [`Core::create`] one in.
    ///
    /// # Errors
    /// [`CoreError`] when an export is missing or of another type.
    pub fn instantiate(&self) -> Result<Core, CoreError> {
        Core::new(self)
    }
}

impl fmt::Debug for CoreModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreModule")
            .field("limits", &self.shared.limits)
            .finish_non_exhaustive()
    }
}

/// Whether this host takes a module that says that it speaks this version in place of the one that is wanted.
fn speaks(version: u32, wanted: u32) -> bool {
    version == wanted || (cfg!(feature = "insecure") && version == wanted | INSECURE)
}

/// Settings of every engine.
fn engine_config() -> wasmtime::Config {
    let mut config = wasmtime::Config::new();
    // Relaxed SIMD may differ between machines, and a core is the same everywhere.
    config
        .wasm_relaxed_simd(false)
        .epoch_interruption(true)
        .cranelift_opt_level(OptLevel::Speed);
    config
}

/// Advances the epoch until the engine is gone, so that a runaway call is interrupted.
fn start_clock(engine: &Engine, tick: Duration) -> Result<(), CoreError> {
    let engine = engine.weak();
    let clock = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            thread::sleep(tick);
        }
    };
    let spawned = thread::Builder::new().name("selfsame-epoch".into()).spawn(clock);
    spawned
        .map(drop)
        .map_err(|error| CoreError::NotACore(format!("no thread for its clock: {error}")))
}

fn not_a_core(error: wasmtime::Error) -> CoreError {
    CoreError::NotACore(format!("{error:#}"))
}

/// An instance of a core, with at most one node in it
pub struct Core {
    store: Store<StoreLimits>,
    memory: Memory,
    exports: Exports,
    input: Input,
    handle: u32,
    poisoned: bool,
}

struct Exports {
    alloc: TypedFunc<u32, u32>,
    free: TypedFunc<(u32, u32), ()>,
    create: TypedFunc<(u32, u32), u32>,
    step: TypedFunc<(u32, u32, u32), u32>,
    destroy: TypedFunc<u32, ()>,
    derive: TypedFunc<(u32, u32), u32>,
    verify: TypedFunc<(u32, u32), u32>,
}

/// The buffer in the core's memory that is reused for every input
#[derive(Clone, Copy, Default)]
struct Input {
    at: u32,
    capacity: u32,
}

impl Core {
    fn new(module: &CoreModule) -> Result<Self, CoreError> {
        let Shared {
            engine,
            module,
            limits,
            version: wanted,
        } = &*module.shared;
        let bounds = StoreLimitsBuilder::new()
            .memory_size(limits.memory)
            .instances(1)
            .memories(1);
        let mut store = Store::new(engine, bounds.build());
        store.limiter(|limits| limits);
        store.set_epoch_deadline(u64::from(TICKS_A_STEP) + 1);
        let instance = Instance::new(&mut store, module, &[]).map_err(not_a_core)?;
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or_else(|| CoreError::NotACore("it exports no memory".into()))?;
        let exports = Exports::new(&instance, &mut store)?;
        let abi_version = instance
            .get_typed_func::<(), u32>(&mut store, "abi_version")
            .map_err(not_a_core)?;
        let version = abi_version.call(&mut store, ()).map_err(not_a_core)?;
        if !speaks(version, *wanted) {
            return Err(CoreError::WrongAbi(version));
        }
        Ok(Self {
            store,
            memory,
            exports,
            input: Input::default(),
            handle: 0,
            poisoned: false,
        })
    }

    /// Creates the node.
    ///
    /// # Errors
    /// [`CoreError::Refused`] when the configuration is not usable.
    pub fn create(&mut self, config: &Config) -> Result<(), CoreError> {
        self.create_encoded(config.encode())
    }

    /// Creates what an encoded configuration describes, which is wiped.
    ///
    /// # Errors
    /// [`CoreError::Refused`] when the configuration is not usable.
    pub fn create_encoded(&mut self, mut encoded: Vec<u8>) -> Result<(), CoreError> {
        let written = self.write(&[&encoded]);
        zeroize::Zeroize::zeroize(&mut encoded);
        let input = written?;
        let handle = self.call(|store, exports| exports.create.call(store, input))?;
        // The configuration holds the seed: leave no copy of it in the buffer.
        self.memory_mut(input)?.fill(0);
        if handle != 0 && handle & REFUSED == 0 {
            self.handle = handle;
            return Ok(());
        }
        let code = u16::try_from(handle & !REFUSED).ok().and_then(Code::from_u16);
        Err(CoreError::Refused(code.unwrap_or(Code::BadConfig)))
    }

    /// Gives the node a batch, the time in the unit of its module and then items, and returns its answer, copied out once.
    ///
    /// # Errors
    /// [`CoreError::Trapped`] when the core failed; every later call fails too.
    pub fn step(&mut self, now: u64, items: &[u8]) -> Result<Vec<u8>, CoreError> {
        let (at, len) = self.write(&[&now.to_le_bytes(), items])?;
        let handle = self.handle;
        let header = self.call(|store, exports| exports.step.call(store, (handle, at, len)))?;
        self.read(header)
    }

    /// Derives identities and grants from seeds.
    ///
    /// # Errors
    /// [`CoreError::Trapped`] when the core failed.
    pub fn derive(&mut self, request: &[u8]) -> Result<Vec<u8>, CoreError> {
        let input = self.write(&[request])?;
        let header = self.call(|store, exports| exports.derive.call(store, input))?;
        self.memory_mut(input)?.fill(0);
        self.read(header)
    }

    /// Verifies signed bytes.
    ///
    /// # Errors
    /// [`CoreError::Trapped`] when the core failed.
    pub fn verify(&mut self, request: &[u8]) -> Result<Vec<u8>, CoreError> {
        let input = self.write(&[request])?;
        let header = self.call(|store, exports| exports.verify.call(store, input))?;
        // What is checked with a secret comes with it.
        self.memory_mut(input)?.fill(0);
        self.read(header)
    }

    /// Size of the core's memory in bytes.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.memory.data_size(&self.store)
    }

    fn call<R>(
        &mut self,
        function: impl FnOnce(&mut Store<StoreLimits>, &Exports) -> wasmtime::Result<R>,
    ) -> Result<R, CoreError> {
        if self.poisoned {
            return Err(CoreError::Poisoned);
        }
        self.store.set_epoch_deadline(u64::from(TICKS_A_STEP) + 1);
        clear_upper_halves();
        function(&mut self.store, &self.exports).map_err(|error| {
            self.poisoned = true;
            CoreError::Trapped(reason(&error))
        })
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(u32, u32), CoreError> {
        let len = parts.iter().map(|part| part.len()).sum();
        let capacity = self.input.capacity as usize;
        if capacity < len || (capacity > KEPT_INPUT && len <= KEPT_INPUT) {
            self.resize_input(len.max(LEAST_INPUT))?;
        }
        let input = (self.input.at, u32::try_from(len).map_err(|_| too_long())?);
        let mut rest = self.memory_mut(input)?;
        for part in parts {
            let (place, after) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = after;
        }
        Ok(input)
    }

    fn resize_input(&mut self, len: usize) -> Result<(), CoreError> {
        let old = core::mem::take(&mut self.input);
        if old.capacity > 0 {
            self.call(|store, exports| exports.free.call(store, (old.at, old.capacity)))?;
        }
        let capacity = u32::try_from(len.next_power_of_two()).map_err(|_| too_long())?;
        let at = self.call(|store, exports| exports.alloc.call(store, capacity))?;
        self.input = Input { at, capacity };
        Ok(())
    }

    fn memory_mut(&mut self, (at, len): (u32, u32)) -> Result<&mut [u8], CoreError> {
        let range = at as usize..at as usize + len as usize;
        self.memory
            .data_mut(&mut self.store)
            .get_mut(range)
            .ok_or_else(out_of_bounds)
    }

    fn read(&mut self, header: u32) -> Result<Vec<u8>, CoreError> {
        let data = self.memory.data(&self.store);
        let result = read_header(data, header)
            .map(<[u8]>::to_vec)
            .ok_or_else(out_of_bounds);
        self.poisoned |= result.is_err();
        result
    }
}

fn read_header(data: &[u8], header: u32) -> Option<&[u8]> {
    let (at, rest) = data.get(header as usize..)?.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*rest.first_chunk::<4>()?) as usize;
    let at = u32::from_le_bytes(*at) as usize;
    data.get(at..at.checked_add(len)?)
}

fn too_long() -> CoreError {
    CoreError::Trapped("an input is longer than its memory".into())
}

fn out_of_bounds() -> CoreError {
    CoreError::Trapped("it points outside its memory".into())
}

/// The cause of a trap in one line, without the backtrace of the guest.
fn reason(error: &wasmtime::Error) -> String {
    match error.downcast_ref::<wasmtime::Trap>() {
        Some(wasmtime::Trap::Interrupt) => "a call ran longer than its limit".into(),
        Some(trap) => trap.to_string(),
        None => error.root_cause().to_string(),
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The core wipes its keys when the node goes; a poisoned one cannot be trusted to.
        if self.handle != 0 && !self.poisoned {
            let handle = self.handle;
            // A trap while everything is dropped has nobody left to tell.
            _ = self.call(|store, exports| exports.destroy.call(store, handle));
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl Exports {
    fn new(instance: &Instance, store: &mut Store<StoreLimits>) -> Result<Self, CoreError> {
        Ok(Self {
            alloc: instance
                .get_typed_func(&mut *store, "alloc")
                .map_err(not_a_core)?,
            free: instance.get_typed_func(&mut *store, "free").map_err(not_a_core)?,
            create: instance
                .get_typed_func(&mut *store, "create")
                .map_err(not_a_core)?,
            step: instance.get_typed_func(&mut *store, "step").map_err(not_a_core)?,
            destroy: instance
                .get_typed_func(&mut *store, "destroy")
                .map_err(not_a_core)?,
            derive: instance
                .get_typed_func(&mut *store, "derive")
                .map_err(not_a_core)?,
            verify: instance
                .get_typed_func(&mut *store, "verify")
                .map_err(not_a_core)?,
        })
    }
}
