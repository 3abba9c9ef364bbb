//! The authenticated key agreement (Themis, figure 2, in the form of SIGMA-I) over X-Wing.
//!
//! ```text
//! initiator                                              responder
//!   m1: header | X-Wing key | nonce | target id | cookie   ->
//!                             <-   cookie: header | cookie          (only under load; m1 is sent again with it)
//!                             <-   m2: header | ciphertext | nonce | sealed(public key, signature, evidence)
//!   m3: header | sealed(public key, signature, evidence, first payload)  ->
//! ```
//!
//! A signature covers the signer's role, the network, version and suite, and the transcript so far; the
//! initiator's also the responder's id. The keys come from the X-Wing secret and the transcript. Sealing m2 and
//! m3 under them is each side's confirmation that it holds the key, so nothing is delivered before it.

mod cookie;
pub use cookie::CookieJar;

mod initiator;
pub use initiator::{Confirmation, Initiator};

mod responder;
pub use responder::{Confirmed, Responder};

mod transcript;
pub use transcript::SessionSecrets;

mod wire;
pub(crate) use wire::is_unproven;
pub use wire::{
    COOKIE_BYTES, Header, INITIATION_BYTES, Initiation, Kind, RESPONSE_MIN_BYTES, SUITE, VERSION,
    cookie_frame, network_tag, parse_cookie, parse_reject, reject_frame,
};
