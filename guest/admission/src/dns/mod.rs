//! Certificates as TXT records: names, queries, responses, updates and zone files.

mod base;

mod name;
pub use name::Name;

mod message;

mod value;
pub use value::MAX_VALUE_BYTES;

mod query;
pub use query::Query;

mod response;
pub use response::{Outcome, Transport};

mod tsig;
pub use tsig::{Signed, TsigKey};

mod update;
pub use update::{Change, Update};

mod zone;
pub use zone::zone_line;
