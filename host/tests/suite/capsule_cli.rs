//! Capsules on the command line, with replicas that are processes too.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use selfsame_host::CAPSULES_FOLDER;
use serde_json::Value;

use crate::common::command;
use crate::common::run::{fail, run, stderr, succeed};
use crate::common::running::Running;

/// A replica, and what names it to clients.
fn replica(folder: &Path, data: &str) -> (Running, String) {
    replica_with(folder, data, &[])
}

fn three_replicas(folder: &Path) -> (Vec<Running>, Vec<String>) {
    ["r1", "r2", "r3"]
        .iter()
        .map(|data| replica(folder, data))
        .unzip()
}

fn replica_with(folder: &Path, data: &str, more: &[&str]) -> (Running, String) {
    let serve = ["capsule", "serve", "--listen", "127.0.0.1:0", "--data", data];
    let mut replica = Running::start(folder, &[&serve, more].concat());
    let serving = replica.event("serving");
    let text = |name: &str| serving[name].as_str().expect("text").to_owned();
    (replica, format!("{}#{}", text("url"), text("key")))
}

fn words<'a>(line: &'a str, servers: &'a [String]) -> Vec<&'a str> {
    let mut words: Vec<&str> = line.split(' ').collect();
    for server in servers {
        words.extend(["--server", server]);
    }
    words
}

#[test]
fn a_capsule_is_made_written_read_and_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let replicas: Vec<_> = ["r1", "r2", "r3"]
        .iter()
        .map(|data| replica(path, data))
        .collect();
    let servers: Vec<String> = replicas.iter().map(|(_, server)| server.clone()).collect();
    let on = |line: &str| succeed(path, &words(line, &servers));
    let json = |line: &str| -> Vec<Value> {
        let lines = on(&format!("--json {line}"));
        lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    let name = on("capsule create --description diary");
    assert_eq!(name.len(), 52);
    std::fs::write(path.join("one"), "first").expect("a file");
    std::fs::write(path.join("log"), "a\nb\nc\n").expect("a file");
    let first = on(&format!("capsule append {name} one"));
    let lines = on(&format!("capsule append {name} log --lines"));
    let lines: Vec<&str> = lines.lines().collect();
    let parts = on(&format!("capsule append {name} one log --together"));
    assert_eq!((first.len(), lines.len(), parts.len()), (64, 3, 64));

    assert_eq!(on(&format!("capsule read {name} {first}")), "first");
    let read = &json(&format!("capsule read {name} {} {parts}", lines[2]));
    assert_eq!(
        (&read[0]["content"], &read[0]["sequence"].is_u64()),
        (&Value::from("c"), &true)
    );
    assert_eq!(read[1]["subrecords"][1]["content"], "a\nb\nc\n");
    let heads = json(&format!("capsule heads {name}"));
    assert_eq!(
        (heads.len(), &heads[0]["record"]),
        (1, &Value::from(parts.clone()))
    );
    let log: Vec<String> = json(&format!("capsule log {name}"))
        .iter()
        .map(|record| record["record"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(log, [parts.as_str(), lines[2], lines[1], lines[0], &first]);
    assert_eq!(json(&format!("capsule log {name} -n 2")).len(), 2);

    on(&format!("capsule prove {name} {first} --output first.proof"));
    let nowhere = format!("capsule prove {name} {first} --output none.proof");
    fail(path, &words(&nowhere, &[]), 2, &["--server"]);
    assert!(!path.join("none.proof").exists(), "nothing was proven");
    drop(replicas);
    let verified = succeed(path, &["--json", "capsule", "verify", "first.proof"]);
    let verified: Value = serde_json::from_str(&verified).expect("JSON");
    assert_eq!(
        (&verified["capsule"], &verified["record"]),
        (&Value::from(name), &Value::from(first))
    );
    let mut proof = std::fs::read(path.join("first.proof")).expect("the file");
    let last = proof.len() - 1;
    proof[last] ^= 1;
    std::fs::write(path.join("bad.proof"), proof).expect("a file");
    fail(path, &["capsule", "verify", "bad.proof"], 1, &["at "]);
    fail(path, &["capsule", "verify", "one"], 1, &["BadFile", "at 0"]);
}

#[test]
fn a_capsule_is_made_and_written_at_a_server_whose_key_nobody_knows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (_replica, server) = replica(path, "r1");
    let (url, _) = server.split_once('#').expect("a URL and a key");
    let servers = [url.to_owned()];
    let name = succeed(path, &words("capsule create", &servers));
    assert_eq!(name.len(), 52);
    std::fs::write(path.join("one"), "first").expect("a file");
    let first = succeed(path, &words(&format!("capsule append {name} one"), &servers));
    let read = format!("capsule read {name} {first}");
    assert_eq!(succeed(path, &words(&read, &servers)), "first");
}

#[test]
fn a_record_is_read_from_the_standard_input_and_two_of_three_servers_suffice() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (mut replicas, servers) = three_replicas(path);
    let name = succeed(path, &words("capsule create --sealed", &servers));
    replicas.pop();
    let mut child = command::selfsame(path)
        .args(words(&format!("capsule append {name}"), &servers))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(b"from a pipe").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "{}", stderr(&output));
    let record = String::from_utf8(output.stdout).expect("text");
    let read = format!("capsule read {name} {}", record.trim());
    assert_eq!(succeed(path, &words(&read, &servers)), "from a pipe");
    // Who has not been granted the key reads nothing.
    let other = format!("{read} --key other.key --data other");
    succeed(path, &["capsule", "key", "--key", "other.key"]);
    fail(path, &words(&other, &servers), 1, &["NotAReader"]);
    replicas.pop();
    let lonely = run(
        path,
        &words(
            &format!("capsule append {name} r1/capsules/replica.key --timeout 1s"),
            &servers,
        ),
    );
    assert_eq!(lonely.status.code(), Some(3), "{}", stderr(&lonely));
    let told = stderr(&lonely);
    for server in &servers[1..] {
        let (url, _) = server.split_once('#').expect("its key");
        assert!(told.contains(url) && told.contains("refused"), "{told}");
    }
}

