//! HTTP messages to heads and back.

use http::header::{
    ACCEPT_ENCODING, CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, StatusCode, Uri, request, response};
use selfsame_codec::http::{Headers, MAX_HEAD, MAX_HEADERS, RequestHead, ResponseHead};
use selfsame_codec::{Code, Malformed};

use crate::error::Error;
use crate::path::{ASTERISK, path_of};
use crate::upgrade;

/// What names a service in a URL.
const SUFFIX: &str = ".mesh";
/// Bytes of a field that an error shows.
const SHOWN: usize = 64;
/// Fields that mean one hop, not the message (RFC 9110, section 7.6.1); the host, which the service's name stands for;
/// and what a body may be compressed with, since bodies travel as they are.
const OF_ONE_HOP: [HeaderName; 12] = [
    ACCEPT_ENCODING,
    CONNECTION,
    EXPECT,
    HOST,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The name in a URL such as `https://NAME.mesh/path`, in lower case as all hosts are (RFC 3986, section 3.2.2).
pub(crate) fn name_of(url: &Uri) -> Result<String, Error> {
    let host = url.host().unwrap_or_default().trim_end_matches('.');
    let host = host.to_ascii_lowercase();
    let name = host
        .strip_suffix(SUFFIX)
        .filter(|name| !name.is_empty() && url.port().is_none());
    name.map(str::to_owned).ok_or_else(|| {
        Error::Input(format!(
            "\"{url}\" is no address of a service: it is https://NAME.mesh/path"
        ))
    })
}

/// Encodes the head of a request; `length` is that of the body if the head does not declare it.
pub(crate) fn encode_request(head: &request::Parts, length: Option<u64>) -> Result<Vec<u8>, Error> {
    let head = RequestHead {
        method: head.method.as_str().into(),
        path: path_of(&head.method, &head.uri)?,
        headers: request_headers(head, length)?,
    };
    let encoded = head.encode();
    check_length(encoded.len())?;
    match RequestHead::check(&encoded) {
        Ok(()) => Ok(encoded),
        Err(Malformed) => Err(mistake_in(&head)),
    }
}

/// Names what of the head of a request the grammar does not allow.
fn mistake_in(head: &RequestHead) -> Error {
    let is_wrong = |method: &str, path: &str, headers: Headers| {
        let alone = RequestHead {
            method: method.into(),
            path: path.into(),
            headers,
        };
        RequestHead::check(&alone.encode()).is_err()
    };
    if is_wrong(&head.method, "/", Headers::new()) {
        let method = &head.method;
        return Error::Input(format!("{method}: a service cannot be sent this method"));
    }
    if is_wrong(&head.method, &head.path, Headers::new()) {
        return Error::Input(format!("{}: a service has no such path", head.path));
    }
    let mut headers = head.headers.iter().cloned();
    let wrong = headers.find(|header| is_wrong(&head.method, &head.path, vec![header.clone()]));
    field_mistake(wrong)
}

fn field_mistake(wrong: Option<(String, Vec<u8>)>) -> Error {
    let (name, value) = wrong.unwrap_or_default();
    let name: String = name.chars().take(SHOWN).collect();
    let value = String::from_utf8_lossy(&value[..value.len().min(SHOWN)]).into_owned();
    Error::Input(format!(
        "the header {name:?} with the value {value:?} cannot be sent"
    ))
}

/// Decodes the head of a request for a service.
pub(crate) fn decode_request(service: &str, bytes: &[u8]) -> Result<http::Request<()>, Malformed> {
    let head = RequestHead::decode(bytes)?;
    let method = Method::from_bytes(head.method.as_bytes()).map_err(|_| Malformed)?;
    let url = match head.path.as_str() {
        ASTERISK => ASTERISK.into(),
        path => format!("https://{service}{SUFFIX}{path}"),
    };
    let mut request = http::Request::builder()
        .method(method)
        .uri(url)
        .body(())
        .map_err(|_| Malformed)?;
    let mut headers = header_map(&head.headers)?;
    if upgrade::is_asked(request.method(), &headers) {
        upgrade::set_headers(&mut headers);
    }
    *request.headers_mut() = headers;
    Ok(request)
}

/// Encodes the head of an answer with its length before it.
pub(crate) fn encode_response(head: &response::Parts, length: Option<u64>) -> Result<Vec<u8>, Error> {
    let headers = headers_of(&head.headers, length);
    check_count(&headers)?;
    let status = head.status.as_u16();
    let head = ResponseHead { status, headers };
    let encoded = head.encode();
    check_length(encoded.len() - 4)?;
    if ResponseHead::decode(&encoded).is_ok() {
        return Ok(encoded);
    }
    let is_wrong = |header: &(String, Vec<u8>)| {
        let headers = vec![header.clone()];
        ResponseHead::decode(&ResponseHead { status, headers }.encode()).is_err()
    };
    let mut headers = head.headers.into_iter();
    Err(
        match ResponseHead::decode(
            &ResponseHead {
                status,
                headers: Headers::new(),
            }
            .encode(),
        ) {
            Ok(_) => field_mistake(headers.find(is_wrong)),
            Err(Malformed) => Error::Input(format!("an answer cannot have the status {status}")),
        },
    )
}

/// Turns the head of an answer into one without a body.
pub(crate) fn response_of(head: &ResponseHead) -> Result<http::Response<()>, Malformed> {
    let mut response = http::Response::new(());
    *response.status_mut() = StatusCode::from_u16(head.status).map_err(|_| Malformed)?;
    let mut headers = header_map(&head.headers)?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        upgrade::set_headers(&mut headers);
    }
    *response.headers_mut() = headers;
    Ok(response)
}

