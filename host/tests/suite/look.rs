//! Commands that look at a running node, and the one that runs many.

use std::path::Path;

use serde_json::Value;

use crate::common::run::{fail, run, stderr, stdout, succeed};
use crate::common::running::Running;

/// Starts a node that listens, and gives what others join through.
fn start(folder: &Path, data: &str, more: &[&str]) -> (Running, String) {
    let node = ["node", "--network", "t", "--unowned", "--allow-private"];
    let place = ["--listen", "ws://127.0.0.1:0", "--data", data];
    let mut node = Running::start(folder, &[&node[..], &place, more].concat());
    let started = node.event("started");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let join = format!("{}#{}", text(&started["addresses"][0]), text(&started["id"]));
    (node, join)
}

/// Each line as JSON.
fn lines(text: &str) -> Vec<Value> {
    let read = |line| serde_json::from_str(line).expect("JSON");
    text.lines().map(read).collect()
}

/// What the doctor finds: the verdict of each check by its name.
fn verdicts(text: &str) -> Vec<(String, String)> {
    let text_of = |value: &Value| value.as_str().expect("text").to_owned();
    let each = lines(text);
    each.iter()
        .map(|line| (text_of(&line["check"]), text_of(&line["verdict"])))
        .collect()
}

#[test]
fn a_running_node_shows_its_place_in_the_ring() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (mut first, join) = start(path, "one", &["--metrics", "127.0.0.1:0"]);
    let address = first.event("metrics")["address"].clone();
    let url = format!("http://{}", address.as_str().expect("an address"));
    let (mut second, other) = start(path, "two", &["--join", &join]);
    second.event("joined");
    let [first_id, second_id] = [&join, &other].map(|join| join.split_once('#').expect("an id").1);

    let table = succeed(path, &["ring", "--data", "two"]);
    for words in [
        format!("{second_id} member of t, joined"),
        format!("successor 1  {}", &first_id[..16]),
        format!("predecessor  {}", &first_id[..16]),
    ] {
        assert!(table.contains(&words), "{words} in\n{table}");
    }
    let status = succeed(path, &["--json", "ring", "--url", &url]);
    let status = lines(&status).remove(0);
    assert_eq!(status["id"], first_id);
    assert_eq!(status["joined"], true);
    assert_eq!(second.end(), Some(0));
    fail(
        path,
        &["ring", "--data", "two"],
        3,
        &["no node runs in two", "--url"],
    );
}

