//! The authority of a closed network: quotas, what it remembers, and its zone.

use core::time::Duration;
use std::path::Path;
use std::time::SystemTime;

use selfsame_host::admission::{TsigKey, ZoneUpdates};
use selfsame_host::{
    Authority, AuthorityError, CertificateTerms, Code, NodeKey, Quotas, Revocations, Zone, ZoneNameServer,
};

use crate::admission::name_server::NameServer;
use crate::common::run::{fail, run, succeed};

const HOUR: Duration = Duration::from_secs(60 * 60);

fn authority(folder: &Path) -> Authority {
    let file = folder.join("authority.key");
    let made = Authority::create(&file, "t");
    made.or_else(|_| Authority::open(&file, "t"))
        .expect("an authority")
}

fn terms(number: u8, address: Option<&str>) -> CertificateTerms {
    let now = SystemTime::now();
    CertificateTerms {
        key: NodeKey([number; 32]),
        address: address.map(String::from),
        not_before: now,
        expires: now + HOUR,
    }
}

fn sign(authority: &Authority, number: u8, address: &str) -> Result<(), AuthorityError> {
    authority.sign(&terms(number, Some(address)), None).map(drop)
}

fn is_over(result: &Result<(), AuthorityError>, expected: &str) -> bool {
    matches!(result, Err(AuthorityError::Quota { holder, .. }) if holder == expected)
}

#[test]
fn one_party_gets_only_so_many_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = authority(folder.path());
    for number in 0..7 {
        sign(&authority, number, &format!("192.0.2.{number}:443")).expect("below the quota");
        sign(&authority, 50 + number, &format!("[2001:db8:1:1{number}::1]:443")).expect("below the quota");
        sign(
            &authority,
            100 + number,
            &format!("n{number}.a{number}.example.co.uk:443"),
        )
        .expect("below");
    }
    assert!(is_over(&sign(&authority, 8, "192.0.2.99:443"), "192.0.2.0/24"));
    assert!(
        is_over(&sign(&authority, 1, "192.0.2.99:443"), "192.0.2.0/24"),
        "one node at many addresses"
    );
    assert!(
        is_over(&sign(&authority, 8, "[2002:c000:263::1]:443"), "192.0.2.0/24"),
        "6to4"
    );
    assert!(is_over(
        &sign(&authority, 8, "[2001:db8:1:ff00::1]:443"),
        "2001:db8:1::/48"
    ));
    assert!(is_over(
        &sign(&authority, 8, "other.example.co.uk:443"),
        "example.co.uk"
    ));
    assert!(matches!(
        sign(&authority, 8, "other.example.co.uk.:443"),
        Err(AuthorityError::Address { .. })
    ));
    assert!(matches!(
        sign(&authority, 8, "Other.example.co.uk:443"),
        Err(AuthorityError::Address { .. })
    ));
    assert!(matches!(
        sign(&authority, 8, "192.0.2.0x63:443"),
        Err(AuthorityError::Address { .. })
    ));
    sign(&authority, 1, "192.0.2.1:443").expect("a renewal");
    sign(&authority, 8, "192.0.3.1:443").expect("another network");
    sign(&authority, 8, "example.org.uk:443").expect("another domain");
    let higher = authority.quotas(Quotas {
        per_prefix: 8,
        ..Quotas::default()
    });
    sign(&higher, 9, "192.0.2.99:443").expect("what the operator has raised");
}

#[test]
fn leaves_count_where_they_were_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = authority(folder.path()).quotas(Quotas {
        leaves: 2,
        ..Quotas::default()
    });
    let seen = Some("192.0.2.9".parse().expect("an IP"));
    for number in 0..7 {
        authority
            .sign(&terms(number, None), seen)
            .expect("below the quota");
    }
    let more = authority.sign(&terms(7, None), Some("::ffff:192.0.2.1".parse().expect("an IP")));
    assert!(is_over(&more.map(drop), "192.0.2.0/24"));
    authority.sign(&terms(20, None), None).expect("below the quota");
    authority.sign(&terms(21, None), None).expect("below the quota");
    assert!(is_over(
        &authority.sign(&terms(22, None), None).map(drop),
        "leaves"
    ));
}

