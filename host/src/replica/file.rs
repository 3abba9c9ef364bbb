//! Whole capsules over HTTP: `GET` gives the export file of one, `POST` of a file stores it.

use alloc::sync::Arc;
use core::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::stream;
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use selfsame_codec::Code;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::service::{ReplicaBody, full, problem_of, with_body};
use super::{Replica, Source};
use crate::capsule::{CapsuleName, Export, Import};
use crate::error::{BoxError, Error};
use crate::shares::{Share, Shares};

/// What export files are to HTTP.
pub(super) const FILE_TYPE: &str = "application/vnd.selfsame.capsule-file";

/// Files that are made or stored at a time: each takes some memory as long as it lasts.
const FILES: usize = 4;
/// Those of one source.
const FILES_OF_SOURCE: usize = FILES / 2;
/// A file that brings nothing for so long, or of which nothing is read, gives its place to others.
const STALLED: Duration = Duration::from_secs(30);

/// Places for files that are made or stored
#[derive(Clone, Debug)]
pub(super) struct Files {
    places: Arc<Shares<Source>>,
}

/// A place among all files, and among those of its source; given back when it is dropped
pub(super) type FilePlace = Share<Source>;

impl Files {
    pub(super) fn new() -> Self {
        Self {
            places: Shares::new(FILES_OF_SOURCE, FILES),
        }
    }

    /// A place for a file of a source, if there is one.
    pub(super) fn take(&self, source: Source) -> Option<FilePlace> {
        self.places.take(Some(source), 1)
    }
}

/// A piece of an export file, or that it is whole
type Piece = Option<Result<Bytes, Error>>;

/// The export file of a capsule, made as it is read.
pub(super) async fn export(replica: &Replica, name: CapsuleName, place: FilePlace) -> Response<ReplicaBody> {
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
    let (pieces, made) = mpsc::channel(1);
    // Apart from who reads, so that its place is given back though nothing is read any more.
    tokio::spawn(make(export, first, pieces, place));
    let body = stream::unfold(Some(made), |made| async {
        let mut made = made?;
        match made.recv().await {
            Some(Some(Ok(bytes))) => Some((Ok(Frame::data(bytes)), Some(made))),
            Some(None) => None,
            // Whoever reads sees that the file ends before its end.
            Some(Some(Err(error))) => Some((Err(BoxError::from(error)), None)),
            None => Some((Err(BoxError::from(Error::from_code(Code::TimedOut))), None)),
        }
    });
    with_body(StatusCode::OK, FILE_TYPE, StreamBody::new(body).boxed_unsync())
}

/// Makes the pieces of a file as they are read, until it is whole, fails or is not read any more.
async fn make(mut export: Export, first: Option<Bytes>, pieces: mpsc::Sender<Piece>, _place: FilePlace) {
    let mut next = Ok(first);
    loop {
        let is_last = !matches!(next, Ok(Some(_)));
        let sent = timeout(STALLED, pieces.send(next.transpose())).await;
        if is_last || !matches!(sent, Ok(Ok(()))) {
            return;
        }
        next = export.next().await;
    }
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
        let next = timeout(STALLED, body.frame()).await;
        let data = match next.map_err(|_| Error::from_code(Code::TimedOut))? {
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
