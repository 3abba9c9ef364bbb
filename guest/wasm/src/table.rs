use alloc::boxed::Box;
use alloc::vec::Vec;

use selfsame_core::Node;
use selfsame_core::ring::Parameters;

use crate::single::Single;

/// What nodes of this build use.
#[cfg(not(feature = "large-table"))]
static PARAMETERS: Parameters = Parameters::DEFAULT;
/// Room for some millions of associations, each about a kilobyte.
#[cfg(feature = "large-table")]
static PARAMETERS: Parameters = Parameters {
    max_associations: 1 << 22,
    max_table_bytes: 3 << 30,
    ..Parameters::DEFAULT
};

/// Where an output lies: what the host reads after a call
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    ptr: usize,
    len: usize,
}

impl Header {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            ptr: bytes.as_ptr() as usize,
            len: bytes.len(),
        }
    }
}

struct Slot {
    node: Node,
    header: Header,
}

struct Table {
    slots: Vec<Option<Box<Slot>>>,
    answer: Vec<u8>,
    answer_header: Option<Box<Header>>,
}

static TABLE: Single<Table> = Single::new(Table {
    slots: Vec::new(),
    answer: Vec::new(),
    answer_header: None,
});

/// Adds a node; its handle is 0 when the configuration is not usable.
pub(crate) fn create(config: &[u8]) -> u32 {
    let Ok(node) = Node::with_parameters(config, &PARAMETERS) else {
        return 0;
    };
    let slot = Box::new(Slot {
        node,
        header: Header::of(&[]),
    });
    TABLE.with(|table| match table.slots.iter().position(Option::is_none) {
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

/// Steps a node; null when there is none with this handle.
pub(crate) fn step(handle: u32, batch: &[u8]) -> *const Header {
    TABLE.with(|table| match slot(table, handle) {
        Some(Slot { node, header }) => {
            *header = Header::of(node.step(batch));
            &raw const *header
        }
        None => core::ptr::null(),
    })
}

/// Forgets a node and wipes its secrets.
pub(crate) fn destroy(handle: u32) {
    TABLE.with(|table| {
        if let Some(place) = handle
            .checked_sub(1)
            .and_then(|at| table.slots.get_mut(at as usize))
        {
            *place = None;
        }
    });
}

/// Keeps an answer that belongs to no node.
pub(crate) fn keep(answer: Vec<u8>) -> *const Header {
    TABLE.with(|table| {
        table.answer = answer;
        let header = Header::of(&table.answer);
        &raw const **table.answer_header.insert(Box::new(header))
    })
}

fn slot(table: &mut Table, handle: u32) -> Option<&mut Slot> {
    table
        .slots
        .get_mut(handle.checked_sub(1)? as usize)?
        .as_deref_mut()
}
