//! Inputs that are a list: each item has a kind and a payload, framed as in a batch of the boundary. Targets that keep
//! state take them as operations, so that the mutator can remove, repeat and reorder whole operations.

/// One operation
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// What to do.
    pub(crate) kind: u8,
    /// With what.
    pub(crate) payload: Vec<u8>,
}

impl Item {
    /// An operation.
    pub(crate) fn new(kind: u8, payload: impl Into<Vec<u8>>) -> Self {
        let payload = payload.into();
        Self { kind, payload }
    }
}

/// Reads items up to the first one that is not whole.
pub(crate) fn parse(mut bytes: &[u8]) -> Vec<Item> {
    let mut items = Vec::new();
    while let Some((item, rest)) = split(bytes) {
        items.push(item);
        bytes = rest;
    }
    items
}

fn split(bytes: &[u8]) -> Option<(Item, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (len, rest) = rest.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    let (payload, rest) = rest.split_at_checked(len)?;
    Some((Item::new(*kind, payload), rest))
}

/// Writes items.
pub(crate) fn encode(items: &[Item]) -> Vec<u8> {
    let mut out = Vec::new();
    for Item { kind, payload } in items {
        out.push(*kind);
        let len = u32::try_from(payload.len()).expect("a payload is far below 4 GiB");
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(payload);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_up_to_the_first_broken_one() {
        let items = [Item::new(1, [2, 3]), Item::new(4, [])];
        let mut bytes = encode(&items);
        assert_eq!(parse(&bytes), items);
        bytes.extend_from_slice(&[9, 255, 0, 0, 0, 1]);
        assert_eq!(parse(&bytes), items);
    }
}