#[cfg(unix)]
#[test]
fn only_who_may_read_the_folder_is_told() {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (mut node, _) = start(path, "one", &[]);
    node.event("joined");
    let file = path.join("one/control.json");
    let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let control: Value = serde_json::from_str(&std::fs::read_to_string(&file).expect("text")).expect("JSON");
    let address = control["url"].as_str().expect("a URL").replace("http://", "");
    let ask_as = |host: &str, key: &str| {
        let mut socket = std::net::TcpStream::connect(&address).expect("it listens");
        let request = format!("GET /ring HTTP/1.1\r\nhost: {host}\r\n{key}connection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let ask = |key: &str| ask_as(&address, key);
    assert!(ask("").starts_with("HTTP/1.1 401 "));
    assert!(ask("authorization: Bearer 0\r\n").starts_with("HTTP/1.1 401 "));
    let key = control["key"].as_str().expect("a key");
    let key = format!("authorization: Bearer {key}\r\n");
    assert!(ask(&key).starts_with("HTTP/1.1 200 "));
    // A page whose name leads here.
    assert!(ask_as("rebound.example", &key).starts_with("HTTP/1.1 421 "));
    node.end();
    assert!(!file.exists());
}

#[test]
fn a_doctor_finds_nothing_wrong_with_a_sound_ring() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (mut first, join) = start(path, "one", &[]);
    first.event("joined");
    let (mut second, _) = start(path, "two", &["--join", &join]);
    second.event("joined");
    // The first one sees the second as both of its neighbours a moment later.
    while lines(&succeed(path, &["--json", "ring", "--data", "one"]))[0]["predecessor"].is_null() {}
    let leaf = [
        "node",
        "--network",
        "t",
        "--unowned",
        "--allow-private",
        "--data",
        "leaf",
    ];
    let mut leaf = Running::start(path, &[&leaf[..], &["--join", &join]].concat());
    leaf.event("joined");
    while lines(&succeed(path, &["--json", "ring", "--data", "leaf"]))[0]["relays"] == Value::Array(vec![]) {}
    for data in ["one", "two", "leaf"] {
        let output = run(path, &["--json", "doctor", "--data", data]);
        let found = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{found}{}", stderr(&output));
        let verdicts = verdicts(&found);
        assert!(verdicts.iter().all(|(_, verdict)| verdict == "ok"), "{found}");
        for check in ["identity", "node", "clock", "reachability", "ring"] {
            assert!(verdicts.iter().any(|(name, _)| name == check), "{check}: {found}");
        }
    }
}

#[test]
fn a_doctor_names_what_is_wrong_and_how_to_mend_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (mut first, join) = start(path, "one", &[]);
    first.event("joined");
    let (address, id) = join.split_once('#').expect("an id");
    let wrong_id = format!("{address}#{}", id.chars().rev().collect::<String>());
    let doctor = |arguments: &[&str]| {
        let base = ["--json", "doctor", "--data", "two", "--timeout", "5s"];
        let output = run(path, &[&base[..], arguments].concat());
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        lines(&stdout(&output))
    };
    let remedy = |found: &[Value], check: &str| {
        let wrong = found
            .iter()
            .find(|line| line["check"] == check && line["verdict"] == "wrong");
        let wrong = wrong.unwrap_or_else(|| panic!("{check} is wrong: {found:?}"));
        wrong["remedy"].as_str().expect("a remedy").to_owned()
    };
    let found = doctor(&["--network", "t", "--join", &wrong_id, "--allow-private"]);
    assert!(remedy(&found, "bootstrap").contains('#'));
    let found = doctor(&["--network", "other", "--join", &join, "--allow-private"]);
    assert!(remedy(&found, "bootstrap").contains("--network"));
    std::fs::create_dir(path.join("two")).expect("a folder");
    std::fs::write(path.join("two/identity.key"), "none").expect("a file");
    let found = doctor(&["--network", "t", "--join", &join, "--allow-private"]);
    assert!(remedy(&found, "identity").contains("selfsame id new"));
    fail(
        path,
        &["doctor", "--data", "two"],
        2,
        &["no node runs in two", "--network"],
    );

    // Its bootstrap goes away, and it stands alone.
    let (mut third, _) = start(path, "three", &["--join", &join]);
    third.event("joined");
    drop(first);
    let alone = || {
        lines(&succeed(path, &["--json", "ring", "--data", "three"]))[0]["successors"] == Value::Array(vec![])
    };
    while !alone() {}
    let output = run(path, &["--json", "doctor", "--data", "three", "--timeout", "5s"]);
    assert_eq!(output.status.code(), Some(1));
    let found = lines(&stdout(&output));
    assert!(remedy(&found, "bootstrap").contains("start it"));
    assert!(remedy(&found, "ring").contains("bootstraps"));

    // One that has not joined cannot be joined through, which is no fault of its address.
    let (_fourth, _) = start(path, "four", &["--join", &join]);
    let output = run(path, &["--json", "doctor", "--data", "four", "--timeout", "5s"]);
    let verdicts = verdicts(&stdout(&output));
    assert!(
        verdicts.contains(&("reachability".into(), "unknown".into())),
        "{verdicts:?}"
    );
}

/// One check alone went wrong, and what is said of it holds these words.
fn only(wrong: Vec<Value>, check: &str, words: &[&str]) {
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(wrong[0]["check"], check, "{wrong:?}");
    let text = wrong[0].to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn doctor_tries_what_node_would_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let (mut first, join) = start(path, "one", &[]);
    first.event("joined");
    let doctor = |arguments: &[&str]| {
        let base = [
            "--json",
            "doctor",
            "--data",
            "two",
            "--timeout",
            "5s",
            "--network",
            "t",
        ];
        let output = run(path, &[&base[..], arguments].concat());
        let wrong: Vec<Value> = lines(&stdout(&output))
            .into_iter()
            .filter(|line| line["verdict"] == "wrong")
            .collect();
        assert_eq!(
            output.status.code(),
            Some(i32::from(!wrong.is_empty())),
            "{}",
            stderr(&output)
        );
        wrong
    };
    let allowed = ["--join", join.as_str(), "--allow-private"];
    assert_eq!(doctor(&allowed), Vec::<Value>::new());
    let member = [&allowed[..], &["--listen", "ws://127.0.0.1:0"]].concat();
    assert_eq!(doctor(&member), Vec::<Value>::new());

    // The same rules as for a node: private addresses, and who must answer at a bootstrap.
    let (address, id) = join.split_once('#').expect("an id");
    only(
        doctor(&["--join", &join]),
        "bootstrap",
        &["NoBootstrap", address, "--allow-private"],
    );
    only(
        doctor(&["--join", address, "--allow-private"]),
        "bootstrap",
        &["#ID"],
    );
    assert_eq!(
        doctor(&["--join", address, "--allow-private", "--trust-on-first-use"]),
        Vec::<Value>::new()
    );
    only(
        doctor(&["--address", "ws://10.1.2.3:7000"]),
        "start",
        &["ForbiddenAddress", "ws://10.1.2.3:7000"],
    );
    only(doctor(&[]), "start", &["--join", "--address"]);
    let everywhere = [&allowed[..], &["--listen", "ws://0.0.0.0:0"]].concat();
    only(doctor(&everywhere), "start", &["ws://0.0.0.0:0", "--address"]);

    // A port that answers is no node, and one that is taken cannot be listened on.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = format!("ws://{}", taken.local_addr().expect("its number"));
    let silent = format!("{place}#{id}");
    only(
        doctor(&["--join", &silent, "--allow-private"]),
        "bootstrap",
        &[&place],
    );
    let occupied = [&allowed[..], &["--listen", &place]].concat();
    only(doctor(&occupied), "start", &["--listen"]);
    assert!(!path.join("two").exists(), "it changes nothing");
}

