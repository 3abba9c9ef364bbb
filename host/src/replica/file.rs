//! Whole capsules over HTTP: `GET` gives the export file of one, `POST` of a file stores it.

use bytes::Buf as _;
use futures_util::stream;
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::OwnedSemaphorePermit;

use super::service::{ReplicaBody, full, problem_of, with_body};
use super::{Replica, Source};
use crate::capsule::{CapsuleName, Export, Import};
use crate::error::{BoxError, Error};

/// What export files are to HTTP.
pub(super) const FILE_TYPE: &str = "application/vnd.selfsame.capsule-file";

/// The export file of a capsule, made as it is read.
pub(super) async fn export(
    replica: &Replica,
    name: CapsuleName,
    place: OwnedSemaphorePermit,
) -> Response<ReplicaBody> {
    let begun = async {
        let mut export = Export::begin(name, &replica.peer())?;
        // With the first bytes it is known that the capsule is there.
        let first = export.next().await?;
        Ok::<_, Error>((export, first))
    };
    let (export, first) = match begun.await {
        Ok(begun) => begun,
        Err(error) => return problem_of(&error),
    };
    let pieces = stream::unfold((Some(export), first, place), |(export, ready, place)| async {
        let mut export = export?;
        if let Some(bytes) = ready {
            return Some((Ok(Frame::data(bytes)), (Some(export), None, place)));
        }
        match export.next().await {
            Ok(bytes) => bytes.map(|bytes| (Ok(Frame::data(bytes)), (Some(export), None, place))),
            // Whoever reads sees that the file ends before its end.
            Err(error) => Some((Err(BoxError::from(error)), (None, None, place))),
        }
    });
    with_body(StatusCode::OK, FILE_TYPE, StreamBody::new(pieces).boxed_unsync())
}

/// Stores what is right in an export file, as it comes; the answer tells what it holds, or what is wrong with it and where.
pub(super) async fn import<B>(replica: &Replica, source: Source, body: B) -> Response<ReplicaBody>
where
    B: http_body::Body<Error: Into<BoxError>>,
{
    match store(replica, source, body).await {
        Ok(text) => with_body(StatusCode::OK, "application/json", full(text.into())),
        Err(error) => problem_of(&error),
    }
}

async fn store<B>(replica: &Replica, source: Source, body: B) -> Result<String, Error>
where
    B: http_body::Body<Error: Into<BoxError>>,
{
    let mut import = Import::begin(&replica.peer_from(source))?;
    let mut body = core::pin::pin!(body);
    loop {
        let data = match body.frame().await {
            Some(Ok(frame)) => frame.into_data(),
            Some(Err(error)) => return Err(Error::Body(error.into())),
            None => break,
        };
        // What is no data are trailers, of which a file has none.
        let Ok(mut data) = data else { continue };
        while data.has_remaining() {
            let length = data.chunk().len();
            import.push(data.chunk()).await?;
            data.advance(length);
        }
    }
    let info = import.finish().await?;
    Ok(format!(
        "{{\"capsule\":\"{}\",\"records\":{},\"holes\":{}}}\n",
        info.capsule, info.records, info.holes
    ))
}
