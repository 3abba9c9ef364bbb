//! A replica behind its boundary: batches of bytes in, batches of bytes out.

#[path = "../examples/conversation.rs"]
#[expect(dead_code, reason = "the example's entry point is not called here")]
mod conversation;

use conversation::common::{Log, charter, server};
use conversation::stepped::{SEED, Stepped, config};
use selfsame_capsule::machine::Machine;
use selfsame_capsule::message::{Envelope, Operation};
use selfsame_capsule::proof::Anchor;
use selfsame_capsule::writer::Backpointers;
use selfsame_codec::capsule::{Input, Output};
use selfsame_codec::{BatchReader, BatchWriter, Code, Field};

const COMMITTED: &str = include_str!("../../../runtime/test/capsule-conversation.json");
const NOW_MS: u64 = 1_800_000_000_000;

fn message(operations: &[Operation<'_>]) -> Vec<u8> {
    let mut message = Vec::new();
    let envelope = Envelope {
        capsule: charter().name(),
        session: [1; 16],
        verified: 0,
    };
    envelope.write(&mut message);
    operations
        .iter()
        .for_each(|operation| operation.write(&mut message));
    message
}

fn create() -> Vec<u8> {
    let metadata = charter().encoded().to_vec();
    message(&[Operation::Create { metadata: &metadata }])
}

fn code_of(response: &[u8]) -> u16 {
    u16::from_le_bytes([response[1], response[2]])
}

/// What a machine makes of a batch; what it refuses comes as position and code.
fn refused(machine: &mut Machine, batch: &[u8]) -> Vec<(u32, u16)> {
    let outputs = machine.step(batch);
    BatchReader::new(outputs)
        .expect("a batch")
        .map(|item| match Output::decode(item) {
            Ok(Output::Refused { input, code }) => (input, code),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn batch(inputs: &[Input<'_>]) -> Vec<u8> {
    let mut batch = BatchWriter::new();
    inputs.iter().for_each(|input| input.encode(&mut batch));
    [NOW_MS.to_le_bytes().as_slice(), batch.as_bytes()].concat()
}

#[test]
fn the_committed_conversation_is_what_a_replica_answers() {
    assert!(
        conversation::conversation() == COMMITTED,
        "run `cargo run -p selfsame-capsule --example conversation > runtime/test/capsule-conversation.json`"
    );
}

/// The writer's signature of the last record, without which a replica keeps nothing of a stranger.
fn signed_last(log: &Log) -> Operation<'static> {
    let last = log.records.len() - 1;
    match log.sign(last) {
        Anchor::Signed(signature) => server::sign(log.name(last), signature),
        Anchor::Verified => unreachable!("it has just been signed"),
    }
}

#[test]
fn many_values_are_asked_for_some_at_a_time() {
    let mut replica = Stepped::new(NOW_MS);
    replica.ask(&create());
    let log = Log::new(charter(), 600, &Backpointers::Chain);
    let mut operations: Vec<Operation<'_>> = log.records.iter().map(server::write).collect();
    operations.push(signed_last(&log));
    assert_eq!(code_of(&replica.ask(&message(&operations))), 0);
    let store = core::mem::take(&mut replica.store);
    let mut again = Stepped::new(NOW_MS);
    again.store = store;
    let reads: Vec<Operation<'_>> = log
        .records
        .iter()
        .map(|record| Operation::Read { record: record.name })
        .collect();
    let response = again.ask(&message(&reads));
    assert_eq!(code_of(&response), 0);
    let bodies: usize = log
        .records
        .iter()
        .map(|record| record.header.len() + record.body.len())
        .sum();
    assert_eq!(response.len(), 1 + 2 + 4 + 600 * 2 + bodies + 1);
    assert_eq!(again.asked.iter().max(), Some(&256), "{:?}", again.asked);
}

#[test]
fn who_waits_is_told_when_the_store_fails_and_all_works_once_the_store_does() {
    let mut replica = Stepped::new(NOW_MS);
    let failed = Code::StoreFailed.as_u16();
    replica.works = false;
    assert_eq!(code_of(&replica.ask(&create())), failed, "reading fails");
    replica.works = true;
    assert_eq!(code_of(&replica.ask(&create())), 0);
    replica.works = false;
    let log = Log::new(charter(), 1, &Backpointers::Chain);
    let write = message(&[server::write(&log.records[0]), signed_last(&log)]);
    assert_eq!(
        code_of(&replica.ask(&write)),
        failed,
        "reading or committing fails"
    );
    replica.works = true;
    assert_eq!(code_of(&replica.ask(&write)), 0);
}

#[test]
fn a_batch_that_is_none_is_refused_whole_and_an_item_that_is_none_alone() {
    let mut machine = Machine::new(&config()).expect("it is a configuration");
    let bad = Code::BadInput.as_u16();
    for bytes in [
        &[][..],
        &[0; 7],
        &[0; 9],
        &[0, 0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255],
    ] {
        assert_eq!(refused(&mut machine, bytes), [(u32::MAX, bad)]);
    }
    let mut unknown = batch(&[]);
    unknown.extend_from_slice(&[99, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0]);
    assert_eq!(refused(&mut machine, &unknown), [(0, bad), (1, bad)]);
    let unasked = [
        Input::StoreValues {
            tag: 7,
            ok: true,
            values: &[0],
        },
        Input::StoreKeys {
            tag: 7,
            ok: true,
            keys: &[1],
        },
        Input::StoreCommitted { tag: 7, ok: true },
    ];
    assert_eq!(refused(&mut machine, &batch(&unasked)), [(0, bad), (1, bad)]);
}

#[test]
fn an_answer_with_the_wrong_number_of_values_fails_the_request() {
    let mut machine = Machine::new(&config()).expect("it is a configuration");
    let request = Input::Request {
        source: [0; 32],
        request: 5,
        message: &create(),
    };
    let outputs = machine.step(&batch(&[request])).to_vec();
    let item = BatchReader::new(&outputs)
        .expect("a batch")
        .next()
        .expect("an output");
    let Ok(Output::StoreGet { tag, .. }) = Output::decode(item) else {
        panic!("it reads first");
    };
    let answer = Input::StoreValues {
        tag,
        ok: true,
        values: &[0, 0],
    };
    let outputs = machine.step(&batch(&[answer])).to_vec();
    let outputs: Vec<Output<'_>> = BatchReader::new(&outputs)
        .expect("a batch")
        .map(|item| Output::decode(item).expect("an output"))
        .collect();
    let bad = Code::BadInput.as_u16();
    assert!(outputs.contains(&Output::Refused { input: 0, code: bad }));
    let failed = |output: &Output<'_>| matches!(output, Output::Respond { request: 5, response } if code_of(response) == Code::StoreFailed.as_u16());
    assert!(outputs.iter().any(failed), "{outputs:?}");
}

#[test]
fn a_configuration_that_is_none_is_refused_and_none_shows_its_seed() {
    let good = config();
    for len in 0..good.len() {
        assert_eq!(Machine::new(&good[..len]).err(), Some(Code::BadConfig));
    }
    let mut other = good.clone();
    other[2] = 2;
    assert_eq!(Machine::new(&other).err(), Some(Code::BadConfig), "another kind");
    let machine = Machine::new(&good).expect("it is a configuration");
    assert!(!format!("{machine:?}").contains(&format!("{SEED:?}")));
}

/// The serial of a response, or the code that refuses its request as a whole.
fn serial_of(response: &[u8]) -> Result<u32, Code> {
    match Code::from_u16(code_of(response)) {
        None => Ok(u32::from_le_bytes(
            response[3..7].try_into().expect("a serial of four bytes"),
        )),
        Some(code) => {
            assert_eq!(response.len(), 1 + 2 + 4, "nothing follows a code and its place");
            Err(code)
        }
    }
}

#[test]
fn refused_requests_have_no_serial() {
    let mut replica = Stepped::new(NOW_MS);
    let open = Operation::Open { slots_log2: 4 };
    let mut ask = |request: &[u8]| serial_of(&replica.ask(request));
    assert_eq!(ask(&create()), Ok(0), "the session is not known yet");
    assert_eq!(
        ask(&message(&[Operation::Describe, open])),
        Ok(1),
        "it is opened first"
    );
    assert_eq!(ask(&message(&[Operation::Describe])), Ok(2));
    let broken = [message(&[open]), vec![99]].concat();
    assert_eq!(ask(&broken), Err(Code::BadMessage));
    let (small, large) = (
        Operation::Open { slots_log2: 0 },
        Operation::Open { slots_log2: 255 },
    );
    assert_eq!(
        ask(&message(&[Operation::Describe])),
        Ok(3),
        "nor did it open anything"
    );
    let log = Log::new(charter(), 1, &Backpointers::Chain);
    let writing = message(&[server::write(&log.records[0]), signed_last(&log)]);
    replica.works = false;
    assert_eq!(serial_of(&replica.ask(&writing)), Err(Code::StoreFailed));
    replica.works = true;
    let mut ask = |request: &[u8]| serial_of(&replica.ask(request));
    assert_eq!(
        ask(&message(&[Operation::Describe])),
        Ok(5),
        "what was not made durable has used up a number"
    );
    assert_eq!(
        ask(&message(&[small, large])),
        Ok(1),
        "sizes are brought within their bounds"
    );
}
