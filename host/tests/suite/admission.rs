//! Certificates in DNS: what a resolver asks, believes and remembers.

use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::net::UdpSocket;

use axum::Router;
use bytes::Bytes;
use http::header::{AGE, CONTENT_TYPE};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use selfsame_host::Code;
use selfsame_host::admission::{DnsValues, NameServers, ResolveError, Resolver};
use tokio::net::TcpListener;
use tokio::time::{Instant, advance, pause, resume};

use self::name_server::{NameServer, Query, framed, response};
use crate::common::within;

pub(crate) mod name_server;

const DOMAIN: &str = "ring.example";
const KEY: [u8; 32] = [9; 32];
/// The value that servers of these tests tell, and its text.
const VALUE: &[u8] = b"old";
const TEXT: &str = "selfsame1=b2xk";
const MESSAGE_TYPE: &str = "application/dns-message";

type Answer = Result<Arc<DnsValues>, ResolveError>;

fn resolver(servers: &[&NameServer]) -> Resolver {
    let addresses = servers.iter().map(|server| server.address);
    Resolver::new(NameServers::at(addresses).expect("servers")).expect("a resolver")
}

async fn ask(resolver: &Resolver) -> Answer {
    within(resolver.certificates(&KEY, DOMAIN)).await
}

async fn ask_for_stranger(resolver: &Resolver, number: u8, source: [u8; 4]) -> Answer {
    within(resolver.certificates_of_stranger(&[number; 32], DOMAIN, IpAddr::from(source))).await
}

/// Answers each query with the value.
fn honest(query: &Query) -> Vec<Vec<u8>> {
    reply(query, response(&query.bytes, 0, 300, &[TEXT]))
}

fn refusing(flags: u16) -> impl Fn(&Query) -> Vec<Vec<u8>> + Clone {
    move |query| reply(query, response(&query.bytes, flags, 0, &[]))
}

fn reply(query: &Query, message: Vec<u8>) -> Vec<Vec<u8>> {
    vec![if query.is_tcp { framed(&message) } else { message }]
}

fn values(answer: Answer) -> Vec<Vec<u8>> {
    answer.expect("an answer").values.clone()
}

fn is_code(answer: &Answer, expected: Code) -> bool {
    matches!(answer, Err(ResolveError::Answer { code, .. }) if *code == expected)
}

#[tokio::test]
async fn value_is_found_once_and_remembered_for_its_time() {
    let server = NameServer::start(honest).await;
    let resolver = resolver(&[&server]);
    for _ in 0..3 {
        assert_eq!(values(ask(&resolver).await), [VALUE]);
    }
    assert_eq!(server.queries(), 1);
    pause();
    advance(Duration::from_secs(301)).await;
    resume();
    assert_eq!(values(ask(&resolver).await), [VALUE]);
    assert_eq!(server.queries(), 2);
}

#[tokio::test]
async fn queries_name_the_peer_and_the_authority() {
    let server = NameServer::start(|query| {
        let is_peer = query.bytes[12..]
            .starts_with(b"\x34beeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeqscijbeeq\x04ring");
        let is_authority = query.bytes[12..].starts_with(b"\x0a_authority\x04ring");
        assert!(is_peer || is_authority);
        reply(
            query,
            response(
                &query.bytes,
                0x20,
                300,
                &[if is_peer { TEXT } else { "selfsame1=AA" }],
            ),
        )
    });
    let resolver = resolver(&[&server.await]);
    let certificates = ask(&resolver).await.expect("certificates");
    assert!(certificates.is_authentic);
    assert_eq!(certificates.values, [VALUE]);
    assert_eq!(values(within(resolver.authority_keys(DOMAIN)).await), [[0]]);
}

#[tokio::test]
async fn absence_is_remembered_for_a_while() {
    let server = NameServer::start(refusing(3)).await;
    let resolver = resolver(&[&server]);
    for _ in 0..2 {
        assert_eq!(values(ask(&resolver).await), Vec::<Vec<u8>>::new());
    }
    assert_eq!(server.queries(), 1);
    pause();
    advance(Duration::from_secs(11)).await;
    resume();
    assert_eq!(values(ask(&resolver).await), Vec::<Vec<u8>>::new());
    assert_eq!(server.queries(), 2);
}

#[tokio::test]
async fn lookups_of_one_name_at_once_are_one_query() {
    let server = NameServer::start(honest).await;
    let resolver = resolver(&[&server]);
    let lookups = (0..20).map(|_| ask(&resolver));
    let answers = futures_util::future::join_all(lookups).await;
    assert!(answers.into_iter().all(|answer| values(answer) == [VALUE]));
    assert_eq!(server.queries(), 1);
}

#[tokio::test]
async fn truncated_response_is_asked_for_over_tcp() {
    let server = NameServer::start(|query| {
        let flags = if query.is_tcp { 0 } else { 0x200 };
        reply(
            query,
            response(&query.bytes, flags, 300, if query.is_tcp { &[TEXT] } else { &[] }),
        )
    });
    let server = server.await;
    assert_eq!(values(ask(&resolver(&[&server])).await), [VALUE]);
    assert_eq!(server.queries(), 2);
}

