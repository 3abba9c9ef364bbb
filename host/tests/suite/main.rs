//! Tests of the host through its public interface and of its programs. They are one program: each one more would compile and link
//! what they share again. Only those that measure the memory of their process are programs of their own.

extern crate alloc;

#[cfg(feature = "admission")]
mod admission;
mod appauth;
mod authority;
mod cache;
mod calls;
mod capsule;
mod capsule_archive;
mod capsule_cli;
mod capsule_flood;
mod capsule_http;
mod cli;
mod closed;
mod closed_output;
mod common;
mod core_module;
mod damage;
mod exposed;
mod grants;
mod hostile_servers;
#[cfg(unix)]
mod interrupt;
mod look;
mod mesh;
mod newcomers;
mod paths;
mod programs;
mod proxy;
mod publish;
mod refusal;
mod replica;
mod replicate;
mod requests;
mod restart;
mod routed;
mod rpc;
mod rpc_cli;
mod rpc_fetch;
mod rpc_first_call;
mod rpc_http;
mod rpc_keys;
mod rpc_pre_shared_key;
#[cfg(feature = "procedures")]
mod rpc_procedures;
mod rpc_session;
mod rpc_websocket;
mod serve;
mod simulated;
mod telemetry;
mod udp;
mod upgrade;