#[test]
fn server_that_missed_the_creation_stores_what_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (_one, at_one) = replica(path, "r1");
    let (two, at_two) = replica(path, "r2");
    let (three, at_three) = replica(path, "r3");
    drop(two);
    let servers = [at_one.clone(), at_two, at_three.clone()];
    let name = succeed(path, &words("capsule create --sealed", &servers));
    let (_two, at_two) = replica(path, "r2");
    drop(three);
    let servers = [at_one, at_two, at_three];
    succeed(
        path,
        &words(&format!("capsule append {name} capsule.key"), &servers),
    );
}

#[test]
fn replicas_come_to_hold_the_same_and_one_that_joins_fetches_what_it_is_to_keep() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (one, at_one) = replica(path, "r1");
    let (_other, at_other) = replica(path, "r2");
    let on = |line: &str, server: &String| succeed(path, &words(line, core::slice::from_ref(server)));
    let name = on("capsule create", &at_one);
    let record = on(&format!("capsule append {name} capsule.key"), &at_one);
    let both = [at_one.clone(), at_other.clone()];
    let sync = format!("--json capsule sync {name} --data copy");
    let synced: Value = serde_json::from_str(&succeed(path, &words(&sync, &both))).expect("JSON");
    assert_eq!(
        (&synced["agreed"], &synced["pulled"], &synced["pushed"]),
        (&true.into(), &2.into(), &2.into())
    );
    on(&format!("capsule export {name} --output whole.capsule"), &at_one);
    drop(one);
    let verified = succeed(path, &["--json", "capsule", "verify", "whole.capsule"]);
    let verified: Value = serde_json::from_str(&verified).expect("JSON");
    assert_eq!(
        (&verified["capsule"], &verified["records"]),
        (&name.as_str().into(), &1.into())
    );
    let (_fourth, at_fourth) = replica(path, "r4");
    on("capsule import whole.capsule", &at_fourth);
    let again = format!("capsule export {name} --output again.capsule");
    on(&again, &at_fourth);
    let bytes = |file: &str| std::fs::read(path.join(file)).expect("the file");
    assert_eq!(bytes("whole.capsule"), bytes("again.capsule"));
    fail(
        path,
        &words(&again, core::slice::from_ref(&at_fourth)),
        2,
        &["again.capsule"],
    );
    std::fs::write(path.join("bad.capsule"), &bytes("whole.capsule")[..100]).expect("a file");
    fail(
        path,
        &words("capsule import bad.capsule", &[at_fourth]),
        1,
        &["BadFile", "at 100"],
    );
    let key = std::fs::read_to_string(path.join("capsule.key")).expect("the file");
    let read = format!("capsule read {name} {record}");
    assert_eq!(on(&read, &at_other), key.trim());
    let url = at_other.split('#').next().expect("a URL");
    let serve = [
        "capsule",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        "r3",
        "--replica",
        url,
        "--keep",
        &name,
    ];
    let mut third = Running::start(path, &serve);
    let serving = third.event("serving");
    let at_third = serving["url"].as_str().expect("a URL").to_owned();
    third.event("joined");
    assert_eq!(on(&read, &at_third), key.trim());
}

/// A key file's public key, and its reader's key.
fn keys(folder: &Path, file: &str) -> (String, String) {
    let shown = succeed(folder, &["--json", "capsule", "key", "--key", file]);
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let text = |name: &str| shown[name].as_str().expect("a key").to_owned();
    (text("key"), text("reader"))
}