#[tokio::test]
async fn forged_datagrams_are_passed_over() {
    let server = NameServer::start(|query| {
        let forged = response(&query.bytes, 0, 300, &["selfsame1=ZXZpbA"]);
        let mut of_other_id = forged.clone();
        of_other_id[0] ^= 1;
        let mut of_other_name = forged.clone();
        of_other_name[13] ^= 1;
        // Of the right id, from another port.
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
        stranger.send_to(&forged, query.source).expect("a datagram");
        [vec![of_other_id, of_other_name], honest(query)].concat()
    });
    assert_eq!(values(ask(&resolver(&[&server.await])).await), [VALUE]);
}

#[tokio::test]
async fn flood_of_forged_datagrams_leads_to_tcp() {
    let server = NameServer::start(|query| {
        if query.is_tcp {
            return honest(query);
        }
        let mut forged = response(&query.bytes, 0, 300, &["selfsame1=ZXZpbA"]);
        forged[0] ^= 1;
        vec![forged; 16]
    });
    assert_eq!(values(ask(&resolver(&[&server.await])).await), [VALUE]);
}

#[tokio::test]
async fn next_server_is_asked_when_one_fails() {
    let broken = NameServer::start(refusing(2)).await;
    let sound = NameServer::start(honest).await;
    assert_eq!(values(ask(&resolver(&[&broken, &sound])).await), [VALUE]);
    assert_eq!((broken.queries(), sound.queries()), (1, 1));
}

#[tokio::test]
async fn bad_answers_have_their_codes_and_are_not_remembered() {
    for (flags, code) in [
        (2, Code::DnsFailed),
        (5, Code::DnsRefused),
        (4, Code::DnsRejected),
    ] {
        let server = NameServer::start(refusing(flags)).await;
        let resolver = resolver(&[&server]);
        let answer = ask(&resolver).await;
        assert!(is_code(&answer, code), "{answer:?}");
        assert_eq!(server.queries(), 3, "each try asks");
        assert!(ask(&resolver).await.is_err());
        assert_eq!(server.queries(), 6);
    }
}

#[tokio::test]
async fn malformed_and_oversized_answers_are_refused() {
    let malformed = NameServer::start(|query| {
        let mut message = response(&query.bytes, 0, 300, &[TEXT]);
        message.pop();
        vec![message]
    });
    let answer = ask(&resolver(&[&malformed.await])).await;
    assert!(is_code(&answer, Code::BadDnsMessage), "{answer:?}");
    let oversized = NameServer::start(|query| {
        let mut message = response(&query.bytes, 0, 300, &[TEXT]);
        message.resize(5000, 0);
        vec![message]
    });
    let answer = ask(&resolver(&[&oversized.await])).await;
    assert!(is_code(&answer, Code::TooLarge), "{answer:?}");
    let no_value = NameServer::start(|query| vec![response(&query.bytes, 0, 300, &["selfsame1=!"])]).await;
    let answer = ask(&resolver(&[&no_value])).await;
    assert!(is_code(&answer, Code::BadDnsValue), "{answer:?}");
    assert_eq!(no_value.queries(), 1, "no server holds another zone");
}

