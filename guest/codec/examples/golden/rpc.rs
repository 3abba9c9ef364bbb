//! Vectors of the boundary of `rpc.wasm`.

use selfsame_codec::rpc::{
    ClientConfig, ENDPOINT_BYTES, IDEMPOTENT, Input, Output, RouterConfig, ServerConfig,
};

use super::{ENDPOINT_HEX, ID, ID_HEX};

const ENDPOINT: [u8; ENDPOINT_BYTES] = [0xcd; ENDPOINT_BYTES];

pub(super) fn inputs() -> Vec<(String, Input<'static>)> {
    vec![
        item!(Input::Datagram, ", \"source\": \"ENDPOINT\", \"bytes\": \"60\"", { source: ENDPOINT, bytes: &[0x60] }),
        item!(Input::Call, ", \"call\": 1, \"service\": 2, \"target\": \"ENDPOINT\", \"options\": 4, \"timeout_ms\": 5000, \
            \"payload\": \"6869\"",
            { call: 1, service: 2, target: ENDPOINT, options: IDEMPOTENT, timeout_ms: 5000, payload: b"hi" }),
        item!(Input::Cancel, ", \"call\": 3", { call: 3 }),
        item!(Input::UseTicket, ", \"service\": 4, \"grant\": \"00ff\"", { service: 4, grant: &[0, 255] }),
        item!(Input::Answer, ", \"call\": 5, \"payload\": \"\"", { call: 5, payload: &[] }),
        item!(Input::Refuse, ", \"call\": 6, \"code\": 257", { call: 6, code: 0x0101 }),
        item!(Input::IssueTicket, ", \"tag\": 7, \"caller\": \"ID\", \"endpoint\": \"ENDPOINT\"",
            { tag: 7, caller: ID, endpoint: ENDPOINT }),
        item!(Input::SetTicketKeys, ", \"secrets\": \"ID\"", { secrets: &ID }),
        item!(Input::SetServers, ", \"endpoints\": \"ENDPOINT\"", { endpoints: &ENDPOINT }),
    ]
}

pub(super) fn outputs() -> Vec<(String, Output<'static>)> {
    vec![
        item!(Output::Send, ", \"target\": \"ENDPOINT\", \"bytes\": \"62\"", { target: ENDPOINT, bytes: &[0x62] }),
        item!(Output::Wake, ", \"unix_us\": \"1790000000000000\"", { unix_us: 1_790_000_000_000_000 }),
        item!(Output::Wake, ", \"unix_us\": \"never\"", { unix_us: u64::MAX }),
        item!(Output::Done, ", \"call\": 1, \"source\": \"ENDPOINT\", \"payload\": \"6869\"",
            { call: 1, source: ENDPOINT, payload: b"hi" }),
        item!(Output::Failed, ", \"call\": 2, \"code\": 257", { call: 2, code: 0x0101 }),
        item!(Output::TicketWanted, ", \"service\": 3", { service: 3 }),
        item!(Output::Serve, ", \"call\": 4, \"caller\": \"ID\", \"source\": \"ENDPOINT\", \"options\": 4, \
            \"timeout_ms\": 5000, \"payload\": \"00\"",
            { call: 4, caller: ID, source: ENDPOINT, options: IDEMPOTENT, timeout_ms: 5000, payload: &[0] }),
        item!(Output::Cancelled, ", \"call\": 5", { call: 5 }),
        item!(Output::Issued, ", \"tag\": 6, \"grant\": \"0102\"", { tag: 6, grant: &[1, 2] }),
        item!(Output::Refused, ", \"input\": 4294967295, \"code\": 257", { input: u32::MAX, code: 0x0101 }),
    ]
}

pub(super) const CLIENT_CONFIG: ClientConfig = ClientConfig { datagram_bytes: 1200 };

pub(super) fn server_config() -> ServerConfig<'static> {
    ServerConfig {
        network: b"twiitr",
        service: b"check",
        ticket_secrets: &[1; 32],
        entropy: [2; 32],
        datagram_bytes: 65_536,
        streams: true,
        ticket_life_s: 3600,
        replay: 1,
        not_before_ms: 1_790_000_000_000,
        router_secret: &[3; 32],
    }
}

pub(super) const ROUTER_CONFIG: RouterConfig = RouterConfig {
    secret: [3; 32],
    entropy: [4; 32],
    selection: 3,
    bound: 3,
    redirects: true,
};
