//! A path over a bare TCP connection: each frame after its `u32` length, and the length 0 to say that one lives.

use core::time::Duration;
use std::io::{self, ErrorKind};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::frames::{FrameReader, write_frame};
use super::keep_alive::{Side, Silence, Silent};
use crate::handle::{Handle, Inbound};
use crate::link::{LinkEnd, Outgoing};

/// A peer that does not take what is written at once in this time is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for what is queued, and for the peer's last words, when a path is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Frames are written together up to this length.
const PIECE: usize = 64 * 1024;
/// Memory for writing that a connection keeps.
const KEPT: usize = 16 * 1024;

/// What says that this side lives.
const ALIVE: &[u8] = &[];

/// Carries frames until either side closes.
pub(super) async fn run<R, W>(reader: R, writer: W, side: Side, path: u32, driver: &Handle, mut link: LinkEnd)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (signs, wanted) = mpsc::channel(1);
    let killed = link.take_killed();
    let mut sending = core::pin::pin!(send(writer, link, wanted));
    let mut receiving = core::pin::pin!(receive(reader, side, path, driver, signs));
    tokio::select! {
        // What is still to be sent gets a moment, and so does what is still under way: closing a socket with unread
        // bytes would destroy what the peer has not read yet.
        () = &mut receiving => drop(timeout(CLOSE_TIMEOUT, sending).await),
        () = &mut sending => drop(timeout(CLOSE_TIMEOUT, receiving).await),
        () = killed => {}
    }
}

/// Writes frames, and a sign of life for each that is `wanted`, until the driver or the receiver ends.
async fn send<W: AsyncWrite + Unpin>(mut writer: W, mut link: LinkEnd, mut wanted: mpsc::Receiver<()>) {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        bytes.shrink_to(KEPT);
        tokio::select! {
            item = link.recv() => match item {
                Some(Outgoing::Frame(frame)) => write_frame(&frame, &mut bytes),
                Some(Outgoing::Busy(_)) => continue,
                None => break,
            },
            sign = wanted.recv() => match sign {
                Some(()) => write_frame(ALIVE, &mut bytes),
                None => break,
            },
        }
        while bytes.len() < PIECE
            && let Ok(item) = link.try_recv()
        {
            if let Outgoing::Frame(frame) = item {
                write_frame(&frame, &mut bytes);
            }
        }
        if let Err(error) = in_time(writer.write_all(&bytes)).await {
            return tracing::debug!(%error, "peer takes no frames: path closed");
        }
    }
    // Nothing can be done for a peer that does not take the farewell.
    _ = timeout(CLOSE_TIMEOUT, writer.shutdown()).await;
}

async fn in_time(written: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let timed_out = |_| Err(ErrorKind::TimedOut.into());
    timeout(WRITE_TIMEOUT, written).await.unwrap_or_else(timed_out)
}

async fn receive<R>(mut reader: R, side: Side, path: u32, driver: &Handle, signs: mpsc::Sender<()>)
where
    R: AsyncRead + Unpin,
{
    let mut silence = Silence::new(side);
    let mut frames = FrameReader::default();
    loop {
        let read = tokio::select! {
            read = frames.read_from(&mut reader) => read,
            silent = silence.lasts() => {
                if silent == Silent::GiveUp {
                    return tracing::debug!(path, "peer is silent: path closed");
                }
                // A sign that waits already does as well.
                _ = signs.try_send(());
                continue;
            }
        };
        match read {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => return tracing::debug!(path, %error, "path failed"),
        }
        loop {
            match frames.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    silence.heard();
                    if frame.is_empty() {
                        if side == Side::Accepted {
                            _ = signs.try_send(());
                        }
                    } else if driver.send(Inbound::Frame { path, frame }).await.is_err() {
                        return;
                    }
                }
                Err(_) => return tracing::debug!(path, "peer breaks a rule: path closed"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::{AsyncReadExt as _, duplex};
    use tokio::time::Instant;

    use super::*;
    use crate::handle::Queues;
    use crate::link::{Link, link};

    /// Runs one side of a connection; what the driver holds, and the other end.
    fn side(side: Side) -> (Link, Queues, tokio::io::DuplexStream, tokio::task::JoinHandle<()>) {
        let (near, far) = duplex(1024 * 1024);
        let (handle, queues) = Handle::new();
        let (driver_end, socket_end) = link(&crate::link::Budget::default());
        let (reader, writer) = tokio::io::split(near);
        let running = tokio::spawn(async move {
            run(reader, writer, side, 7, &handle, socket_end).await;
        });
        (driver_end, queues, far, running)
    }

    fn framed(frames: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| write_frame(frame, &mut bytes));
        bytes
    }

    #[tokio::test(start_paused = true)]
    async fn frames_go_both_ways_and_the_last_ones_before_the_end() {
        let (mut driver, mut queues, mut far, running) = side(Side::Accepted);
        far.write_all(&framed(&[b"one", b"", b"two"]))
            .await
            .expect("a write");
        for expected in ["one", "two"] {
            let frame = queues.inbound.recv().await;
            assert!(
                matches!(&frame, Some(Inbound::Frame { path: 7, frame }) if frame == expected),
                "{frame:?}"
            );
        }
        driver.transmit(Bytes::from_static(b"answer"));
        driver.transmit(Bytes::from_static(b"last words"));
        drop(driver);
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).await.expect("bytes");
        assert_eq!(bytes, framed(&[b"", b"answer", b"last words"]));
        drop(far);
        running.await.expect("an end");
    }

    #[tokio::test(start_paused = true)]
    async fn who_dialled_asks_and_closes_without_an_answer() {
        let (_driver, _queues, mut far, running) = side(Side::Dialled);
        let began = Instant::now();
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).await.expect("bytes");
        assert_eq!(bytes, framed(&[b"", b""]));
        assert_eq!(began.elapsed().as_secs(), 60);
        running.await.expect("an end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_keeps_the_path_and_is_not_answered_by_who_dialled() {
        let (_driver, _queues, mut far, running) = side(Side::Dialled);
        for _ in 0..10 {
            let mut sign = [1; 4];
            far.read_exact(&mut sign).await.expect("a question");
            assert_eq!(sign, [0; 4]);
            far.write_all(&sign).await.expect("a write");
        }
        assert!(!running.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_are_no_whole_frame_are_no_sign_of_life() {
        let (_driver, _queues, mut far, running) = side(Side::Accepted);
        far.write_all(&65_536_u32.to_le_bytes()).await.expect("a write");
        let drip = async {
            while far.write_all(&[0]).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let began = Instant::now();
        tokio::select! {
            () = drip => {}
            ended = running => ended.expect("an end"),
        }
        assert!(began.elapsed() < Duration::from_secs(80));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (mut driver, _queues, far, running) = side(Side::Accepted);
        for _ in 0..64 {
            driver.transmit(Bytes::from(vec![0; 65_536]));
        }
        running.await.expect("an end");
        drop(far);
    }
}