#[test]
fn quota_is_held_by_what_expires_last_and_by_who_was_shut_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = authority(folder.path()).quotas(Quotas {
        per_prefix: 1,
        ..Quotas::default()
    });
    let mut brief = terms(1, Some("192.0.2.1:443"));
    brief.not_before -= 2 * HOUR;
    brief.expires -= HOUR + HOUR / 2;
    sign(&authority, 1, "192.0.2.1:443").expect("the first");
    authority
        .sign(&brief, None)
        .expect("a renewal that is over already");
    authority.revoke(&[NodeKey([1; 32])]).expect("a list");
    assert!(is_over(&sign(&authority, 2, "192.0.2.2:443"), "192.0.2.0/24"));
}

#[test]
fn list_names_all_that_were_shut_out_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let holds =
        |list: &Revocations, number: u8| list.as_bytes().windows(32).any(|bytes| bytes == [number; 32]);
    let first = authority(path).revoke(&[NodeKey([1; 32])]).expect("a list");
    let second = authority(path).revoke(&[NodeKey([2; 32])]).expect("a list");
    assert!(holds(&first, 1) && !holds(&first, 2));
    assert!(holds(&second, 1) && holds(&second, 2));
    let many: Vec<NodeKey> = (3..=255).map(|number| NodeKey([number; 32])).collect();
    authority(path).revoke(&many).expect("255 of at most 256");
    let mut other = [9; 32];
    other[0] = 1;
    let more: Vec<NodeKey> = (0..2)
        .map(|last| {
            other[31] = last;
            NodeKey(other)
        })
        .collect();
    assert!(matches!(
        authority(path).revoke(&more),
        Err(AuthorityError::Other(error)) if error.code() == Some(Code::TooLarge)
    ));
}

#[test]
fn commands_at_the_same_time_share_one_quota() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    succeed(path, &["authority", "new", "--network", "t"]);
    let signed = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..12)
            .map(|number| {
                scope.spawn(move || {
                    let (node, address) = (format!("{number:064x}"), format!("192.0.2.{number}:443"));
                    let sign = [
                        "authority",
                        "sign",
                        "--network",
                        "t",
                        "--node",
                        &node,
                        "--address",
                        &address,
                    ];
                    run(path, &sign).status.success()
                })
            })
            .collect();
        runs.into_iter()
            .map(|run| run.join().expect("an end"))
            .filter(|ended| *ended)
            .count()
    });
    assert_eq!(signed, 7);
    let node = format!("{:064x}", 99);
    let sign = [
        "authority",
        "sign",
        "--network",
        "t",
        "--node",
        &node,
        "--address",
        "192.0.2.99:443",
    ];
    fail(path, &sign, 2, &["192.0.2.0/24", "7", "--most-per-prefix"]);
    succeed(path, &[&sign[..], &["--most-per-prefix", "8"]].concat());
}

#[test]
fn damaged_records_sign_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    succeed(path, &["authority", "new", "--network", "t"]);
    let node = format!("{:064x}", 1);
    let sign = [
        "authority",
        "sign",
        "--network",
        "t",
        "--node",
        &node,
        "--address",
        "192.0.2.1:443",
    ];
    succeed(path, &sign);
    let file = path.join("authority.key.signed");
    let whole = std::fs::read(&file).expect("the records");
    for bytes in [
        &whole[..whole.len() / 2],
        b"",
        b"{}",
        br#"{"version":1,"networks":{"t":{}}}"#,
    ] {
        std::fs::write(&file, bytes).expect("a file");
        fail(path, &sign, 2, &["authority.key.signed", "damaged", "restore"]);
    }
    std::fs::write(&file, &whole).expect("a file");
    succeed(path, &sign);
}

