//! A core that traps inside a running node: what was under way fails with one typed error, and the node goes on.

use core::time::Duration;
use std::time::Instant;

use selfsame_codec::ABI_VERSION;
use selfsame_host::{CoreError, CoreModule, Error, Event, Limits, Node};

use crate::common::module::core_of;

/// A core that gets ready, accepts `Join` and `Withdraw`, traps on `Status`, and runs away on anything else.
const TRAPS: &str = r#"
  (data (i32.const 0) "\40\00\00\00")                               ;; header of the answer: at 64
  (data (i32.const 64) "\23\05\00\00\00\01\00\00\00\00")            ;; Event Ready
  (data (i32.const 74) "\ff\08\00\00\00\ff\ff\ff\ff\ff\ff\ff\ff")   ;; Wake never
  (data (i32.const 128) "\20\08\00\00\00\00\00\00\00\00\00\00\00")  ;; Reply, tag at 133
  (data (i32.const 141) "\ff\08\00\00\00\ff\ff\ff\ff\ff\ff\ff\ff")  ;; Wake never
  (func (export "step") (param $handle i32) (param $at i32) (param $len i32) (result i32)
    (local $kind i32)
    (if (i32.le_u (local.get $len) (i32.const 8)) (then
      (i32.store (i32.const 0) (i32.const 64))
      (i32.store (i32.const 4) (i32.const 23))
      (return (i32.const 0))))
    (local.set $kind (i32.load8_u offset=8 (local.get $at)))
    (if (i32.or (i32.eq (local.get $kind) (i32.const 32)) (i32.eq (local.get $kind) (i32.const 36))) (then
      (i32.store (i32.const 133) (i32.load offset=13 (local.get $at)))
      (i32.store (i32.const 0) (i32.const 128))
      (i32.store (i32.const 4) (i32.const 26))
      (return (i32.const 0))))
    (if (i32.eq (local.get $kind) (i32.const 40)) (then unreachable))
    (loop (br 0))
    (unreachable))"#;

async fn node() -> Node {
    let limits = Limits {
        step: Duration::from_millis(300),
        ..Limits::default()
    };
    let core = CoreModule::compile(&core_of(ABI_VERSION, TRAPS), limits).expect("a core");
    Node::builder("test")
        .in_memory()
        .unowned()
        .address("wss://node.example")
        .core(core)
        .start()
        .await
        .expect("a node")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trap_is_one_typed_error_and_the_node_goes_on() {
    let node = node().await;
    let mut events = node.events();
    for _ in 0..2 {
        let error = node.status().await.expect_err("a trap");
        assert!(matches!(error, Error::Poisoned(CoreError::Trapped(_))), "{error}");
        assert!(matches!(
            events.recv().await,
            Ok(Event::Restarted(CoreError::Trapped(_)))
        ));
        // Refused while the core is started anew, answered once it has been.
        while let Err(error) = node.withdraw("x").await {
            assert!(matches!(error, Error::Poisoned(_)), "{error}");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_runs_away_fails_all_that_waits() {
    let node = node().await;
    let began = Instant::now();
    let (find, publish) = tokio::join!(node.find("x"), node.find_node([1; 32]));
    assert!(matches!(find, Err(Error::Poisoned(_))), "{find:?}");
    assert!(matches!(publish, Err(Error::Poisoned(_))), "{publish:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_stopped_while_its_core_is_started_anew_ends() {
    let node = node().await;
    node.status().await.expect_err("a trap");
    node.clone().stop().await;
    assert!(matches!(node.status().await, Err(Error::Stopped)));
}
