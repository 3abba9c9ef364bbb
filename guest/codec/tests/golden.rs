//! The golden vectors that the TypeScript mirror is tested with are what this codec gives.

#[path = "../examples/golden/main.rs"]
#[expect(dead_code, reason = "the example's entry point is not called here")]
mod golden;

const COMMITTED: &str = include_str!("../../../runtime/test/golden.json");

#[test]
fn the_committed_vectors_are_what_the_codec_gives() {
    assert_eq!(
        golden::golden(),
        COMMITTED,
        "run `cargo run -p selfsame-codec --example golden > runtime/test/golden.json` and adapt runtime/src/codec"
    );
}
