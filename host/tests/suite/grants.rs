//! Grants that the command line is given.

use crate::common::run::{fail, succeed};

const OTHER_ID: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn grants_that_cannot_be_used_are_named_by_their_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    succeed(path, &["owner", "new", "--network", "t"]);
    let id = succeed(path, &["id", "new", "--network", "t", "--data", "one"]);
    let grant = |file: &str, more: &[&str]| {
        let command = ["grant", "--network", "t", "--name", "check", "--to", &id];
        let grant = succeed(path, &[&command[..], more].concat());
        std::fs::write(path.join(file), grant).expect("a file");
    };
    grant("short.grant", &["--expires", "1ms"]);
    grant("long.grant", &[]);
    for (network, data, file, words) in [
        ("t", "one", "short.grant", ["expired", "selfsame grant"]),
        ("other", "one", "long.grant", ["another network", "--network"]),
        ("t", "two", "long.grant", ["no identity", "--data"]),
    ] {
        for command in ["node", "store check"] {
            let join = format!("--unowned --join ws://127.0.0.1:1#{OTHER_ID}");
            let line = format!("{command} --network {network} --data {data} --grant {file} {join}");
            let line: Vec<&str> = line.split(' ').collect();
            fail(path, &line, 2, &[&words[..], &[file]].concat());
        }
    }
}
