//! Vector files in the older text forms.

use selfsame_sodium::{aead, sign, x25519};

use super::Report;
use super::case::{Outcome, decode, is_valid, same};

/// SUPERCOP's `sign.input`: on each line secret key, public key, message and signed message.
pub(super) fn ed25519(contents: &str) -> Result<Report, String> {
    let mut report = Report::default();
    for (index, line) in contents.lines().enumerate() {
        report.add(format!("line {}", index + 1), ed25519_line(line));
    }
    Ok(report)
}

fn ed25519_line(line: &str) -> Outcome {
    let fields: Vec<Vec<u8>> = line.split(':').map_while(decode).collect();
    let [secret, public, message, signed, _] = fields.as_slice() else {
        return Err("not four fields".into());
    };
    let seed = secret[..32].try_into().map_err(|_| "seed length")?;
    let key = sign::SigningKey::from_seed(seed);
    same("public key", &key.public(), public)?;
    let signature = key.sign(message);
    same("signature", &signature, &signed[..64])?;
    if !is_valid(&signature, message, &key.public()) {
        return Err("its own signature is refused".into());
    }
    for at in [0, 31, 32, 63] {
        let mut forged = signature;
        forged[at] ^= 1;
        if is_valid(&forged, message, &key.public()) {
            return Err(format!("accepted with byte {at} of the signature changed"));
        }
    }
    Ok(())
}

/// Records of `NAME = value` lines, each begun by `COUNT`.
struct Record<'a>(Vec<(&'a str, &'a str)>);

impl Record<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| *value)
    }

    /// A field's bytes: hexadecimal, or characters in quotation marks.
    fn bytes(&self, names: &[&str]) -> Result<Vec<u8>, String> {
        let value = names
            .iter()
            .find_map(|name| self.get(name))
            .ok_or_else(|| format!("no field {names:?}"))?;
        match value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(characters) => Ok(characters.as_bytes().to_vec()),
            None => decode(value).ok_or_else(|| format!("field {names:?} is not hexadecimal")),
        }
    }

    fn array<const N: usize>(&self, names: &[&str]) -> Result<[u8; N], String> {
        self.bytes(names)?
            .try_into()
            .map_err(|_| format!("field {names:?} is not {N} bytes"))
    }
}

fn records(contents: &str, run: fn(&Record<'_>) -> Outcome) -> Report {
    let mut records: Vec<Record<'_>> = Vec::new();
    for line in contents.lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, value)) = line.split_once('=') {
            let (name, value) = (name.trim(), value.trim());
            if name == "COUNT" {
                records.push(Record(Vec::new()));
            } else if let Some(record) = records.last_mut() {
                record.0.push((name, value));
            }
        }
    }
    let mut report = Report::default();
    for (index, record) in records.iter().enumerate() {
        report.add(format!("record {}", index + 1), run(record));
    }
    report
}

/// RFC 7748, section 5.2.
pub(super) fn x25519(contents: &str) -> Result<Report, String> {
    Ok(records(contents, |record| {
        let shared = x25519::scalarmult(&record.array(&["INPUT_SCALAR"])?, &record.array(&["INPUT_U"])?)
            .map_err(|_| "refused")?;
        same("secret", shared.as_bytes(), &record.bytes(&["OUTPUT_U"])?)
    }))
}

/// The cases of OpenSSL and BoringSSL, among them RFC 8439's.
pub(super) fn chacha20poly1305(contents: &str) -> Result<Report, String> {
    Ok(records(contents, |record| {
        let key = aead::Key::new(record.array(&["KEY"])?);
        let nonce = record.array(&["NONCE", "IV"])?;
        let ad = record.bytes(&["AD", "AAD"])?;
        let message = record.bytes(&["IN", "Plaintext"])?;
        let ciphertext = record.bytes(&["CT", "Ciphertext"])?;
        let tag = record.array(&["TAG"])?;
        let mut data = ciphertext.clone();
        let opened = aead::open_in_place(&key, &nonce, &ad, &mut data, &tag);
        if record.get("Result").is_some() {
            return if opened.is_err() {
                Ok(())
            } else {
                Err("accepted, must be refused".into())
            };
        }
        opened.map_err(|_| "refused")?;
        same("message", &data, &message)?;
        let made = aead::seal_in_place(&key, &nonce, &ad, &mut data);
        same("ciphertext", &data, &ciphertext)?;
        same("tag", &made, &tag)
    }))
}
