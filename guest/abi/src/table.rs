use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::single::Single;

/// Something that lives in a module and is stepped with batches
pub trait Machine: Sized {
    /// One made from a configuration; of one that is not usable, what `create` of the module gives in place of a handle.
    fn create(config: &[u8]) -> Result<Self, u32>;

    /// Takes a batch of inputs; the batch of outputs.
    fn step(&mut self, batch: &[u8]) -> &[u8];
}

/// Where an output lies: what the host reads after a call
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    ptr: usize,
    len: usize,
}

impl Header {
    fn of(bytes: &[u8]) -> Self {
        Self {
            ptr: bytes.as_ptr() as usize,
            len: bytes.len(),
        }
    }
}

struct Slot<M> {
    machine: M,
    header: Header,
}

struct Slots<M> {
    slots: Vec<Option<Box<Slot<M>>>>,
    answer: Vec<u8>,
    answer_header: Option<Box<Header>>,
}

/// What lives in a module, by its handles
pub struct Table<M>(Single<Slots<M>>);

impl<M: Machine> Table<M> {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self(Single::new(Slots {
            slots: Vec::new(),
            answer: Vec::new(),
            answer_header: None,
        }))
    }

    /// Adds what is made from a configuration and gives its handle, or what the machine says of one that is not usable.
    pub fn create(&self, config: &[u8]) -> u32 {
        let machine = match M::create(config) {
            Ok(machine) => machine,
            Err(refusal) => return refusal,
        };
        let slot = Box::new(Slot {
            machine,
            header: Header::of(&[]),
        });
        self.0
            .with(|table| match table.slots.iter().position(Option::is_none) {
                Some(free) => {
                    table.slots[free] = Some(slot);
                    (free + 1) as u32
                }
                None => {
                    table.slots.push(Some(slot));
                    table.slots.len() as u32
                }
            })
    }

    /// Steps what has this handle; null when nothing has.
    pub fn step(&self, handle: u32, batch: &[u8]) -> *const Header {
        self.0.with(|table| match slot(table, handle) {
            Some(Slot { machine, header }) => {
                *header = Header::of(machine.step(batch));
                &raw const *header
            }
            None => core::ptr::null(),
        })
    }

    /// Forgets what has this handle, which wipes its secrets.
    pub fn destroy(&self, handle: u32) {
        self.0.with(|table| {
            if let Some(place) = handle
                .checked_sub(1)
                .and_then(|at| table.slots.get_mut(at as usize))
            {
                *place = None;
            }
        });
    }

    /// Keeps an answer that belongs to no handle.
    pub fn keep(&self, answer: Vec<u8>) -> *const Header {
        self.0.with(|table| {
            table.answer = answer;
            let header = Header::of(&table.answer);
            &raw const **table.answer_header.insert(Box::new(header))
        })
    }
}

impl<M: Machine> Default for Table<M> {
    fn default() -> Self {
        Self::new()
    }
}

fn slot<M>(table: &mut Slots<M>, handle: u32) -> Option<&mut Slot<M>> {
    table
        .slots
        .get_mut(handle.checked_sub(1)? as usize)?
        .as_deref_mut()
}
