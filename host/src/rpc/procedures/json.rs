//! Values of procedures as JSON.

use selfsame_codec::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::limits::{MAX_INPUT, MAX_ITEM};
use super::wire::Failure;
use crate::rpc::RpcRefusal;

const NULL: &[u8] = b"null";

/// Returns a value's JSON, and no bytes for a value that says nothing, such as `()`.
pub(super) fn write<T: Serialize>(value: &T) -> Result<Vec<u8>, RpcRefusal> {
    let mut json = to_json(value)?;
    // `undefined` in JavaScript, where `null` is a value.
    if size_of::<T>() == 0 && json == NULL {
        json.clear();
    }
    Ok(json)
}

/// Returns an item's JSON.
pub(super) fn write_item<T: Serialize>(item: &T) -> Result<Vec<u8>, RpcRefusal> {
    let json = to_json(item)?;
    if json.len() > MAX_ITEM {
        tracing::error!(
            bytes = json.len(),
            "an item of a stream has at most {MAX_ITEM} bytes of JSON"
        );
        return Err(RpcRefusal(Code::HandlerFailed));
    }
    Ok(json)
}

fn to_json<T: Serialize>(value: &T) -> Result<Vec<u8>, RpcRefusal> {
    serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "a value of a procedure has no JSON");
        RpcRefusal(Code::HandlerFailed)
    })
}

/// Reads a value; no bytes are `null`.
pub(super) fn read<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(if json.is_empty() { NULL } else { json })
}

/// Reads an input of a stranger.
pub(super) fn read_input<T: DeserializeOwned>(json: &[u8]) -> Result<T, Failure> {
    if json.len() > MAX_INPUT {
        let text = format!("an input has at most {MAX_INPUT} bytes (got {})", json.len());
        return Err(Failure::of(Code::TooLarge, &text));
    }
    read(json).map_err(|error| match error.classify() {
        Category::Data => Failure::of_input(&error.to_string()),
        _ => Failure::of(Code::BadMessage, "an input is not JSON"),
    })
}
