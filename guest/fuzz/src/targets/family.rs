//! `derive` and `verify`, which any page can call.

use selfsame_codec::Field;

use super::Target;
use super::lab::{NETWORK, START_MS, owner_grant};
use crate::mutate::Shape;

/// The functions as the wasm exports them.
#[path = "../../../wasm/src/family.rs"]
mod functions;

/// Bytes in, status and bytes out; the first byte chooses between the two
pub(super) struct Family;

impl Target for Family {
    fn name(&self) -> &'static str {
        "family"
    }

    fn weight(&self) -> usize {
        10
    }

    fn shape(&self) -> Shape {
        Shape::Bytes
    }

    fn seeds(&mut self) -> Vec<Vec<u8>> {
        let mut grant = vec![0, 3];
        [1_u8; 32].write(&mut grant);
        NETWORK.write(&mut grant);
        "check".write(&mut grant);
        [2_u8; 32].write(&mut grant);
        START_MS.write(&mut grant);
        (START_MS + 1000).write(&mut grant);
        [[3_u8; 32], [4_u8; 32]].as_flattened().write(&mut grant);
        let mut identity = vec![0, 1];
        [1_u8; 32].write(&mut identity);
        NETWORK.write(&mut identity);
        let mut verify = vec![1, 1];
        owner_grant().encoded().write(&mut verify);
        NETWORK.write(&mut verify);
        START_MS.write(&mut verify);
        vec![grant, identity, verify]
    }

    fn run(&mut self, input: &[u8]) {
        let answer = match input {
            [0, rest @ ..] => functions::derive(rest),
            [_, rest @ ..] => functions::verify(rest),
            [] => return,
        };
        let (status, result) = answer.split_at(2);
        assert!(status == [0, 0] || result.is_empty(), "an error brings no result");
    }
}
