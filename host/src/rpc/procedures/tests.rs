//! What a handler of procedures answers on a clock that the tests advance.

use core::time::Duration;

use futures_util::stream;
use tokio::time::sleep;

use super::limits::{MAX_CALLER_STREAMS, MAX_ENDED_STREAMS, MAX_NETWORK_STREAMS};
use super::wire::StreamId;
use super::*;

const COUNT: RpcStreamProcedure<u32, u32> = RpcStreamProcedure::new("count");

type Handler = Box<dyn Fn(RpcRequest) -> AnswerFuture + Send + Sync>;

/// A handler that counts to its input, or waits for ever after it if that is odd; tells when its stream was dropped.
fn handler() -> (Handler, Arc<()>) {
    let alive = Arc::new(());
    let given = Arc::clone(&alive);
    let procedures = RpcProcedures::new().stream(COUNT, move |last: u32, _| {
        let held = Arc::clone(&given);
        let waiting = stream::pending().take(if last % 2 == 1 { usize::MAX } else { 0 });
        stream::iter(0..last).chain(waiting).map(move |number| {
            _ = &held;
            Ok(number)
        })
    });
    (Box::new(procedures.into_handler()), alive)
}

fn request(caller: u16, source: &str, payload: Vec<u8>) -> RpcRequest {
    let mut id = [0; 32];
    id[..2].copy_from_slice(&caller.to_le_bytes());
    RpcRequest {
        payload,
        caller: PeerId(id),
        source: source.parse().expect("an address"),
        is_idempotent: false,
        deadline: Instant::now() + Duration::from_secs(3600),
    }
}

fn begin(last: u32) -> Vec<u8> {
    let value = last.to_string();
    Request::Begin {
        name: b"count",
        value: value.as_bytes(),
    }
    .encode()
}

fn ask(stream: StreamId, number: u32) -> Vec<u8> {
    Request::Ask { stream, number }.encode()
}

/// Sends a request of a caller at a private address.
async fn send(handler: &Handler, caller: u16, payload: Vec<u8>) -> Vec<u8> {
    handler(request(caller, "127.0.0.1:1", payload))
        .await
        .expect("an answer")
}

/// Returns the stream, the number of items, and whether others follow.
fn batch(answer: &[u8]) -> (StreamId, usize, bool) {
    let Ok(Answer::Batch(batch)) = Answer::decode(answer) else {
        panic!("no batch: {:?}", Answer::decode(answer));
    };
    let items: Vec<u32> = json::read(batch.items).expect("items");
    (batch.stream, items.len(), !batch.is_last)
}

fn code(answer: &[u8]) -> Option<Code> {
    Answer::decode(answer).err().and_then(|error| error.code())
}

#[tokio::test(start_paused = true)]
async fn request_that_others_may_carry_out_begins_idempotent_procedures_only() {
    let (handler, _) = handler();
    let begin = |name| {
        let idempotent = Request::Begin { name, value: b"2" }.encode();
        RpcRequest {
            is_idempotent: true,
            ..request(1, "127.0.0.1:1", idempotent)
        }
    };
    let refused = handler(begin(b"count")).await.expect("an answer");
    assert_eq!(code(&refused), Some(Code::BadMessage));
    let procedures = RpcProcedures::new()
        .procedure(RpcProcedure::new("again").idempotent(), async |input: u32, _| {
            Ok(input)
        });
    let answer = procedures.into_handler()(begin(b"again"))
        .await
        .expect("an answer");
    assert_eq!(answer, b"spa\x01\x002");
}

#[tokio::test(start_paused = true)]
async fn latest_batch_is_given_again_and_no_other() {
    let (handler, _) = handler();
    let first = send(&handler, 1, begin(5000)).await;
    let (stream, items, more) = batch(&first);
    assert_eq!((items, more), (1024, true));
    assert_eq!(send(&handler, 1, ask(stream, 0)).await, first);
    let second = send(&handler, 1, ask(stream, 1)).await;
    assert_eq!(send(&handler, 1, ask(stream, 1)).await, second);
    for number in [0, 3, u32::MAX] {
        assert_eq!(
            code(&send(&handler, 1, ask(stream, number)).await),
            Some(Code::BadStream)
        );
    }
    for number in 2..4 {
        send(&handler, 1, ask(stream, number)).await;
    }
    let last = send(&handler, 1, ask(stream, 4)).await;
    assert_eq!(batch(&last), (stream, 5000 - 4 * 1024, false));
    assert_eq!(send(&handler, 1, ask(stream, 4)).await, last);
    assert_eq!(
        code(&send(&handler, 1, ask(stream, 5)).await),
        Some(Code::BadStream)
    );
}