#[tokio::test]
async fn streams_that_break_off_are_failures() {
    for part in [Vec::new(), vec![0xff], vec![0xff, 0xff, 1, 2, 3]] {
        let server = NameServer::start(move |query| {
            if query.is_tcp {
                return vec![part.clone()];
            }
            vec![response(&query.bytes, 0x200, 0, &[])]
        });
        let answer = ask(&resolver(&[&server.await])).await;
        assert!(
            matches!(answer, Err(ResolveError::Unreachable { .. })),
            "{answer:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn silence_names_the_tries() {
    let server = NameServer::start(|_| Vec::new()).await;
    let started = Instant::now();
    let answer = ask(&resolver(&[&server])).await;
    let error = answer.expect_err("no answer");
    assert!(
        matches!(error, ResolveError::TimedOut { tries: 3, .. }),
        "{error:?}"
    );
    assert!(
        error
            .to_string()
            .contains(&format!("{} after 3 tries", server.address)),
        "{error}"
    );
    assert_eq!(started.elapsed().as_secs(), 9);
}

#[tokio::test]
async fn closed_port_is_unreachable() {
    let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address: SocketAddr = free.local_addr().expect("its address");
    drop(free);
    let resolver = Resolver::new(NameServers::at([address]).expect("a server")).expect("a resolver");
    let answer = ask(&resolver).await;
    assert!(
        matches!(answer, Err(ResolveError::Unreachable { .. })),
        "{answer:?}"
    );
}

#[tokio::test]
async fn strangers_of_a_network_cause_few_queries() {
    let server = NameServer::start(refusing(3)).await;
    let resolver = resolver(&[&server]);
    for number in 0..8 {
        assert!(
            ask_for_stranger(&resolver, number, [1, 1, 1, number])
                .await
                .is_ok()
        );
    }
    let answer = ask_for_stranger(&resolver, 100, [1, 1, 1, 100]).await;
    assert_eq!(answer, Err(ResolveError::TooManyQueries));
    assert_eq!(server.queries(), 8);
    assert!(
        ask_for_stranger(&resolver, 0, [1, 1, 1, 1]).await.is_ok(),
        "what is known costs none"
    );
    assert!(
        ask_for_stranger(&resolver, 101, [1, 1, 2, 1]).await.is_ok(),
        "another network"
    );
    assert!(ask(&resolver).await.is_ok(), "no stranger");
    assert_eq!(server.queries(), 10);
}

#[tokio::test]
async fn values_stay_known_while_the_server_fails() {
    let server = NameServer::start(|query| {
        if query.index == 0 {
            honest(query)
        } else {
            refusing(2)(query)
        }
    });
    let resolver = resolver(&[&server.await]);
    assert_eq!(values(ask(&resolver).await), [VALUE]);
    assert!(is_code(
        &within(resolver.authority_keys(DOMAIN)).await,
        Code::DnsFailed
    ));
    assert_eq!(values(ask(&resolver).await), [VALUE]);
}

#[tokio::test]
async fn unusable_domains_and_servers_are_named() {
    let resolver = Resolver::new(NameServers::at(["127.0.0.1:1".parse().expect("an address")]).expect("one"));
    let answer = resolver
        .expect("a resolver")
        .certificates(&KEY, "ring_example")
        .await;
    let error = answer.expect_err("no domain");
    assert_eq!(error.code(), Code::BadDomain);
    assert!(error.to_string().contains("\"ring_example\""), "{error}");
    assert!(NameServers::at([]).is_err());
    assert!(NameServers::at([SocketAddr::from(([127, 0, 0, 1], 53)); 4]).is_err());
    for url in [
        "",
        "dns.example",
        "udp://dns.example",
        "https://",
        "https:///dns-query",
    ] {
        assert!(NameServers::https(url).is_err(), "{url}");
    }
}

/// A resolver that asks a web server on this machine, which gives a response to each message.
async fn over_https(
    answer: impl Fn(Bytes) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
) -> Resolver {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/dns-query", listener.local_addr().expect("its address"));
    let app = Router::new().fallback(move |request: axum::extract::Request| {
        let answer = answer.clone();
        async move {
            assert_eq!(request.uri().path(), "/dns-query");
            assert_eq!(request.headers()[CONTENT_TYPE], MESSAGE_TYPE);
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            assert_eq!(body[..2], [0, 0], "the id");
            answer(body)
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    Resolver::new(NameServers::https(&url).expect("a URL")).expect("a resolver")
}

fn message(body: Vec<u8>) -> Response<Full<Bytes>> {
    let response = Response::builder().header(CONTENT_TYPE, MESSAGE_TYPE);
    response.body(Full::new(body.into())).expect("a response")
}

#[tokio::test]
async fn value_is_found_over_https_and_its_age_counts() {
    let queries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&queries);
    let resolver = over_https(move |query| {
        counted.fetch_add(1, Ordering::SeqCst);
        let mut response = message(response(&query, 0, 300, &[TEXT]));
        response
            .headers_mut()
            .insert(AGE, "290".parse().expect("a number"));
        response
    });
    let resolver = resolver.await;
    for expected in [1, 1, 2] {
        assert_eq!(values(ask(&resolver).await), [VALUE]);
        assert_eq!(queries.load(Ordering::SeqCst), expected);
        pause();
        advance(Duration::from_secs(6)).await;
        resume();
    }
    let gone = over_https(|query| message(response(&query, 3, 0, &[]))).await;
    assert_eq!(values(ask(&gone).await), Vec::<Vec<u8>>::new());
}

#[tokio::test]
async fn bad_answers_over_https_are_refused() {
    let failing = over_https(|_| {
        let mut response = message(Vec::new());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    });
    let error = ask(&failing.await).await.expect_err("a failure");
    assert!(error.to_string().contains("503"), "{error}");
    let page = over_https(|_| Response::new(Full::new("<html>".into()))).await;
    let error = ask(&page).await.expect_err("a page");
    assert!(error.to_string().contains("is it a resolver"), "{error}");
    let long = over_https(|_| message(vec![0; 65_536])).await;
    let error = ask(&long).await.expect_err("what is too long");
    assert!(matches!(error, ResolveError::Unreachable { .. }), "{error:?}");
    let other = over_https(|query| {
        let mut bytes = response(&query, 0, 300, &[TEXT]);
        bytes[13] ^= 1;
        message(bytes)
    });
    assert!(is_code(&ask(&other.await).await, Code::WrongDnsAnswer));
    let truncated = over_https(|query| message(response(&query, 0x200, 0, &[]))).await;
    assert!(is_code(&ask(&truncated).await, Code::BadDnsMessage));
}
