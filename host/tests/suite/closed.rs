//! Closed networks: nodes with certificates over real sockets, and the commands of their authority.

use core::time::Duration;
use std::path::Path;
use std::time::SystemTime;

use selfsame_host::admission::{DnsCertificates, NameServers, Resolver};
use selfsame_host::{
    AuthorityKey, Builder, Certificate, CertificateTerms, Code, Error, Event, Node, NodeKey, Revocations,
    Seed,
};

use crate::admission::name_server::{NameServer, framed, response};
use crate::common::nodes::{bootstrap, says};
use crate::common::run::{fail, run, stdout, succeed};
use crate::common::running::Running;
use crate::common::{get, text, within};

pub(crate) const NAME: &str = "test";
pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);

pub(crate) struct Authority {
    pub(crate) seed: Seed,
    network: String,
}

impl Authority {
    pub(crate) fn new(byte: u8) -> Self {
        let seed = Seed::from_bytes([byte; 32]);
        let key = seed.authority_key(NAME).expect("a key");
        Self {
            seed,
            network: format!("{NAME}@{key}"),
        }
    }

    pub(crate) fn key_of(&self, seed: &Seed) -> NodeKey {
        seed.node_key(&self.network).expect("a key")
    }

    pub(crate) fn certify(&self, seed: &Seed, address: Option<&str>) -> Certificate {
        let now = SystemTime::now();
        let terms = CertificateTerms {
            key: self.key_of(seed),
            address: address.map(String::from),
            not_before: now,
            expires: now + HOUR,
        };
        self.seed.certify(NAME, &terms).expect("a certificate")
    }

    /// A node of the network, with whatever certificate.
    pub(crate) fn node(&self, seed: &Seed, certificate: Certificate) -> Builder {
        Node::builder(&self.network)
            .in_memory()
            .seed(seed.clone())
            .certificate(certificate)
            .allow_private(true)
            .unowned()
    }

    fn member(&self, seed: &Seed) -> Builder {
        self.node(seed, self.certify(seed, Some("127.0.0.1:7000")))
            .listen("ws://127.0.0.1:0")
    }
}

fn seeds(first: u8, len: u8) -> Vec<Seed> {
    (first..first + len)
        .map(|byte| Seed::from_bytes([byte; 32]))
        .collect()
}

async fn ring(authority: &Authority, seeds: &[Seed]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for seed in seeds {
        let builder = authority.member(seed);
        let builder = match nodes.first() {
            Some(first) => builder.bootstrap(bootstrap(first)),
            None => builder,
        };
        nodes.push(within(builder.start()).await.expect("a node"));
    }
    nodes
}

