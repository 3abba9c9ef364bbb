//! Vector files in JSON.

use selfsame_sodium::hash;
use serde_json::Value;

use super::Report;
use super::case::{Outcome, bytes, same};

/// A file in Wycheproof's form: groups of tests. It says itself how many tests there are.
pub(super) fn grouped(file: &Value, run: fn(&Value, &Value) -> Outcome) -> Result<Report, String> {
    let mut report = Report::default();
    for group in file["testGroups"].as_array().ok_or("no testGroups")? {
        for case in group["tests"].as_array().ok_or("no tests")? {
            report.add(format!("tcId {}", case["tcId"]), run(group, case));
        }
    }
    let declared = file["numberOfTests"].as_u64().ok_or("no numberOfTests")?;
    if declared != (report.passed + report.failures.len()) as u64 {
        return Err(format!(
            "the file declares {declared} tests and holds another number"
        ));
    }
    Ok(report)
}

/// A file that is one array of cases.
pub(super) fn flat(file: &Value, run: fn(&Value) -> Outcome) -> Result<Report, String> {
    let mut report = Report::default();
    for (index, case) in file.as_array().ok_or("not an array")?.iter().enumerate() {
        report.add(format!("case {index}"), run(case));
    }
    Ok(report)
}

/// The context of BLAKE3's own vectors; contexts are constants in this crate.
const BLAKE3_CONTEXT: &str = "BLAKE3 2019-12-27 16:29:52 test vectors context";

/// BLAKE3's own file.
pub(super) fn blake3(file: &Value) -> Result<Report, String> {
    let mut report = Report::default();
    if file["context_string"] != BLAKE3_CONTEXT {
        return Err("the file has another context".into());
    }
    let key = file["key"]
        .as_str()
        .and_then(|key| key.as_bytes().try_into().ok())
        .ok_or("no key")?;
    for case in file["cases"].as_array().ok_or("no cases")? {
        let len = case["input_len"].as_u64().ok_or("no input_len")?;
        let input: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        report.add(format!("{len} bytes"), blake3_case(case, key, &input));
    }
    Ok(report)
}

fn blake3_case(case: &Value, key: &[u8; 32], input: &[u8]) -> Outcome {
    let modes = [
        ("hash", blake3::hash(input).into()),
        ("keyed_hash", hash::keyed(key, input)),
        ("derive_key", hash::derive_key(BLAKE3_CONTEXT, input)),
    ];
    for (mode, hash) in modes {
        // The vectors go on where our output ends.
        same(mode, &hash, &bytes(case, mode)?[..hash::HASH_BYTES])?;
    }
    Ok(())
}
