//! The requests that the host itself makes of replicas, and how responses begin (`docs/specification/capsules.md`).

use bytes::Bytes;
use selfsame_codec::{Code, Field, Malformed, Reader};

use super::CapsuleName;
use crate::error::Error;
use crate::id::CapsuleKey;
use crate::keys::random_bytes;

const VERSION: u8 = 1;
const SESSION_BYTES: usize = 16;
const NONCE_BYTES: usize = 32;
/// Where a writer's key would be whose newest record is asked for.
const NO_WRITER: [u8; 32] = [0; 32];
const CREATE: u8 = 1;
const QUERY_FRESH: u8 = 7;
const EPOCHS: u8 = 14;
/// Where the operations of a request begin.
const OPERATIONS_AT: usize = 1 + 32 + SESSION_BYTES + 4;
/// Length of the operation that asks for epoch records.
const EPOCHS_BYTES: usize = 1 + 4;

/// To whom a request belongs
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A client: the replica sends on to the others what it stores.
    Client,
    /// A replica: what it stores stays where it is.
    Replica,
}

/// Asks for a capsule to be stored, by its signed metadata.
///
/// # Errors
/// [`Error::Io`] when the system gives no random bytes.
pub(crate) fn create(sender: Sender, capsule: CapsuleName, metadata: &[u8]) -> Result<Bytes, Error> {
    let mut request = begin(sender, capsule)?;
    request.push(CREATE);
    metadata.write(&mut request);
    Ok(request.into())
}

/// Asks which records are the newest.
///
/// # Errors
/// [`Error::Io`] when the system gives no random bytes.
pub(crate) fn query_fresh(capsule: CapsuleName) -> Result<Bytes, Error> {
    let mut request = begin(Sender::Client, capsule)?;
    request.push(QUERY_FRESH);
    request.extend_from_slice(&random_bytes::<NONCE_BYTES>()?);
    request.extend_from_slice(&NO_WRITER);
    Ok(request.into())
}

/// A request that belongs to no session that was opened.
fn begin(sender: Sender, capsule: CapsuleName) -> Result<Vec<u8>, Error> {
    let session: [u8; SESSION_BYTES] = match sender {
        Sender::Client => random_bytes()?,
        Sender::Replica => [0; SESSION_BYTES],
    };
    let mut request = vec![VERSION];
    request.extend_from_slice(&capsule.0);
    request.extend_from_slice(&session);
    // Of no response it is said that it was verified.
    0_u32.write(&mut request);
    Ok(request)
}

/// What the operations of a request gave.
///
/// # Errors
/// [`Error::Core`]: why the request was refused as a whole, and where; `BadMessage` for what is no response.
pub(crate) fn results(response: &[u8]) -> Result<Reader<'_>, Error> {
    let mut reader = Reader::new(response);
    let _version: u8 = field(&mut reader)?;
    let refused: u16 = field(&mut reader)?;
    let serial_or_place: u32 = field(&mut reader)?;
    if refused != 0 {
        return Err(Error::at(refused, u64::from(serial_or_place)));
    }
    Ok(reader)
}

/// What the one operation of a request gave.
///
/// # Errors
/// As [`results`], and why the operation was refused, and where.
pub(crate) fn result(response: &[u8]) -> Result<Reader<'_>, Error> {
    let mut reader = results(response)?;
    carried_out(&mut reader)?;
    Ok(reader)
}

/// Reads whether an operation was carried out.
fn carried_out(results: &mut Reader<'_>) -> Result<(), Error> {
    let refused: u16 = field(results)?;
    if refused == 0 {
        return Ok(());
    }
    let place: u32 = field(results)?;
    Err(Error::at(refused, u64::from(place)))
}

/// Why a request was refused, or the operation that it is made for, if it was.
pub(crate) fn refusal(request: &[u8], response: &[u8]) -> Option<Error> {
    main_result(request, response).err()
}

/// The key that a server has signed with: a statement of what is newest, or an acknowledgement, which only follows if something was
/// kept. None where the request asked for neither, or epoch records come before it.
pub(crate) fn signer(request: &[u8], response: &[u8]) -> Option<CapsuleKey> {
    let (operation, mut given) = main_result(request, response).ok()?;
    let is_signed = match operation? {
        CREATE => given.field::<u8>().ok()? == 1,
        operation => operation == QUERY_FRESH,
    };
    let _time_ms: u64 = given.field().ok()?;
    given.array().ok().filter(|_| is_signed).map(CapsuleKey)
}