/// Whether a request of this method has no body, whatever its sender says.
pub(crate) fn is_bodiless(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Whether an answer of this status to this method has no body, whatever its sender says.
pub(crate) fn has_no_body(method: &Method, status: StatusCode) -> bool {
    method == Method::HEAD
        || matches!(
            status,
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
        )
}

fn request_headers(head: &request::Parts, length: Option<u64>) -> Result<Headers, Error> {
    let mut headers = headers_of(&head.headers, length);
    if upgrade::is_asked(&head.method, &head.headers) {
        headers.push((UPGRADE.as_str().into(), "websocket".into()));
    }
    check_count(&headers)?;
    Ok(headers)
}

fn headers_of(map: &HeaderMap, length: Option<u64>) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in map.iter().filter(|(name, _)| !is_of_one_hop(map, name)) {
        headers.push((name.as_str().into(), value.as_bytes().trim_ascii().into()));
    }
    if let Some(length) = length
        && !map.contains_key(http::header::CONTENT_LENGTH)
    {
        headers.push(("content-length".into(), length.to_string().into_bytes()));
    }
    headers
}

fn check_count(headers: &Headers) -> Result<(), Error> {
    if headers.len() <= MAX_HEADERS {
        Ok(())
    } else {
        Err(too_large(format!("a message has at most {MAX_HEADERS} headers")))
    }
}

fn is_of_one_hop(map: &HeaderMap, name: &HeaderName) -> bool {
    OF_ONE_HOP.contains(name) || names_in_connection(map, name)
}

fn names_in_connection(map: &HeaderMap, name: &HeaderName) -> bool {
    let values = map
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case(name.as_str()))
}

fn header_map(headers: &Headers) -> Result<HeaderMap, Malformed> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Malformed)?;
        map.append(name, HeaderValue::from_bytes(value).map_err(|_| Malformed)?);
    }
    Ok(map)
}

fn check_length(len: usize) -> Result<(), Error> {
    if len <= MAX_HEAD {
        Ok(())
    } else {
        Err(too_large(format!("a head has at most {MAX_HEAD} bytes")))
    }
}

fn too_large(detail: String) -> Error {
    Error::Core {
        code: Code::TooLarge,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(request: http::Request<()>) -> request::Parts {
        request.into_parts().0
    }

    #[test]
    fn a_request_comes_back_without_what_means_the_connection() {
        let request = http::Request::post("https://check.mesh/a?b")
            .header("host", "check.mesh")
            .header("connection", "close, x-private")
            .header("x-private", "1")
            .header("keep-alive", "5")
            .header("x-kept", "\u{fc}".to_owned())
            .body(())
            .expect("a request");
        let encoded = encode_request(&parts(request), Some(3)).expect("a head");
        let decoded = decode_request("check", &encoded).expect("a request");
        assert_eq!(decoded.uri(), "https://check.mesh/a?b");
        assert_eq!(decoded.method(), Method::POST);
        assert_eq!(decoded.headers().len(), 2);
        assert_eq!(decoded.headers()["content-length"], "3");
        assert_eq!(decoded.headers()["x-kept"].as_bytes(), "\u{fc}".as_bytes());
    }

    #[test]
    fn a_head_with_a_field_of_one_hop_is_refused() {
        for name in OF_ONE_HOP.iter().filter(|name| *name != UPGRADE) {
            let headers: Headers = vec![(name.as_str().into(), b"1".into())];
            let head = RequestHead {
                method: "POST".into(),
                path: "/".into(),
                headers: headers.clone(),
            };
            assert!(decode_request("check", &head.encode()).is_err(), "{name}");
            let head = ResponseHead { status: 200, headers };
            assert!(ResponseHead::decode(&head.encode()).is_err(), "{name}");
        }
    }

    #[test]
    fn names_of_services() {
        let name = |url: &str| name_of(&url.parse().expect("a URL")).map_err(|error| error.to_string());
        assert_eq!(name("https://check.mesh/x"), Ok("check".into()));
        assert_eq!(name("https://a.b.mesh"), Ok("a.b".into()));
        assert_eq!(name("https://CHECK.Mesh./x"), Ok("check".into()));
        for url in [
            "https://check.org/",
            "https://.mesh/",
            "https://check.mesh:80/",
            "/x",
        ] {
            assert!(
                name(url).is_err_and(|error| error.contains("https://NAME.mesh/path")),
                "{url}"
            );
        }
    }

    #[test]
    fn heads_beyond_the_limits_are_refused() {
        let long = http::Request::get("https://a.mesh/")
            .header("x", "y".repeat(MAX_HEAD))
            .body(())
            .expect("a request");
        assert_eq!(
            encode_request(&parts(long), None)
                .err()
                .and_then(|error| error.code()),
            Some(Code::TooLarge)
        );
        let mut many = http::Request::get("https://a.mesh/").body(()).expect("a request");
        for number in 0..=MAX_HEADERS {
            many.headers_mut().append("x", number.into());
        }
        assert_eq!(
            encode_request(&parts(many), None)
                .err()
                .and_then(|error| error.code()),
            Some(Code::TooLarge)
        );
    }

    #[test]
    fn a_head_that_smuggles_is_refused() {
        for (name, value) in [("bad name", "x"), ("x", "a\r\nb: c"), ("", "x")] {
            let headers = vec![(name.into(), value.into())];
            let head = RequestHead {
                method: "GET".into(),
                path: "/".into(),
                headers,
            }
            .encode();
            assert!(decode_request("check", &head).is_err(), "{name:?}: {value:?}");
        }
        for path in ["/\u{20}x", "/a\r\nb"] {
            let head = RequestHead {
                method: "GET".into(),
                path: path.into(),
                headers: vec![],
            }
            .encode();
            assert!(decode_request("check", &head).is_err(), "{path:?}");
        }
    }
}
