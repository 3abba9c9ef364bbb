//! One case of each kind: given its fields, does the crate do what the case says?

use selfsame_sodium::{Rejected, aead, mlkem768, sign, x25519, xwing};
use serde_json::Value;

use super::upstream;

/// `Err` says what went wrong.
pub(super) type Outcome = Result<(), String>;

/// A wrong length is refused by the types of the crate's interface, which take arrays.
fn sized<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], Rejected> {
    bytes.try_into().map_err(|_| Rejected)
}

/// The bytes of a hexadecimal field of a case.
pub(super) fn bytes(case: &Value, field: &str) -> Result<Vec<u8>, String> {
    let text = case[field].as_str().ok_or_else(|| format!("no field {field}"))?;
    decode(text).ok_or_else(|| format!("field {field} is not hexadecimal"))
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

pub(super) fn same(what: &str, got: &[u8], expected: &[u8]) -> Outcome {
    if got == expected {
        Ok(())
    } else {
        Err(format!("another {what} than expected"))
    }
}

/// Compares a computation that may be refused with a case's `result`; `check` sees what a valid case computed.
fn judge<T>(case: &Value, got: Result<T, Rejected>, check: impl FnOnce(T) -> Outcome) -> Outcome {
    match (case["result"].as_str(), got) {
        (Some("valid" | "acceptable"), Ok(value)) => check(value),
        (Some("invalid"), Err(Rejected)) => Ok(()),
        (Some("invalid"), Ok(_)) => Err("accepted, must be refused".into()),
        (_, Err(Rejected)) => Err("refused, must be accepted".into()),
        (other, Ok(_)) => Err(format!("unknown result {other:?}")),
    }
}

type Seal<const N: usize> = fn(&[u8; 32], &[u8; N], &[u8], &mut [u8]) -> [u8; 16];
type Open<const N: usize> = fn(&[u8; 32], &[u8; N], &[u8], &mut [u8], &[u8; 16]) -> Result<(), Rejected>;

pub(super) fn chacha20poly1305(_: &Value, case: &Value) -> Outcome {
    aead_case(
        case,
        |key, nonce, ad, data| aead::seal_in_place(&aead::Key::new(*key), nonce, ad, data),
        |key, nonce, ad, data, tag| aead::open_in_place(&aead::Key::new(*key), nonce, ad, data, tag),
    )
}

pub(super) fn xchacha20poly1305(_: &Value, case: &Value) -> Outcome {
    aead_case(
        case,
        upstream::xchacha20poly1305_seal,
        upstream::xchacha20poly1305_open,
    )
}

fn aead_case<const N: usize>(case: &Value, seal: Seal<N>, open: Open<N>) -> Outcome {
    let (message, ciphertext) = (bytes(case, "msg")?, bytes(case, "ct")?);
    let (key, iv) = (bytes(case, "key")?, bytes(case, "iv")?);
    let (ad, tag) = (bytes(case, "aad")?, bytes(case, "tag")?);
    let opened = (|| {
        let mut data = ciphertext.clone();
        let result = open(sized(&key)?, sized(&iv)?, &ad, &mut data, sized(&tag)?);
        Ok((result, data))
    })();
    match opened {
        Ok((Err(Rejected), data)) if data.iter().any(|byte| *byte != 0) => {
            Err("a refused ciphertext was left in the buffer".into())
        }
        Ok((Err(Rejected), _)) | Err(Rejected) => judge(case, Err::<(), _>(Rejected), |()| Ok(())),
        Ok((Ok(()), data)) => judge(case, Ok(()), |()| {
            same("message", &data, &message)?;
            let key = sized(&key).map_err(|_| "key length")?;
            let mut data = message.clone();
            let made = seal(key, sized(&iv).map_err(|_| "nonce length")?, &ad, &mut data);
            same("ciphertext", &data, &ciphertext)?;
            same("tag", &made, &tag)
        }),
    }
}

/// What [`sign::verify`] says, and what it says of a key that was prepared, which must be the same.
pub(super) fn is_valid(signature: &[u8; 64], message: &[u8], key: &[u8; 32]) -> bool {
    let [mut of_key, mut of_base] = [(); 2].map(|()| Box::new([0; sign::MULTIPLES_WORDS]));
    sign::prepare_base(&mut of_base);
    let prepared = sign::prepare(&mut of_key, key)
        .is_ok_and(|()| sign::verify_prepared(signature, message, key, &of_key, &of_base));
    let valid = sign::verify(signature, message, key);
    assert_eq!(prepared, valid, "a key that was prepared");
    valid
}

pub(super) fn ed25519(group: &Value, case: &Value) -> Outcome {
    let (message, signature) = (bytes(case, "msg")?, bytes(case, "sig")?);
    let key = bytes(&group["publicKey"], "pk")?;
    let verified = (|| {
        if is_valid(sized(&signature)?, &message, sized(&key)?) {
            Ok(())
        } else {
            Err(Rejected)
        }
    })();
    judge(case, verified, |()| Ok(()))
}

pub(super) fn x25519(_: &Value, case: &Value) -> Outcome {
    let (scalar, public) = (bytes(case, "private")?, bytes(case, "public")?);
    let expected = bytes(case, "shared")?;
    let shared = (|| x25519::scalarmult(sized(&scalar)?, sized(&public)?))();
    // Wycheproof leaves these open; our rule is RFC 7748's: no secret that the peer alone determines.
    if expected.iter().all(|byte| *byte == 0) {
        return if shared.is_err() {
            Ok(())
        } else {
            Err("a secret of zeros was accepted".into())
        };
    }
    judge(case, shared, |shared| {
        same("secret", shared.as_bytes(), &expected)
    })
}

pub(super) fn mlkem768_keypair(_: &Value, case: &Value) -> Outcome {
    let seed = bytes(case, "seed")?;
    let (public, secret) = (bytes(case, "ek")?, bytes(case, "dk")?);
    let made = sized(&seed).map(|seed| (upstream::mlkem768_secret_key(seed), mlkem768::keypair(seed).1));
    judge(case, made, |(made_secret, made_public)| {
        same("public key", &made_public, &public)?;
        same("secret key", &made_secret, &secret)
    })
}

pub(super) fn mlkem768_encapsulate(_: &Value, case: &Value) -> Outcome {
    let (public, seed) = (bytes(case, "ek")?, bytes(case, "m")?);
    let (ciphertext, expected) = (bytes(case, "c")?, bytes(case, "K")?);
    let made = (|| upstream::mlkem768_encapsulate(sized(&public)?, sized(&seed)?))();
    judge(case, made, |(made, shared)| {
        same("ciphertext", &made, &ciphertext)?;
        same("secret", &shared, &expected)
    })
}

pub(super) fn mlkem768_decapsulate(_: &Value, case: &Value) -> Outcome {
    let (seed, ciphertext) = (bytes(case, "seed")?, bytes(case, "c")?);
    let expected = bytes(case, "K")?;
    let opened = (|| {
        let (secret, public) = mlkem768::keypair(sized(&seed)?);
        Ok((public, mlkem768::decapsulate(&secret, sized(&ciphertext)?)?))
    })();
    judge(case, opened, |(public, shared)| {
        same("public key", &public, &bytes(case, "ek")?)?;
        same("secret", shared.as_bytes(), &expected)
    })
}

pub(super) fn xwing(case: &Value) -> Outcome {
    let (seed, encapsulation_seed) = (bytes(case, "seed")?, bytes(case, "eseed")?);
    let (secret, public) = xwing::keypair(sized(&seed).map_err(|_| "seed length")?);
    same("public key", &public, &bytes(case, "pk")?)?;
    let (ciphertext, shared) =
        xwing::encapsulate(&public, sized(&encapsulation_seed).map_err(|_| "seed length")?)
            .map_err(|_| "refused to encapsulate")?;
    same("ciphertext", &ciphertext, &bytes(case, "ct")?)?;
    same("secret", shared.as_bytes(), &bytes(case, "ss")?)?;
    let opened = xwing::decapsulate(&secret, &ciphertext).map_err(|_| "refused to decapsulate")?;
    same("decapsulated secret", opened.as_bytes(), shared.as_bytes())
}