/// What the operation gave that a request is made for, and which it is: the first, but for epoch records, which are asked for along
/// with it. None where such records hide it.
fn main_result<'a>(request: &[u8], response: &'a [u8]) -> Result<(Option<u8>, Reader<'a>), Error> {
    let mut results = results(response)?;
    let mut operations = request.get(OPERATIONS_AT..).unwrap_or_default();
    if operations.first() == Some(&EPOCHS) {
        operations = operations.get(EPOCHS_BYTES..).unwrap_or_default();
        let epochs = carried_out(&mut results);
        // All but an acknowledgement may be missing where a response became too long.
        if operations.is_empty() || results.rest().len() < 2 {
            return epochs.map(|()| (None, results));
        }
        if epochs.is_ok() {
            let _total: u32 = field(&mut results)?;
            if field::<u16>(&mut results)? > 0 {
                return Ok((None, results));
            }
        }
    }
    if !results.is_empty() {
        carried_out(&mut results)?;
    }
    Ok((operations.first().copied(), results))
}

fn field<'a, T: Field<'a>>(reader: &mut Reader<'a>) -> Result<T, Error> {
    reader
        .field()
        .map_err(|Malformed| Error::from_code(Code::BadMessage))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response whose request was refused with one code, or whose operation was with the other.
    fn response([request, operation]: [u16; 2]) -> Vec<u8> {
        let mut response = vec![VERSION];
        request.write(&mut response);
        5_u32.write(&mut response);
        operation.write(&mut response);
        9_u32.write(&mut response);
        response
    }

    fn told(response: &[u8]) -> (Option<Code>, Option<u64>) {
        let error = result(response).expect_err("it is refused");
        (error.code(), error.place())
    }

    #[test]
    fn a_refusal_is_told_with_its_place_also_one_that_nobody_knows() {
        let taken = response([0, 0]);
        assert_eq!(result(&taken).expect("it is taken").rest().len(), 4);
        let refused = Code::NoCapsule.as_u16();
        assert_eq!(told(&response([refused, 0])), (Some(Code::NoCapsule), Some(5)));
        assert_eq!(told(&response([0, refused])), (Some(Code::NoCapsule), Some(9)));
        for unknown in [response([u16::MAX, 0]), response([0, u16::MAX])] {
            assert_eq!(told(&unknown), (Some(Code::BadInput), None));
        }
        for length in 0..9 {
            assert_eq!(told(&taken[..length]), (Some(Code::BadMessage), None));
        }
    }

    #[test]
    fn a_refusal_is_found_before_the_results_and_in_the_first() {
        let (taken, refused) = (response([0, 0]), Code::NoCapsule.as_u16());
        let request = query_fresh(CapsuleName([0; 32])).expect("a request");
        let refusal = |response: &[u8]| refusal(&request, response);
        assert!(refusal(&taken).is_none());
        assert!(refusal(&taken[..7]).is_none(), "nothing was asked");
        for response in [response([refused, 0]), response([0, refused])] {
            let refusal = refusal(&response).expect("it is refused");
            assert_eq!(refusal.code(), Some(Code::NoCapsule));
        }
        for length in 0..7 {
            assert!(refusal(&taken[..length]).is_some(), "it is no response");
        }
    }
    #[test]
    fn signer_is_found_behind_epoch_records_that_are_not_there() {
        let name = CapsuleName([0; 32]);
        let [fresh, create] = [query_fresh(name), create(Sender::Client, name, b"metadata")];
        let response = |[epochs, main]: [u16; 2], acknowledged: &[u8]| {
            let mut response = response([0, epochs])[..9].to_vec();
            // A total and no records, or the place of what was refused.
            0_u32.write(&mut response);
            if epochs == 0 {
                0_u16.write(&mut response);
            }
            main.write(&mut response);
            response.extend_from_slice(acknowledged);
            0_u64.write(&mut response);
            response.extend_from_slice(&[7; 32]);
            response
        };
        let refused = Code::NoCapsule.as_u16();
        for (request, acknowledged) in [(fresh, &[][..]), (create, &[1])] {
            let mut request = request.expect("a request").to_vec();
            request.splice(OPERATIONS_AT..OPERATIONS_AT, [EPOCHS, 0, 0, 0, 0]);
            for epochs in [0, refused] {
                let taken = response([epochs, 0], acknowledged);
                assert_eq!(signer(&request, &taken), Some(CapsuleKey([7; 32])));
                assert!(refusal(&request, &taken).is_none());
                let not = response([epochs, refused], acknowledged);
                assert_eq!(signer(&request, &not), None);
                assert_eq!(
                    refusal(&request, &not).and_then(|error| error.code()),
                    Some(Code::NoCapsule)
                );
            }
        }
    }
}