fn code(error: &Error) -> Option<Code> {
    error.code()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_certificates_call_each_other_and_strangers_stay_out() {
    let authority = Authority::new(200);
    let seeds = seeds(1, 4);
    let nodes = ring(&authority, &seeds[..3]).await;
    within(nodes[2].serve("hello", says("hello")))
        .await
        .expect("a service");
    let leaf = authority
        .node(&seeds[3], authority.certify(&seeds[3], None))
        .bootstrap(bootstrap(&nodes[0]));
    let leaf = within(leaf.start()).await.expect("a leaf");
    let response = within(leaf.fetch(get("https://hello.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "hello");
    let certificate = authority.certify(&seeds[0], Some("127.0.0.1:7000"));
    let certified = certificate
        .verify(&authority.network, &authority.key_of(&seeds[0]))
        .expect("a sound certificate");
    assert_eq!(certified.peer, nodes[0].id());
    assert_eq!(certified.address.as_deref(), Some("127.0.0.1:7000"));

    let other = Authority::new(201);
    let stranger = Seed::from_bytes([99; 32]);
    let forged = other.certify(&stranger, Some("127.0.0.1:7000"));
    let wrong = forged.verify(&authority.network, &authority.key_of(&stranger));
    assert_eq!(
        wrong.err().and_then(|error| code(&error)),
        Some(Code::WrongIssuer)
    );
    let open = Node::builder(NAME)
        .in_memory()
        .allow_private(true)
        .unowned()
        .bootstrap(bootstrap(&nodes[0]));
    assert!(within(open.start()).await.is_err());
    let elsewhere = other.member(&stranger).bootstrap(bootstrap(&nodes[0]));
    assert!(within(elsewhere.start()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_do_not_fit_the_network_are_named() {
    let authority = Authority::new(200);
    let seed = Seed::from_bytes([1; 32]);
    let certificate = authority.certify(&seed, Some("127.0.0.1:7000"));
    let bare = Node::builder(&authority.network)
        .in_memory()
        .listen("ws://127.0.0.1:0");
    let error = within(bare.start()).await.expect_err("no certificate");
    assert!(error.to_string().contains("--certificate"), "{error}");
    let open = Node::builder(NAME).in_memory().certificate(certificate.clone());
    let error = within(open.listen("ws://127.0.0.1:0").start()).await.err();
    assert!(error.expect("an open network").to_string().contains("NAME@KEY"));
    let nameless = Node::builder("test@12")
        .in_memory()
        .certificate(certificate.clone());
    let error = within(nameless.listen("ws://127.0.0.1:0").start()).await.err();
    assert!(error.expect("no key").to_string().contains("authority"));
    let elsewhere = authority
        .node(&seed, certificate.clone())
        .listen("ws://127.0.0.1:0");
    let elsewhere = elsewhere.address("ws://node.example:7000");
    let error = within(elsewhere.start()).await.expect_err("another address");
    assert_eq!(code(&error), Some(Code::WrongAddress));
    let leafs = authority
        .node(&seed, authority.certify(&seed, None))
        .listen("ws://127.0.0.1:0");
    let error = within(leafs.start()).await.expect_err("a leaf's certificate");
    assert_eq!(code(&error), Some(Code::WrongRole));
    assert!("x".parse::<Certificate>().is_err() && "".parse::<Revocations>().is_err());
    assert!("x".parse::<AuthorityKey>().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_node_is_parted_with_and_may_come_back_with_a_later_certificate() {
    let authority = Authority::new(200);
    let seeds = seeds(1, 4);
    let mut nodes = ring(&authority, &seeds).await;
    within(nodes[3].serve("hello", says("hello")))
        .await
        .expect("a service");
    let mut events = nodes[3].events();
    let revoked = [(authority.key_of(&seeds[3]), SystemTime::now())];
    let list = authority.seed.revoke(NAME, &revoked).expect("a list");
    let read: Revocations = list.to_string().parse().expect("its text");
    within(nodes[1].revoke(&read)).await.expect("a newer list");
    // All three others part with it.
    let mut parted = 0;
    while parted < 3 {
        if let Event::PeerDisconnected(_) = within(events.recv()).await.expect("an event") {
            parted += 1;
        }
    }
    assert!(within(nodes[0].fetch(get("https://hello.mesh/"))).await.is_err());
    nodes.remove(3).stop().await;
    let again = authority
        .member(&seeds[3])
        .bootstrap(bootstrap(&nodes[0]))
        .start();
    let now = within(again)
        .await
        .expect("a certificate of after the revocation");
    within(now.serve("back", says("back"))).await.expect("a service");
    let response = within(nodes[2].fetch(get("https://back.mesh/")))
        .await
        .expect("an answer");
    assert_eq!(text(response).await, "back");
    let empty = authority.seed.revoke(NAME, &[]).expect("a list");
    within(nodes[0].revoke(&empty)).await.expect("a newer list");
    let stale = within(nodes[0].revoke(&list)).await.expect_err("an older list");
    assert_eq!(code(&stale), Some(Code::StaleRevocations));
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_is_renewed_while_the_node_runs() {
    let authority = Authority::new(200);
    let seeds = seeds(1, 2);
    let nodes = ring(&authority, &seeds).await;
    let renewed = authority.certify(&seeds[0], Some("127.0.0.1:7000"));
    within(nodes[0].renew_certificate(&renewed))
        .await
        .expect("the same id");
    let moved = authority.certify(&seeds[0], Some("127.0.0.1:7001"));
    let error = within(nodes[0].renew_certificate(&moved)).await.err();
    assert_eq!(error.and_then(|error| code(&error)), Some(Code::WrongSeat));
    let of_other = authority.certify(&seeds[1], Some("127.0.0.1:7000"));
    let error = within(nodes[0].renew_certificate(&of_other)).await.err();
    assert_eq!(error.and_then(|error| code(&error)), Some(Code::BadCertificate));
}

/// Makes an authority, and a certificate for the identity in each folder.
fn found(path: &Path, folders: &[&str]) -> String {
    let network = succeed(path, &["authority", "new", "--network", "t"]);
    assert_eq!(succeed(path, &["authority", "show", "--network", "t"]), network);
    for folder in folders {
        let key = succeed(path, &["id", "key", "--network", &network, "--data", folder]);
        let sign = ["authority", "sign", "--network", &network, "--node", &key];
        let certificate = succeed(path, &[&sign[..], &["--address", "127.0.0.1:7000"]].concat());
        std::fs::write(path.join(format!("{folder}.certificate")), certificate).expect("a file");
    }
    network
}

#[test]
fn commands_of_an_authority_say_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let network = found(path, &["one"]);
    fail(
        path,
        &["authority", "new", "--network", "t"],
        2,
        &["authority.key", "exists already"],
    );
    fail(
        path,
        &["authority", "show", "--network", "t", "--key", "none"],
        2,
        &["none", "authority new"],
    );
    let sign = ["authority", "sign", "--network", "t", "--node"];
    fail(path, &[&sign[..], &["xyz"]].concat(), 2, &["xyz"]);
    let key = succeed(path, &["id", "key", "--network", &network, "--data", "one"]);
    fail(
        path,
        &[&sign[..], &[&key, "--expires", "33d"]].concat(),
        1,
        &["certificate"],
    );
    fail(
        path,
        &[&sign[..], &[&key, "--address", "nowhere"]].concat(),
        2,
        &["nowhere", "HOST:PORT"],
    );
    let node = [
        "node",
        "--network",
        &network,
        "--data",
        "one",
        "--listen",
        "ws://127.0.0.1:0",
    ];
    fail(path, &node, 2, &["closed", "--certificate"]);
    let missing = [&node[..], &["--certificate", "none"]].concat();
    fail(path, &missing, 2, &["none"]);
    std::fs::write(path.join("damaged"), "no certificate").expect("a file");
    let damaged = [&node[..], &["--certificate", "damaged"]].concat();
    fail(path, &damaged, 2, &["damaged", "authority sign"]);
    let other = [&node[..], &["--certificate", "authority.key"]].concat();
    fail(path, &other, 1, &["certificate"]);
}

#[test]
fn grants_are_for_the_id_that_the_certificate_gives() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let network = found(path, &["one", "two"]);
    succeed(path, &["owner", "new", "--network", &network]);
    let start = |more: &[&str]| {
        let common = ["node", "--network", &network, "--listen", "ws://127.0.0.1:0"];
        let own = [
            "--allow-private",
            "--data",
            "one",
            "--certificate",
            "one.certificate",
        ];
        Running::start(path, &[&common[..], &own, more].concat())
    };
    let mut node = start(&[]);
    let id = node.event("started")["id"].as_str().expect("text").to_owned();
    node.event("joined");
    assert_eq!(node.end(), Some(0));
    let grant = |to: &str| {
        let text = succeed(
            path,
            &["grant", "--network", &network, "--name", "check", "--to", to],
        );
        std::fs::write(path.join("check.grant"), text).expect("a file");
    };
    grant(&id);
    let mut node = start(&["--grant", "check.grant"]);
    node.event("joined");
    assert_eq!(node.end(), Some(0));
    let other = succeed(path, &["id", "show", "--network", &network, "--data", "two"]);
    grant(&other);
    let common = [
        "node",
        "--network",
        &network,
        "--listen",
        "ws://127.0.0.1:0",
        "--data",
        "one",
    ];
    let own = ["--certificate", "one.certificate", "--grant", "check.grant"];
    fail(path, &[&common[..], &own].concat(), 2, &["check.grant", &other]);
}

#[cfg(unix)]
#[test]
fn running_nodes_read_revocations_again_when_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let network = found(path, &["one", "two"]);
    let revoke = ["authority", "revoke", "--network", &network];
    std::fs::write(path.join("revocations"), succeed(path, &revoke)).expect("a file");
    let start = |name: &str, more: &[&str]| {
        let certificate = format!("{name}.certificate");
        let common = [
            "node",
            "--network",
            &network,
            "--allow-private",
            "--listen",
            "ws://127.0.0.1:0",
        ];
        let own = [
            "--data",
            name,
            "--certificate",
            &certificate,
            "--revocations",
            "revocations",
        ];
        Running::start(path, &[&common[..], &own, more].concat())
    };
    let mut one = start("one", &[]);
    let started = one.event("started");
    one.event("joined");
    let at = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let join = format!("{}#{}", at(&started["addresses"][0]), at(&started["id"]));
    let mut two = start("two", &["--join", &join]);
    two.event("joined");
    one.event("connected");
    let key = succeed(path, &["id", "key", "--network", &network, "--data", "two"]);
    let list = succeed(path, &[&revoke[..], &["--node", &key]].concat());
    std::fs::write(path.join("revocations"), list).expect("a file");
    one.signal("-HUP");
    one.event("disconnected");
    let (_, authority) = network.split_once('@').expect("a key");
    let table = succeed(path, &["ring", "--data", "one"]);
    for words in [
        format!("admission    certificates of {authority}"),
        " old, expires in 23 h".into(),
        " of 1 keys".into(),
    ] {
        assert!(table.contains(&words), "{words} in\n{table}");
    }
    // The revocation counts as something to look at.
    let found = stdout(&run(path, &["doctor", "--data", "one"]));
    for words in [
        "ok      admission",
        "ok      admission     certificate",
        "of 1 keys",
        "expires in 23 h",
    ] {
        assert!(found.contains(words), "{words} in\n{found}");
    }
    assert_eq!(one.end(), Some(0));
}

#[test]
fn doctor_judges_the_certificate_of_a_node_to_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let network = found(path, &["one"]);
    let key = succeed(path, &["id", "key", "--network", &network, "--data", "one"]);
    let sign = [
        "authority",
        "sign",
        "--network",
        &network,
        "--node",
        &key,
        "--address",
        "127.0.0.1:7000",
    ];
    let certificate = succeed(path, &[&sign[..], &["--expires", "30m"]].concat());
    std::fs::write(path.join("short"), certificate).expect("a file");
    let doctor = ["doctor", "--network", &network, "--data", "one", "--certificate"];
    let found = succeed(path, &[&doctor[..], &["short"]].concat());
    assert!(
        found.contains("warning admission     certificate") && found.contains("authority sign"),
        "{found}"
    );
    let found = succeed(path, &[&doctor[..], &["one.certificate"]].concat());
    assert!(found.contains("ok      admission     certificate"), "{found}");
    let other = succeed(path, &["id", "key", "--network", &network, "--data", "two"]);
    let certificate = succeed(
        path,
        &["authority", "sign", "--network", &network, "--node", &other],
    );
    std::fs::write(path.join("foreign"), certificate).expect("a file");
    let output = run(path, &[&doctor[..], &["foreign"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let found = stdout(&output);
    assert!(found.contains("BadCertificate"), "{found}");
}

/// A name server whose answer to every query are these certificates.
async fn zone(certificates: &[&Certificate]) -> NameServer {
    let texts: Vec<String> = certificates
        .iter()
        .map(|certificate| format!("selfsame1={certificate}"))
        .collect();
    NameServer::start(move |query| {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let message = response(&query.bytes, 0, 300, &texts);
        vec![if query.is_tcp { framed(&message) } else { message }]
    })
    .await
}

pub(crate) fn found_at(server: &NameServer) -> DnsCertificates {
    let servers = NameServers::at([server.address]).expect("one server");
    DnsCertificates::new(Resolver::new(servers).expect("a resolver"), "ring.example")
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_certificate_in_the_dns_counts() {
    let authority = Authority::new(200);
    let seed = Seed::from_bytes([1; 32]);
    let key = authority.key_of(&seed);
    let now = SystemTime::now();
    let until = |expires| {
        let terms = CertificateTerms {
            key,
            address: None,
            not_before: now - HOUR,
            expires,
        };
        authority.seed.certify(NAME, &terms).expect("a certificate")
    };
    let (short, long) = (until(now + HOUR), until(now + 2 * HOUR));
    let forged = Authority::new(201).certify(&seed, None);
    let server = zone(&[&short, &long, &forged]).await;
    let (certificate, certified) = within(found_at(&server).newest(&authority.network, &key))
        .await
        .expect("a certificate that counts");
    assert_eq!(certificate, long);
    assert!(certified.address.is_none());

    let failure = async |certificates: &[&Certificate]| {
        let server = zone(certificates).await;
        let found = within(found_at(&server).newest(&authority.network, &key)).await;
        code(&found.expect_err("none that counts"))
    };
    assert_eq!(failure(&[]).await, Some(Code::NoCertificate));
    assert_eq!(failure(&[&forged]).await, Some(Code::WrongIssuer));
    let over = until(now - HOUR / 2);
    assert_eq!(failure(&[&over]).await, Some(Code::ExpiredCertificate));
}

#[tokio::test(flavor = "multi_thread")]
async fn command_runs_a_node_with_the_certificate_in_the_dns() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_owned();
    let network = found(&path, &["one"]);
    let text = std::fs::read_to_string(path.join("one.certificate")).expect("a file");
    let certificate: Certificate = text.parse().expect("a certificate");
    let server = zone(&[&certificate]).await;
    let at = server.address.to_string();
    let run = move || {
        let common = [
            "node",
            "--network",
            &network,
            "--allow-private",
            "--listen",
            "ws://127.0.0.1:0",
        ];
        let own = ["--data", "one", "--dns", "ring.example", "--name-server", &at];
        let mut node = Running::start(&path, &[&common[..], &own].concat());
        node.event("joined");
        assert_eq!(node.end(), Some(0));
        let stranger = ["--data", "two", "--dns", "ring.example", "--name-server", &at];
        fail(&path, &[&common[..], &stranger].concat(), 1, &["certificate"]);
    };
    tokio::task::spawn_blocking(run).await.expect("an end");
    assert!(server.queries() >= 2);
}
