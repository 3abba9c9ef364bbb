//! Asks a node that runs on this machine.

use core::time::Duration;
use std::io::ErrorKind;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

use super::args::Running;
use super::control::CONTROL_FILE;
use super::output::Failure;

/// Asks the node for its place in the ring; `None` when none runs in the folder.
pub(crate) async fn ask(running: &Running, longest: Duration) -> Result<Option<Value>, Failure> {
    let (base, key) = match &running.url {
        Some(url) => (url.to_string(), None),
        None => match read_control_file(running)? {
            Some((url, key)) => (url, Some(key)),
            None => return Ok(None),
        },
    };
    let url: Uri = format!("{}/ring", base.trim_end_matches('/'))
        .parse()
        .map_err(|_| Failure::usage(format!("\"{base}\" is no URL such as http://127.0.0.1:9464")))?;
    match timeout(longest, get(&url, key)).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        // A file that a node has left which was killed.
        Ok(Err(_)) if running.url.is_none() => Ok(None),
        Ok(Err(why)) => Err(Failure::unanswered(format!("{url}: {why}"))),
        Err(_) => Err(Failure::timed_out(&format!("asking {url}"))),
    }
}

fn read_control_file(running: &Running) -> Result<Option<(String, String)>, Failure> {
    let path = running.folder.join(CONTROL_FILE);
    let content = match std::fs::read(&path) {
        Ok(content) => content,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file(&path, error)),
    };
    let value: Value = serde_json::from_slice(&content).map_err(|error| Failure::file(&path, error))?;
    let member = |name: &str| value[name].as_str().map(str::to_owned);
    let both = member("url").zip(member("key"));
    both.map(Some)
        .ok_or_else(|| Failure::file(&path, "it does not say where the node answers"))
}

async fn get(url: &Uri, key: Option<String>) -> Result<Value, String> {
    let mut request = Request::get(url);
    if let Some(key) = key {
        request = request.header(AUTHORIZATION, format!("Bearer {key}"));
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client
        .request(request)
        .await
        .map_err(|_| "no node answers there".to_owned())?;
    let status = response.status();
    if status != StatusCode::OK {
        return Err(format!("it answers {status}"));
    }
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    serde_json::from_slice(&body).map_err(|_| "what answers there is no node".to_owned())
}
