//! The core behind its wrapper: what it computes, and what becomes of one that misbehaves.

use core::time::Duration;
use std::time::{Instant, SystemTime};

use selfsame_codec::{ABI_VERSION, Admission, BatchReader, Config, EventKind, Output, Role};
use selfsame_host::{CORE_WASM, Code, Core, CoreError, CoreModule, Error, Grant, Limits, PeerId, Seed};

use crate::common::module::core_of;

fn config() -> Config {
    Config {
        seed: [1; 32],
        entropy: [2; 32],
        known_key: vec![],
        network: "test".into(),
        role: Role::Leaf,
        addresses: vec![],
        bootstraps: vec![],
        dials: vec!["ws".into()],
        allow_private: true,
        trust_on_first_use: false,
        idle_ms: 15_000,
        domain: String::new(),
        admission: Admission::Open,
        authority: vec![],
        certificate: vec![],
        take_over: false,
        confirms: false,
    }
}

fn embedded() -> Core {
    CoreModule::embedded()
        .expect("the embedded core compiles")
        .instantiate()
        .expect("and runs")
}

#[test]
fn the_embedded_core_is_created_and_loads_its_state() {
    let mut core = embedded();
    core.create(&config()).expect("a node");
    let mut answer = core.step(1_000_000, &[]).expect("an answer");
    // An empty store answers every read at once.
    for _ in 0..100 {
        let mut events = Vec::new();
        let mut batch = selfsame_codec::BatchWriter::new();
        for item in BatchReader::new(&answer).expect("a batch") {
            match Output::decode(item).expect("an output") {
                Output::StoreGet { tag, .. } | Output::StoreScan { tag, .. } => {
                    selfsame_codec::Input::StoreRead {
                        tag,
                        ok: true,
                        entries: &[],
                    }
                    .encode(&mut batch);
                }
                Output::StoreCommit { tag, .. } => {
                    selfsame_codec::Input::StoreCommitted { tag, ok: true }.encode(&mut batch);
                }
                Output::Event { event, .. } => events.push(event),
                _ => {}
            }
        }
        if events.contains(&EventKind::Ready) {
            return;
        }
        answer = core.step(1_000_000, batch.as_bytes()).expect("an answer");
    }
    panic!("the core never got ready");
}

#[test]
fn a_configuration_without_a_network_is_refused() {
    let mut config = config();
    config.network = String::new();
    assert_eq!(
        embedded().create(&config),
        Err(CoreError::Refused(Code::BadConfig))
    );
}

#[test]
fn ids_differ_between_networks_and_come_back() {
    let seed = Seed::from_bytes([7; 32]);
    let id = seed.peer_id("one").expect("an id");
    assert_eq!(seed.peer_id("one").expect("an id"), id);
    assert_ne!(seed.peer_id("two").expect("an id"), id);
    assert_eq!(id.to_string().parse::<PeerId>().expect("an id"), id);
    assert!(matches!(seed.peer_id(""), Err(Error::Input(_))));
}

#[test]
fn a_grant_is_verified_with_its_network_and_time() {
    let owner = Seed::from_bytes([3; 32]);
    let peer = Seed::from_bytes([4; 32]).peer_id("one").expect("an id");
    let expires = SystemTime::now() + Duration::from_secs(60);
    let grant = owner.grant("one", "check", peer, expires).expect("a grant");
    let grant: Grant = grant.to_string().parse().expect("the text of a grant");
    let granted = grant.verify("one").expect("a valid grant");
    assert_eq!(
        (granted.owner, granted.peer),
        (owner.owner_key("one").expect("a key"), peer)
    );
    assert_eq!(granted.name, "check");
    assert!(grant.verify("two").is_err(), "of another network");
    assert_eq!(granted.revoked, []);
    let (past, others) = (SystemTime::now() - Duration::from_secs(60), [PeerId([7; 32]); 9]);
    owner
        .grant("one", "check", peer, past)
        .expect_err("it has expired");
    let revoking = |revoked| owner.grant_and_revoke("one", "check", peer, expires, revoked);
    revoking(&others).expect_err("more than a grant revokes");
    let granted = revoking(&others[..8])
        .and_then(|grant| grant.verify("one"))
        .expect("a valid grant");
    assert_eq!(granted.revoked, others[..8]);
    assert_eq!(
        owner
            .grant("one", "Not A Name", peer, expires)
            .err()
            .and_then(|error| error.code()),
        Some(Code::BadName)
    );
}

#[test]
fn a_changed_grant_is_refused() {
    let peer = Seed::from_bytes([4; 32]).peer_id("one").expect("an id");
    let expires = SystemTime::now() + Duration::from_secs(60);
    let grant = Seed::from_bytes([3; 32])
        .grant("one", "check", peer, expires)
        .expect("a grant");
    for at in 0..grant.as_bytes().len() {
        let mut bytes = grant.as_bytes().to_vec();
        bytes[at] ^= 1;
        let text = data_encoding::BASE64URL_NOPAD.encode(&bytes);
        let changed: Grant = text.parse().expect("the text of a grant");
        assert!(changed.verify("one").is_err(), "byte {at} changed");
    }
}