#[test]
fn doctor_looks_at_grants_as_node_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let owner = succeed(path, &["owner", "new", "--network", "t"]);
    let other = succeed(path, &["owner", "new", "--network", "t", "--key", "other.key"]);
    let id = succeed(path, &["id", "new", "--network", "t", "--data", "two"]);
    let grant = |file: &str, more: &[&str]| {
        let grant = ["grant", "--network", "t", "--name", "check", "--to", &id];
        let grant = succeed(path, &[&grant[..], more].concat());
        std::fs::write(path.join(file), grant).expect("a file");
    };
    grant("check.grant", &[]);
    grant("short.grant", &["--expires", "1ms"]);
    grant("foreign.grant", &["--key", "other.key"]);
    let doctor = |line: &str| {
        let line = format!(
            "--json doctor --network t --data two --listen ws://127.0.0.1:0 --allow-private --domain here --drain 1s {line}"
        );
        let output = run(path, &line.split(' ').collect::<Vec<_>>());
        let (text, told) = (stdout(&output), stderr(&output));
        let found = lines(&text).into_iter().filter(|line| line["check"] == "grant");
        assert!(!text.is_empty(), "{told}");
        found.collect::<Vec<_>>()
    };
    let serve = "--serve check=http://127.0.0.1:8080";
    let found = doctor(&format!("{serve} --owner {owner} --grant check.grant"));
    only(found.clone(), "grant", &["check.grant", "29 d"]);
    assert_eq!(found[0]["verdict"], "ok");
    assert_eq!(doctor(&format!("{serve} --unowned")), Vec::<Value>::new());
    for (line, words) in [
        (format!("{serve} --owner {owner}"), ["check", "selfsame grant"]),
        (
            format!("{serve} --owner {owner} --grant short.grant"),
            ["short.grant", "expired"],
        ),
        (
            format!("{serve} --owner {owner} --grant none.grant"),
            ["none.grant", "selfsame grant"],
        ),
        (
            format!("{serve} --owner {owner} --grant foreign.grant"),
            [&owner, &other],
        ),
        (
            format!("--serve say=http://127.0.0.1:8080 --owner {owner} --grant check.grant"),
            ["check.grant", "--serve"],
        ),
    ] {
        let found = doctor(&line);
        assert!(found.iter().all(|line| line["verdict"] == "wrong"), "{found:?}");
        only(found[..1].to_vec(), "grant", &words);
    }
}

#[test]
fn many_nodes_join_one_after_the_other_and_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let nodes = [
        "--json",
        "nodes",
        "--network",
        "t",
        "--count",
        "20",
        "--bootstraps",
        "3",
        "--leave",
    ];
    let told = lines(&succeed(path, &nodes));
    let times: Vec<_> = told.iter().filter(|line| line["event"] == "times").collect();
    let what: Vec<_> = times
        .iter()
        .map(|line| line["what"].as_str().expect("text"))
        .collect();
    assert_eq!(
        what,
        [
            "join in sequence",
            "join in parallel",
            "join before leaving",
            "leave"
        ]
    );
    for line in times {
        assert_eq!(line["nodes"], 20);
        let ms = |name: &str| line[name].as_f64().expect("a number");
        assert!(
            ms("median_ms") <= ms("p95_ms") && ms("p95_ms") <= ms("slowest_ms"),
            "{line}"
        );
        assert!(ms("slowest_ms") <= ms("total_ms"), "{line}");
    }
    assert_eq!(told.iter().filter(|line| line["event"] == "settled").count(), 2);
}

#[test]
fn nodes_without_ports_enough_are_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let few = [
        "nodes",
        "--network",
        "t",
        "--count",
        "10",
        "--listen",
        "ws://127.0.0.1:65530",
    ];
    fail(folder.path(), &few, 2, &["--listen", "ports"]);
    let none = ["nodes", "--network", "t", "--listen", "ws://127.0.0.1"];
    fail(folder.path(), &none, 2, &["--listen", "port"]);
}
