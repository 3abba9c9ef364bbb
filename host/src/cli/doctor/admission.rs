//! Admission to a closed network: this node's certificate, and what went wrong with those of others.

use selfsame_host::{Certificate, Certified, Code, Error, IDENTITY_FILE, NodeKey, Seed};
use serde_json::Value;

use super::finding::Finding;
use super::{Subject, certificate};
use crate::cli::args::DoctorCommand;
use crate::cli::keys::read_signed;
use crate::cli::node::certificates_in_dns;

const CHECK: &str = "admission";

/// What can be wrong with admission, as the running node counts it and as an error of the DNS, and what mends it.
const REMEDIES: [(Code, &str); 21] = [
    (
        Code::NoCertificate,
        "the authority signs one: `selfsame authority dns sign`; a newcomer without a record was shut out, or was never let in",
    ),
    (
        Code::BadDnsValue,
        "write the record again: `selfsame authority dns sign`, and let nothing else write below the domain",
    ),
    (
        Code::TooLarge,
        "the name has more or longer records than certificates have: take out those that `selfsame authority dns zone` does not print",
    ),
    (
        Code::BadDnsMessage,
        "what answers is no name server, or a broken one: --name-server names another",
    ),
    (
        Code::WrongDnsAnswer,
        "somebody guesses answers, or an old one came late: ask a resolver that is near, or --dns-over-https",
    ),
    (
        Code::DnsFailed,
        "look into the name server's log, and whether DNSSEC fails there",
    ),
    (Code::DnsRefused, "let the name server answer this machine"),
    (
        Code::DnsRejected,
        "name a server that is responsible for the domain, or a resolver: --name-server",
    ),
    (
        Code::DnsNoAnswer,
        "name a resolver: --name-server; the zone may have lost its delegation",
    ),
    (
        Code::TimedOut,
        "look whether the name server runs and port 53 is open, by UDP and TCP",
    ),
    (
        Code::DialFailed,
        "look whether the name server runs and port 53 is open, by UDP and TCP",
    ),
    (
        Code::TooManyRequests,
        "newcomers come faster than they are looked up; if that goes on, somebody has many certificates: lower --most-per-prefix at \
         the authority",
    ),
    (
        Code::BadCertificate,
        "let the authority sign the certificate again, with the key that `selfsame id key` prints for this network",
    ),
    (
        Code::WrongIssuer,
        "compare the key in NAME@KEY with that of the authority: `selfsame authority show`",
    ),
    (
        Code::WrongSeat,
        "the certificate was made by other code than the authority's: let it sign another",
    ),
    (
        Code::WrongAddress,
        "let the authority sign a certificate for the address that the node has; over tcp and udp it has to be seen at that IP address",
    ),
    (
        Code::WrongRole,
        "a member needs a certificate with an address: `selfsame authority dns sign --address HOST:PORT`",
    ),
    (
        Code::EarlyCertificate,
        "compare the clocks of the authority and this node: let both take their time from NTP",
    ),
    (
        Code::ExpiredCertificate,
        "let the authority sign the next one in time, and look whether this machine's clock is ahead",
    ),
    (
        Code::RevokedCertificate,
        "the authority has shut the node out: only a certificate that it signs from now on counts",
    ),
    (
        Code::StaleRevocations,
        "take the newest list of the authority: `selfsame authority revoke` without --node signs it again",
    ),
];

/// Codes that a node counts of sessions and calls, too: only as an error of the DNS they are about admission.
const OF_TRANSPORT: [Code; 4] = [
    Code::TimedOut,
    Code::DialFailed,
    Code::TooManyRequests,
    Code::TooLarge,
];

/// All there is to say of admission.
pub(super) async fn findings(command: &DoctorCommand, subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(own_certificate(command, &subject.network).await);
    if let Some(status) = &subject.status {
        findings.extend(certificate::of_running(status));
        findings.extend(counted(&status["counters"]));
    }
    findings
}

/// Whether this node has a certificate that counts.
async fn own_certificate(command: &DoctorCommand, network: &str) -> Option<Finding> {
    let member = &command.node.member;
    let path = member.data.folder.join(IDENTITY_FILE);
    let key = Seed::load(&path).and_then(|seed| seed.node_key(network)).ok()?;
    let urls = &member.address;
    let found = if let Some(file) = &member.network.certificate {
        let certificate = read_signed::<Certificate>(file).map_err(|failure| (None, failure.to_string()));
        certificate.and_then(|certificate| verify(&certificate, network, &key, urls))
    } else {
        let source = certificates_in_dns(member).transpose()?;
        match source {
            Err(failure) => Err((None, failure.to_string())),
            Ok(source) => match source.newest(network, &key).await {
                Ok((certificate, _)) => verify(&certificate, network, &key, urls),
                Err(error) => Err((error.code(), error.to_string())),
            },
        }
    };
    Some(match found {
        Ok(certified) => certificate::of_file(&certified),
        Err((code, text)) => Finding::wrong(CHECK, text, code.map_or("mend the flag", remedy_of)),
    })
}

fn verify(
    certificate: &Certificate,
    network: &str,
    key: &NodeKey,
    urls: &[String],
) -> Result<Certified, (Option<Code>, String)> {
    let told = |error: Error| (error.code(), error.to_string());
    let certified = certificate.verify(network, key).map_err(told)?;
    let fits = urls.iter().try_for_each(|url| certified.check_url(url));
    fits.map_err(told)?;
    Ok(certified)
}

/// What a running node has counted.
fn counted(counters: &Value) -> Vec<Finding> {
    let told = REMEDIES.iter().filter(|(code, _)| !OF_TRANSPORT.contains(code));
    let findings = told.filter_map(|(code, remedy)| {
        let times = counters[code.name()].as_u64().filter(|times| *times > 0)?;
        Some(Finding::wrong(
            CHECK,
            format!("{code}, {times} times since the start"),
            *remedy,
        ))
    });
    findings.collect()
}

fn remedy_of(code: Code) -> &'static str {
    let known = REMEDIES.iter().find(|(other, _)| *other == code);
    known.map_or("see docs/errors.md", |(_, remedy)| remedy)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_node_has_counted_is_told_with_its_remedy() {
        let found =
            counted(&json!({ "DnsFailed": 3, "WrongIssuer": 0, "Replayed": 7, "StaleRevocations": 1 }));
        let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].contains("(DnsFailed), 3 times"), "{texts:?}");
        assert!(texts[1].contains("(StaleRevocations), 1 times"), "{texts:?}");
    }
}