#[test]
fn a_batch_that_does_not_decode_is_refused_as_a_whole() {
    let mut core = embedded();
    core.create(&config()).expect("a node");
    let answer = core.step(1_000_000, &[1, 2, 3]).expect("an answer");
    let refused = BatchReader::new(&answer)
        .expect("a batch")
        .any(|item| matches!(Output::decode(item), Ok(Output::Refused { input: u32::MAX, .. })));
    assert!(refused);
}

#[test]
fn many_nodes_share_one_compiled_core() {
    let module = CoreModule::compile(CORE_WASM, Limits::default()).expect("a core");
    for _ in 0..20 {
        let mut core = module.instantiate().expect("an instance");
        core.create(&config()).expect("a node");
        core.step(1_000_000, &[]).expect("an answer");
        assert!(core.memory_size() < 8 * 1024 * 1024, "{}", core.memory_size());
    }
}

/// A core whose `step` does what the text says; everything else is as little as a core needs.
fn misbehaving(step: &str) -> Core {
    let mut core = of_version(ABI_VERSION, step).expect("an instance");
    core.create(&config()).expect("a node");
    core
}

/// A core like that, which says that it speaks a version of the boundary.
fn of_version(version: u32, step: &str) -> Result<Core, CoreError> {
    let wasm = core_of(
        version,
        &format!(r#"(func (export "step") (param i32 i32 i32) (result i32) {step})"#),
    );
    let limits = Limits {
        step: Duration::from_millis(200),
        memory: 1024 * 1024,
    };
    CoreModule::compile(&wasm, limits).expect("a core").instantiate()
}

#[test]
fn a_core_of_another_version_or_without_cryptography_is_refused() {
    let refused = |version| match of_version(version, "(i32.const 0)") {
        Err(CoreError::WrongAbi(told)) => told == version,
        _ => false,
    };
    assert!(refused(ABI_VERSION - 1) && refused(ABI_VERSION + 1));
    assert!(refused(ABI_VERSION | 1 << 31));
    assert!(of_version(ABI_VERSION, "(i32.const 0)").is_ok());
}

#[test]
fn a_trap_poisons_the_instance() {
    let mut core = misbehaving("unreachable");
    assert!(matches!(core.step(0, &[]), Err(CoreError::Trapped(why)) if why.contains("unreachable")));
    assert_eq!(core.step(0, &[]), Err(CoreError::Poisoned));
}

#[test]
fn a_step_that_runs_away_is_interrupted() {
    let mut core = misbehaving("(loop (br 0)) (i32.const 0)");
    let began = Instant::now();
    assert!(
        matches!(core.step(0, &[]), Err(CoreError::Trapped(why)) if why.contains("longer than its limit"))
    );
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(core.step(0, &[]), Err(CoreError::Poisoned));
}

#[test]
fn an_answer_outside_the_memory_is_a_trap() {
    for header in [
        "(i32.const -1)",
        "(i32.const 131070)",
        "(i32.store (i32.const 0) (i32.const 131071)) (i32.store (i32.const 4) (i32.const 2)) (i32.const 0)",
        "(i32.store (i32.const 0) (i32.const 1)) (i32.store (i32.const 4) (i32.const -1)) (i32.const 0)",
    ] {
        let mut core = misbehaving(header);
        assert!(
            matches!(core.step(0, &[]), Err(CoreError::Trapped(_))),
            "{header}"
        );
        assert_eq!(core.step(0, &[]), Err(CoreError::Poisoned), "{header}");
    }
}

#[test]
fn memory_ends_at_its_limit() {
    // Grows by one page; answers with what `memory.grow` gave, as the length of an empty place.
    let mut core = misbehaving(
        "(i32.store (i32.const 0) (i32.const 0)) \
         (i32.store (i32.const 4) (i32.eq (memory.grow (i32.const 1)) (i32.const -1))) (i32.const 0)",
    );
    let grown = (0..100)
        .take_while(|_| core.step(0, &[]).expect("an answer").is_empty())
        .count();
    assert_eq!(
        grown, 14,
        "two pages of 64 KiB at the start, sixteen at the limit"
    );
    assert_eq!(core.memory_size(), 1024 * 1024);
}

#[test]
fn what_is_no_core_is_refused_with_its_reason() {
    let refused = |wasm: &[u8]| match CoreModule::compile(wasm, Limits::default())
        .and_then(|module| module.instantiate())
    {
        Err(error) => error,
        Ok(_) => panic!("accepted"),
    };
    let text = |text: &str| wat::parse_str(text).expect("a module");
    assert!(matches!(refused(b"<html>"), CoreError::NotACore(_)));
    let imports = text(r#"(module (import "env" "now" (func)))"#);
    assert!(matches!(refused(&imports), CoreError::NotACore(why) if why.contains("env.now")));
    assert!(matches!(refused(&text("(module)")), CoreError::NotACore(why) if why.contains("memory")));
    let relaxed = text(
        "(module (func (param v128 v128 v128) (result v128) local.get 0 local.get 1 local.get 2 f32x4.relaxed_madd))",
    );
    assert!(
        matches!(refused(&relaxed), CoreError::NotACore(_)),
        "relaxed SIMD differs between machines"
    );
}
