//! Newcomers to a closed network, whom its members look up in the DNS or see where they are.

use std::time::SystemTime;

use selfsame_host::{Certificate, CertificateTerms, Code, Node, Seed};

use crate::admission::name_server::{NameServer, Query, framed, response};
use crate::closed::{Authority, HOUR, NAME, found_at};
use crate::common::nodes::bootstrap;
use crate::common::within;

async fn count(node: &Node, code: Code) -> u64 {
    let counters = node.status().await.expect("a status").counters;
    let of_code = counters.iter().find(|(other, _)| *other == code.as_u16());
    of_code.map_or(0, |(_, count)| *count)
}

/// A name server that knows these certificates under each name, and sends what `before` makes of that answer before it.
async fn name_server(
    certificates: &[&Certificate],
    before: impl Fn(&Query, &[u8]) -> Vec<Vec<u8>> + Clone + Send + Sync + 'static,
) -> NameServer {
    let texts: Vec<String> = certificates
        .iter()
        .map(|one| format!("selfsame1={one}"))
        .collect();
    NameServer::start(move |query| {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let message = response(&query.bytes, 0, 300, &texts);
        if query.is_tcp {
            return vec![framed(&message)];
        }
        let mut sent = before(query, &message);
        sent.push(message);
        sent
    })
    .await
}

/// A member that looks newcomers up, with the certificate that it shows itself.
async fn first(authority: &Authority, certificate: &Certificate, server: &NameServer) -> Node {
    let builder = authority
        .node(&Seed::from_bytes([1; 32]), certificate.clone())
        .listen("ws://127.0.0.1:0")
        .confirm_newcomers(found_at(server));
    within(builder.start()).await.expect("a node")
}

/// A newcomer that joins through a member, if it is let in.
async fn joins(authority: &Authority, certificate: &Certificate, through: &Node) -> bool {
    let builder = authority
        .node(&Seed::from_bytes([2; 32]), certificate.clone())
        .listen("ws://127.0.0.1:0")
        .bootstrap(bootstrap(through));
    let started = within(builder.start()).await;
    if let Ok(node) = &started {
        assert!(node.status().await.expect("a status").joined);
    }
    started.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_answers_are_counted_and_believed_by_nobody() {
    let authority = Authority::new(200);
    let [one, two] =
        [1, 2].map(|byte| authority.certify(&Seed::from_bytes([byte; 32]), Some("127.0.0.1:7000")));
    // Whoever guesses answers that there is no such name, with another id or to another question.
    let server = name_server(&[&one, &two], |query, _| {
        let mut absent = response(&query.bytes, 3, 0, &[]);
        absent[0] ^= 1;
        let mut other = response(&query.bytes, 3, 0, &[]);
        other[13] ^= 1;
        vec![absent, other]
    })
    .await;
    let first = first(&authority, &one, &server).await;
    assert!(joins(&authority, &two, &first).await);
    assert_eq!(count(&first, Code::WrongDnsAnswer).await, 1);
    assert_eq!(count(&first, Code::NoCertificate).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_of_the_future_in_the_dns_lets_nobody_in() {
    let authority = Authority::new(200);
    let seed = Seed::from_bytes([2; 32]);
    let now = SystemTime::now();
    let early = CertificateTerms {
        key: authority.key_of(&seed),
        address: Some("127.0.0.1:7000".into()),
        not_before: now + HOUR,
        expires: now + 2 * HOUR,
    };
    let early = authority.seed.certify(NAME, &early).expect("a certificate");
    let server = name_server(&[&early], |_, _| Vec::new()).await;
    let one = authority.certify(&Seed::from_bytes([1; 32]), Some("127.0.0.1:7000"));
    let first = first(&authority, &one, &server).await;
    let two = authority.certify(&seed, Some("127.0.0.1:7000"));
    assert!(!joins(&authority, &two, &first).await);
    assert!(count(&first, Code::EarlyCertificate).await > 0);
    let status = first.status().await.expect("a status");
    assert!(status.successors.is_empty() && status.predecessor.is_none());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn member_is_seen_at_its_address_over_tcp_and_udp() {
    for scheme in ["tcp", "udp"] {
        let authority = Authority::new(200);
        let certify = |byte, host: &str| {
            authority.certify(&Seed::from_bytes([byte; 32]), Some(&format!("{host}:7000")))
        };
        let first = authority
            .node(&Seed::from_bytes([1; 32]), certify(1, "127.0.0.1"))
            .listen(format!("{scheme}://127.0.0.1:0"));
        let first = within(first.start()).await.expect("a node");
        let come = async |host: &str| {
            let builder = authority
                .node(&Seed::from_bytes([2; 32]), certify(2, host))
                .listen(format!("{scheme}://{host}:0"))
                .bootstrap(bootstrap(&first));
            within(builder.start()).await.map(drop)
        };
        come("127.0.0.1").await.expect("it is there");
        assert_eq!(count(&first, Code::WrongAddress).await, 0);
        // It dials from 127.0.0.1, which is not the address of its certificate.
        come("127.0.0.2").await.expect_err("it is elsewhere");
        assert!(count(&first, Code::WrongAddress).await > 0, "{scheme}");
    }
}
