//! Which service a request means.

use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Method, Uri, Version};

use super::problem::Refusal;

/// What names a service among hosts.
const SUFFIX: &str = ".mesh";
/// The one port of a service: that of HTTP, since a name has only one service.
const PORT: u16 = 80;
/// What a client that speaks TLS to us would have asked for.
const TLS_PORT: u16 = 443;

/// The service that a request means, in its URL as clients of a proxy write it, else in its field Host. It has one such field in either
/// case (RFC 9112, section 3.2).
pub(super) fn service_of(version: Version, uri: &Uri, headers: &HeaderMap) -> Result<String, Refusal> {
    if uri.scheme().is_some_and(|scheme| *scheme != Scheme::HTTP) {
        return Err(Refusal::Target(format!(
            "\"{uri}\": say http://, the mesh itself is sealed from end to end"
        )));
    }
    let mut hosts = headers.get_all(HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    if another.is_some() || (host.is_none() && version == Version::HTTP_11) {
        return Err(Refusal::Malformed("the request has not one field Host"));
    }
    if let Some(authority) = uri.authority() {
        return name_in(authority);
    }
    let host = host.and_then(|host| host.to_str().ok()?.parse().ok());
    host.ok_or(Refusal::Malformed("the field Host names no host"))
        .and_then(|host| name_in(&host))
}

/// The service that a tunnel leads to.
pub(super) fn service_of_tunnel(uri: &Uri) -> Result<String, Refusal> {
    let authority = uri
        .authority()
        .ok_or(Refusal::Malformed("CONNECT names no host"))?;
    if authority.port_u16() == Some(TLS_PORT) && authority.host().ends_with(SUFFIX) {
        let host = authority.host();
        return Err(Refusal::Target(format!(
            "\"{authority}\": say http://{host} in place of https://{host}, the mesh itself is sealed from end to end"
        )));
    }
    name_in(authority)
}

/// Whether a method asks for a tunnel.
pub(super) fn is_tunnel(method: &Method) -> bool {
    method == Method::CONNECT
}

fn name_in(authority: &Authority) -> Result<String, Refusal> {
    let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let Some(name) = host.strip_suffix(SUFFIX).filter(|name| !name.is_empty()) else {
        return Err(Refusal::Target(format!(
            "\"{authority}\" is no service: this proxy passes on requests to http://NAME.mesh alone"
        )));
    };
    if authority.port().is_some() && authority.port_u16() != Some(PORT) {
        return Err(Refusal::Target(format!(
            "\"{authority}\": a service has no port, say http://{host}"
        )));
    }
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn with_host(host: &str) -> Result<String, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().expect("a value"));
        service_of(Version::HTTP_11, &Uri::from_static("/path"), &headers)
    }

    fn is_refused(result: Result<String, Refusal>, words: &str) -> bool {
        matches!(result, Err(Refusal::Target(text)) if text.contains(words))
    }

    #[test]
    fn a_service_is_named_by_the_url_or_by_the_host() {
        let none = HeaderMap::new();
        let url = |url: &'static str| service_of(Version::HTTP_10, &Uri::from_static(url), &none);
        assert!(matches!(url("http://check.mesh/x"), Ok(name) if name == "check"));
        assert!(matches!(url("http://check.mesh:80/x"), Ok(name) if name == "check"));
        assert!(matches!(with_host("a.b.mesh"), Ok(name) if name == "a.b"));
        assert!(matches!(with_host("CHECK.Mesh."), Ok(name) if name == "check"));
        assert!(is_refused(url("https://check.mesh/"), "say http://"));
        assert!(matches!(url("/x"), Err(Refusal::Malformed(_))));
    }

    #[test]
    fn the_url_stands_over_the_host() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "other.mesh".parse().expect("a value"));
        let url = Uri::from_static("http://check.mesh/");
        let name = service_of(Version::HTTP_11, &url, &headers);
        assert!(matches!(name, Ok(name) if name == "check"));
    }

    #[test]
    fn a_url_does_not_stand_for_the_field_host() {
        let url = Uri::from_static("http://check.mesh/");
        let named = |version, hosts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_static(host));
            }
            service_of(version, &url, &headers).is_ok()
        };
        assert!(named(Version::HTTP_11, &["check.mesh"]));
        assert!(!named(Version::HTTP_11, &[]));
        assert!(!named(Version::HTTP_11, &["check.mesh", "check.mesh"]));
        assert!(!named(Version::HTTP_10, &["check.mesh", "check.mesh"]));
        assert!(named(Version::HTTP_10, &[]));
    }

    #[test]
    fn hosts_that_are_no_services_are_refused() {
        for host in [
            "example.com",
            "mesh",
            ".mesh",
            "check.mesh.example.com",
            "127.0.0.1:15001",
            "[::1]:15001",
            "localhost",
        ] {
            assert!(is_refused(with_host(host), "http://NAME.mesh"), "{host}");
        }
        assert!(is_refused(with_host("check.mesh:8080"), "no port"));
        assert!(matches!(with_host("a b"), Err(Refusal::Malformed(_))));
    }

    #[test]
    fn a_tunnel_leads_to_the_port_of_http_alone() {
        let tunnel = |url: &'static str| service_of_tunnel(&Uri::from_static(url));
        assert!(matches!(tunnel("check.mesh:80"), Ok(name) if name == "check"));
        assert!(is_refused(
            tunnel("check.mesh:443"),
            "say http://check.mesh in place"
        ));
        assert!(is_refused(tunnel("check.mesh:22"), "no port"));
        assert!(is_refused(tunnel("example.com:443"), "http://NAME.mesh"));
    }
}
