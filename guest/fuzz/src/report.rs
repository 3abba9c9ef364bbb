//! What a run tells, one JSON object a line, for `run.mjs` to add up and to print.

use std::fs;

use crate::engine::Engine;
use crate::heap;
use crate::hex;

/// How far a run is.
pub(crate) fn progress(executions: u64, engine: &Engine) {
    println!(
        "{{\"progress\":{executions},\"points\":{},\"failures\":{}}}",
        engine.seen.count(),
        engine.failures.len()
    );
}

/// What came of a run.
pub(crate) fn end(engine: &Engine) {
    for failure in &engine.failures {
        println!(
            "{{\"failed\":\"{}\",\"message\":{},\"input\":\"{}\"}}",
            failure.target,
            quoted(&failure.message),
            hex::encode(&failure.input)
        );
    }
    for lane in &engine.lanes {
        println!(
            "{{\"target\":\"{}\",\"executions\":{},\"seconds\":{:.3},\"inputs\":{},\"lasting\":{},\"warm\":{},\"now\":{}}}",
            lane.target.name(),
            lane.executions,
            lane.time.as_secs_f64(),
            lane.inputs.len(),
            lane.target.keeps_state(),
            lane.heap.warm,
            lane.heap.now
        );
    }
    let seen = &engine.seen;
    println!(
        "{{\"guided\":{},\"total\":{},\"reached\":\"{}\",\"largest\":{},\"heap\":{},\"memory\":{}}}",
        seen.total() > 0,
        seen.total(),
        seen.to_hex(),
        engine.largest_execution,
        heap::live(),
        peak_memory().map_or_else(|| String::from("null"), |bytes| bytes.to_string())
    );
}

fn quoted(text: &str) -> String {
    let escaped = text.chars().flat_map(|letter| match letter {
        '"' | '\\' => vec!['\\', letter],
        ' '..='~' => vec![letter],
        _ => vec!['?'],
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// The most memory that this process ever had, in bytes, where the system says so.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