#[test]
fn an_owner_says_who_writes_and_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (_replica, server) = replica(path, "r1");
    let servers = [server];
    let on = |line: &str| succeed(path, &words(line, &servers));
    let refused = |line: &str, exit: i32, told: &[&str]| fail(path, &words(line, &servers), exit, told);
    let name = on("capsule create --sealed");
    let owner = keys(path, "capsule.key").0;
    let ((key, reader), (eve, _)) = (keys(path, "bob.key"), keys(path, "eve.key"));
    assert_eq!(on(&format!("capsule govern {name}")), format!("writer 0 {owner}"));

    std::fs::write(path.join("text"), "by Bob").expect("a file");
    let append = format!("capsule append {name} text --key bob.key --data bob");
    refused(&append, 1, &["NotAWriter"]);
    let added = on(&format!("capsule govern {name} --add {key} --reader {reader}"));
    assert_eq!(added.len(), 64);
    let writers = on(&format!("--json capsule govern {name}"));
    let last: Value = serde_json::from_str(writers.lines().last().expect("a writer")).expect("JSON");
    assert_eq!((&last["writer"], &last["key"]), (&1.into(), &key.as_str().into()));
    let (first, second) = (on(&append), on(&append));

    // What is wrong is said before anything is written.
    let govern = format!("capsule govern {name}");
    for (change, exit, told) in [
        (format!("--revoke {eve}"), 2, ["--revoke", &eve]),
        (
            format!("--revoke {key} --accept {added}"),
            2,
            ["--accept", &added],
        ),
        (format!("--accept {first}"), 2, ["--revoke"; 2]),
        ("--add bob".into(), 2, ["--add", "64 hexadecimal digits"]),
        (format!("--add {eve} --key none.key"), 2, ["none.key", "--key"]),
        (
            format!("--add {eve} --key bob.key --data bob"),
            1,
            ["NotAWriter"; 2],
        ),
        (format!("--revoke {owner}"), 1, ["BadEpoch"; 2]),
    ] {
        refused(&format!("{govern} {change}"), exit, &told);
    }

    let revoked = on(&format!("--json {govern} --revoke {key} --accept {first}"));
    let revoked: Value = serde_json::from_str(&revoked).expect("JSON");
    assert_eq!(revoked["record"].as_str().map(str::len), Some(64));
    refused(&append, 1, &["NotAWriter"]);
    assert_eq!(on(&format!("capsule read {name} {first}")), "by Bob");
    refused(
        &format!("capsule read {name} {second} --timeout 3s"),
        1,
        &["Unproven"],
    );
    // A new epoch has a key that Bob was not given.
    let secret = on(&format!("capsule append {name} text"));
    refused(
        &format!("capsule read {name} {secret} --key bob.key --data bob"),
        1,
        &["NotAReader"],
    );
    on(&format!("{govern} --reader {reader}"));
    assert_eq!(
        on(&format!("capsule read {name} {secret} --key bob.key --data bob")),
        "by Bob"
    );
    on(&format!("{govern} --new-epoch"));
    let later = on(&format!("capsule append {name} text"));
    refused(
        &format!("capsule read {name} {later} --key bob.key --data bob"),
        1,
        &["NotAReader"],
    );
}

#[test]
fn a_replica_for_certain_owners_takes_capsules_of_nobody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (ada, bob) = (keys(path, "ada.key").0, keys(path, "bob.key").0);
    let (_replica, server) = replica_with(path, "r1", &["--owner", &ada, "--owner", &bob]);
    let create = |file: &str| format!("capsule create --key {file} --timeout 5s");
    for file in ["ada.key", "bob.key"] {
        succeed(path, &words(&create(file), core::slice::from_ref(&server)));
    }
    fail(
        path,
        &words(&create("eve.key"), core::slice::from_ref(&server)),
        1,
        &["OwnerRefused"],
    );
    let wrong = ["capsule", "serve", "--owner", "ada"];
    fail(path, &wrong, 2, &["--owner", "64 hexadecimal digits"]);
}

#[test]
fn a_replica_keeps_as_much_in_memory_as_it_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(path.join("long"), vec![7; 900_000]).expect("a file");
    for (data, more, is_written) in [("r1", &["--write-buffer", "1"][..], true), ("r2", &[], false)] {
        let (_replica, server) = replica_with(path, data, more);
        let servers = [server];
        let on = |line: &str| succeed(path, &words(line, &servers));
        let name = on("capsule create");
        for _ in 0..4 {
            on(&format!("capsule append {name} long"));
        }
        // Of what is to be written in order, the third MiB waits for the first.
        let values = path
            .join(data)
            .join("capsules")
            .join(CAPSULES_FOLDER)
            .join("values");
        let files = std::fs::read_dir(&values).expect("a folder");
        let bytes = files.map(|file| file.and_then(|file| file.metadata()).expect("a file").len());
        assert_eq!(bytes.sum::<u64>() > 900_000, is_written, "{data}");
    }
    let wrong = ["capsule", "serve", "--write-buffer", "0"];
    fail(path, &wrong, 2, &["--write-buffer", "1..=4096"]);
}