#[tokio::test(start_paused = true)]
async fn stream_that_nobody_asks_ends_after_30_seconds() {
    let (handler, alive) = handler();
    let (stream, ..) = batch(&send(&handler, 1, begin(1_000_001)).await);
    for number in 1..4 {
        sleep(Duration::from_millis(29_900)).await;
        send(&handler, 1, ask(stream, number)).await;
    }
    assert_eq!(Arc::strong_count(&alive), 3);
    sleep(Duration::from_secs(31)).await;
    assert_eq!(
        code(&send(&handler, 1, ask(stream, 4)).await),
        Some(Code::UnknownStream)
    );
    assert_eq!(Arc::strong_count(&alive), 2, "its items are dropped");
}

#[tokio::test(start_paused = true)]
async fn caller_that_waits_is_told_that_there_is_no_item_yet() {
    let (handler, _) = handler();
    let begun = tokio::time::Instant::now();
    let (stream, items, more) = batch(&send(&handler, 1, begin(1)).await);
    assert_eq!((items, more), (1, true));
    for number in 1..5 {
        assert_eq!(
            batch(&send(&handler, 1, ask(stream, number)).await),
            (stream, 0, true)
        );
    }
    let waited = begun.elapsed();
    assert!(
        waited >= Duration::from_secs(40) && waited < Duration::from_secs(41),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn stream_is_of_the_caller_that_began_it() {
    let (handler, _) = handler();
    let (stream, ..) = batch(&send(&handler, 1, begin(5000)).await);
    assert_eq!(
        code(&send(&handler, 2, ask(stream, 1)).await),
        Some(Code::UnknownStream)
    );
    send(&handler, 2, Request::End { stream }.encode()).await;
    batch(&send(&handler, 1, ask(stream, 1)).await);
    send(&handler, 1, Request::End { stream }.encode()).await;
    assert_eq!(
        code(&send(&handler, 1, ask(stream, 2)).await),
        Some(Code::UnknownStream)
    );
}

#[tokio::test(start_paused = true)]
async fn stream_whose_beginning_is_given_up_ends() {
    let (handler, alive) = handler();
    let silent = Request::Begin {
        name: b"count",
        value: b"1",
    };
    let beginning = handler(request(1, "127.0.0.1:1", silent.encode()));
    let given_up = tokio::time::timeout(Duration::from_millis(1), beginning);
    assert!(given_up.await.is_err());
    assert_eq!(Arc::strong_count(&alive), 2);
}

#[tokio::test(start_paused = true)]
async fn streams_of_one_caller_leave_room_to_others() {
    let (handler, _) = handler();
    for _ in 0..MAX_CALLER_STREAMS {
        batch(&send(&handler, 1, begin(5000)).await);
    }
    assert_eq!(
        code(&send(&handler, 1, begin(5000)).await),
        Some(Code::TooManyStreams)
    );
    batch(&send(&handler, 2, begin(5000)).await);
}

#[tokio::test(start_paused = true)]
async fn streams_of_one_network_leave_room_to_others() {
    let (handler, _) = handler();
    let from = |caller, source| handler(request(caller, source, begin(5000)));
    for caller in 0..MAX_NETWORK_STREAMS as u16 {
        batch(&from(caller, "8.8.4.4:1").await.expect("an answer"));
    }
    let refused = from(999, "8.8.4.5:1").await.expect("an answer");
    assert_eq!(code(&refused), Some(Code::TooManyStreams));
    batch(&from(999, "1.1.1.1:1").await.expect("an answer"));
}

#[tokio::test(start_paused = true)]
async fn streams_that_have_ended_take_no_place() {
    let (handler, _) = handler();
    let mut streams = Vec::new();
    for _ in 0..=MAX_ENDED_STREAMS {
        let (stream, ..) = batch(&send(&handler, 1, begin(1026)).await);
        assert!(!batch(&send(&handler, 1, ask(stream, 1)).await).2);
        streams.push(stream);
        sleep(Duration::from_millis(1)).await;
    }
    let again = send(&handler, 1, ask(streams[1], 1)).await;
    assert_eq!(batch(&again).1, 2, "its last batch is kept");
    assert_eq!(
        code(&send(&handler, 1, ask(streams[0], 1)).await),
        Some(Code::UnknownStream)
    );
}

#[tokio::test(start_paused = true)]
async fn streams_that_have_ended_are_not_forgotten_for_strangers() {
    for (network, identities) in [("8.8.4", 1000), ("1.1.1", 1)] {
        let (handler, _) = handler();
        let from = |caller, source: &str, payload| handler(request(caller, source, payload));
        let first = from(999, "1.1.1.1:1", begin(2)).await.expect("an answer");
        let (stream, ..) = batch(&first);
        for at in 0..=MAX_ENDED_STREAMS as u16 {
            sleep(Duration::from_millis(1)).await;
            let source = format!("{network}.{}:1", at % 256);
            batch(&from(at % identities, &source, begin(2)).await.expect("an answer"));
        }
        let again = from(999, "1.1.1.1:1", ask(stream, 0)).await;
        assert_eq!(again.expect("an answer"), first, "{network}");
    }
}