#[test]
fn zone_has_all_that_counts_and_a_rising_serial() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let authority = authority(path);
    assert!(matches!(authority.zone_file(), Err(AuthorityError::NoZone)));
    let zone = |name: &str, addresses: &[&str], mail: &str| Zone {
        domain: "ring.example".into(),
        name_servers: vec![ZoneNameServer {
            name: name.into(),
            addresses: addresses.iter().map(|ip| ip.parse().expect("an IP")).collect(),
        }],
        mail: mail.into(),
    };
    for wrong in [
        zone("ns.ring.example", &[], "a@b.example"),
        zone("ns example", &[], "a@b.example"),
        zone("ns.example", &[], "a b@c.example"),
        zone("ns.example", &[], "nobody"),
        zone("ns.example\nevil. 1 IN A 192.0.2.1", &[], "a@b.example"),
    ] {
        assert!(matches!(authority.set_zone(wrong), Err(AuthorityError::Zone(_))));
    }
    authority
        .set_zone(zone(
            "ns.ring.example",
            &["192.0.2.53", "2001:db8::53"],
            "first.last@ring.example",
        ))
        .expect("a zone");
    sign(&authority, 1, "192.0.2.1:443").expect("a certificate");
    sign(&authority, 2, "192.0.2.2:443").expect("a certificate");
    let text = authority.zone_file().expect("a zone");
    assert!(
        text.starts_with("ring.example. 300 IN SOA ns.ring.example. first\\.last.ring.example. "),
        "{text}"
    );
    assert!(
        text.contains("\nns.ring.example. 300 IN AAAA 2001:db8::53\n_authority.ring.example."),
        "{text}"
    );
    assert_eq!(text.matches("selfsame1=").count(), 3);
    authority.revoke(&[NodeKey([1; 32])]).expect("a list");
    let later = authority.zone_file().expect("a zone");
    assert_eq!(later.matches("selfsame1=").count(), 2);
    let serial = |text: &str| text.split_whitespace().nth(6).map(str::to_owned);
    let number = |text: &str| {
        serial(text)
            .and_then(|word| word.parse::<u32>().ok())
            .expect("a serial")
    };
    assert!(number(&later) > number(&text));
}

#[tokio::test(flavor = "multi_thread")]
async fn update_is_only_believed_when_it_is_signed() {
    let certificate = {
        let folder = tempfile::tempdir().expect("a folder");
        authority(folder.path())
            .sign(&terms(1, Some("192.0.2.1:443")), None)
            .expect("a certificate")
    };
    let publish = async |server: &NameServer| {
        let key = TsigKey::new("key.example", &[7; 32]).expect("a key");
        let updates = ZoneUpdates::new(server.address, key, "ring.example").expect("updates");
        updates
            .publish(&NodeKey([1; 32]), &certificate)
            .await
            .expect_err("no server has signed")
            .code()
    };
    // NOERROR without a signature, as whoever sits between would send it.
    let unsigned = NameServer::start(|query| {
        let mut answer = query.bytes[..12].to_vec();
        answer[2] |= 0x80;
        answer[4..12].fill(0);
        let len = u16::try_from(answer.len()).expect("short").to_be_bytes();
        vec![[&len[..], &answer].concat()]
    })
    .await;
    assert_eq!(publish(&unsigned).await, Code::DnsBadSignature);
    // The update itself, sent back: its own signature is not that of an answer.
    let mirror = NameServer::start(|query| {
        let mut answer = query.bytes.clone();
        answer[2] |= 0x80;
        let len = u16::try_from(answer.len()).expect("short").to_be_bytes();
        vec![[&len[..], &answer].concat()]
    })
    .await;
    assert_eq!(publish(&mirror).await, Code::DnsBadSignature);
    let garbage = NameServer::start(|_| vec![b"\0\x05hello".to_vec()]).await;
    assert_eq!(publish(&garbage).await, Code::BadDnsMessage);
    let closing = NameServer::start(|_| vec![b"\0\xff".to_vec()]).await;
    assert_eq!(publish(&closing).await, Code::DialFailed);
}