/// Begins to upload an export file that a proxy passes on from an address.
fn upload(authority: &str, from: &str, announced: usize) -> TcpStream {
    let mut socket = TcpStream::connect(authority).expect("a connection");
    let head = format!(
        "POST / HTTP/1.1\r\nhost: {authority}\r\nx-forwarded-for: {from}\r\n\
         content-type: application/vnd.selfsame.capsule-file\r\ncontent-length: {announced}\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).expect("a head is sent");
    socket
}

/// Whether an upload was answered although it is not over.
fn is_answered(socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).expect("it does not wait");
    let seen = socket.peek(&mut [0]);
    socket.set_nonblocking(false).expect("it waits again");
    seen.is_ok()
}

/// The status that an upload of nonsense is answered with.
fn status_of_nonsense(authority: &str, from: &str) -> String {
    let mut socket = upload(authority, from, 5);
    socket.write_all(b"wrong").expect("a body is sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn sources_behind_a_trusted_proxy_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_replica, server) = replica_with(folder.path(), "r1", &["--trusted-proxy", "127.0.0.1"]);
    let authority = server
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .expect("a URL");
    let mut stalled = [(); 2].map(|()| upload(authority, "192.0.2.1", 100));
    // Until both are under way, one more of the same source is refused only for what it says, and may take the place of one of them.
    let is_refused = (0..10_000).any(|_| {
        for socket in stalled.iter_mut().filter(|socket| is_answered(socket)) {
            *socket = upload(authority, "192.0.2.1", 100);
        }
        status_of_nonsense(authority, "192.0.2.1") == "503"
    });
    assert!(is_refused, "two files are under way");
    assert_eq!(status_of_nonsense(authority, "198.51.100.1"), "400");
}

/// Where servers answer, without their keys.
fn places(servers: &[String]) -> Vec<&str> {
    servers
        .iter()
        .map(|server| server.split('#').next().expect("a URL"))
        .collect()
}

#[test]
fn server_that_is_away_or_has_another_key_is_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (mut replicas, mut servers) = three_replicas(path);
    let name = succeed(path, &words("capsule create", &servers));
    let append = format!("capsule append {name} capsule.key");
    let told = |servers: &[String]| {
        let output = run(path, &words(&append, servers));
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    assert_eq!(told(&servers), "");
    let place = places(&servers)[2].to_owned();
    let key = servers[2].split_once('#').expect("a key").1.to_owned();
    let other = keys(path, "other.key").0;
    servers[2] = format!("{place}#{other}");
    let text = told(&servers);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        [&place, &key, &other].iter().all(|word| text.contains(*word)),
        "{text}"
    );
    let heads = format!("capsule heads {name}");
    fail(path, &words(&heads, &servers[2..]), 1, &[&place, &key, &other]);
    replicas.pop();
    let text = told(&servers);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(&place) && text.contains("refused"), "{text}");
}

#[test]
fn refusals_name_servers_by_their_urls() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (_one, at_one) = replica(path, "r1");
    let (_two, at_two) = replica(path, "r2");
    let servers = [at_one.clone(), at_two];
    let [one, two] = [places(&servers)[0], places(&servers)[1]];
    let nowhere = format!("capsule heads {}", "a".repeat(52));
    let output = run(path, &words(&nowhere, &servers));
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        ["NoCapsule", one, two].iter().all(|word| told.contains(word)),
        "{told}"
    );
    assert!(!told.contains("at 0"), "{told}");

    // A server that is away cannot make a quorum with those that refuse.
    let key = keys(path, "away.key").0;
    let away = [&servers[..], &[format!("http://127.0.0.1:1/#{key}")]].concat();
    let told = run(path, &words(&nowhere, &away));
    assert_eq!(told.status.code(), Some(1), "{}", stderr(&told));

    // The second server has what the first had before the last record.
    let name = succeed(path, &words("capsule create", &servers[..1]));
    succeed(
        path,
        &words(
            &format!("capsule export {name} --output old.capsule"),
            &servers[..1],
        ),
    );
    succeed(
        path,
        &words(&format!("capsule append {name} capsule.key"), &servers[..1]),
    );
    succeed(path, &words("capsule import old.capsule", &servers[1..]));
    let heads = format!("capsule heads {name}");
    fail(path, &words(&heads, &servers[1..]), 1, &["RolledBack", two]);
    let export = format!("capsule export {} --output none.capsule", "a".repeat(52));
    fail(path, &words(&export, &servers), 1, &["NoCapsule", two]);
}
