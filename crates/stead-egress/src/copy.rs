//! Copies bytes between a box and a host outside, in both directions.

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use stead_core::network::RefusalCode;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::Instant;

use crate::egress::Budget;
use crate::http_requests::Requests;
use crate::second_hello::{FirstAnswer, FurtherRecords};
use crate::tally::Counters;

/// Size of a buffer. A connection has one only while it moves bytes.
const BUFFER: usize = 64 << 10;

/// The end of a connection other than by both sides closing it.
#[derive(Debug)]
pub(crate) enum Cut {
    Refused(RefusalCode),
    /// One side is gone.
    Lost,
}

impl From<io::Error> for Cut {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

/// What is followed in the bytes of the client.
pub(crate) enum Followed {
    Nothing,
    Handshake(FurtherRecords),
    Requests(Box<Requests>),
}

/// Counts and limits of one connection.
pub(crate) struct Meter<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) counters: &'a Counters,
    activity: Activity,
}

/// The time of a connection's last byte.
pub(crate) struct Activity {
    started: Instant,
    /// Milliseconds from the start to the last byte.
    last: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), last: AtomicU64::new(0) }
    }

    pub(crate) fn moved(&self) {
        self.last.store(self.started.elapsed().as_millis() as u64, Relaxed);
    }

    /// Returns when nothing has moved for this long.
    pub(crate) async fn idle(&self, most: Duration) {
        loop {
            let until = self.started + Duration::from_millis(self.last.load(Relaxed)) + most;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

impl<'a> Meter<'a> {
    pub(crate) fn new(budget: &'a Budget, counters: &'a Counters) -> Self {
        Self { budget, counters, activity: Activity::new() }
    }

    /// Counts bytes that the box sent, before they leave.
    pub(crate) async fn sent(&self, count: usize) -> Result<(), Cut> {
        self.activity.moved();
        self.budget.spend(count as u64).map_err(Cut::Refused)?;
        self.counters.bytes_out.fetch_add(count as u64, Relaxed);
        self.budget.out.take(count).await;
        Ok(())
    }

    async fn received(&self, count: usize) {
        self.activity.moved();
        self.counters.bytes_in.fetch_add(count as u64, Relaxed);
        self.budget.inwards.take(count).await;
    }
}

/// Makes closing a connection visible as a reset.
pub(crate) fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

/// Undoes [`reset`].
pub(crate) fn unreset(stream: &TcpStream) -> io::Result<()> {
    #[expect(deprecated, reason = "no linger time is set, so no thread blocks")]
    stream.set_linger(None)
}

/// Copies until both sides have closed, and passes a half-close on. Both are reset if the copying
/// fails, and if it is dropped before its end.
pub(crate) async fn both(
    mut inside: TcpStream,
    mut outside: TcpStream,
    first: Vec<u8>,
    followed: Followed,
    meter: &Meter<'_>,
    idle: Duration,
) -> Result<(), Cut> {
    reset(&inside);
    reset(&outside);
    let follows = matches!(followed, Followed::Handshake(_));
    // Set before the bytes that show it are passed on.
    let accepted = AtomicBool::new(!follows);
    {
        // Halves that own the stream would end it with a FIN when they are dropped.
        let (inside_read, mut inside_write) = inside.split();
        let (outside_read, mut outside_write) = outside.split();
        let up = up(&inside_read, &mut outside_write, (first, followed), &accepted, meter);
        let down = down(&outside_read, &mut inside_write, &accepted, meter);
        tokio::select! {
            done = async { tokio::try_join!(up, down) } => done.map(drop)?,
            () = meter.activity.idle(idle) => return Err(Cut::Lost),
        }
    }
    unreset(&inside)?;
    unreset(&outside)?;
    Ok(())
}

async fn up(
    from: &ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    (first, followed): (Vec<u8>, Followed),
    accepted: &AtomicBool,
    meter: &Meter<'_>,
) -> Result<(), Cut> {
    if !first.is_empty() {
        meter.sent(first.len()).await?;
        to.write_all(&first).await?;
    }
    let (mut further, mut requests) = match followed {
        Followed::Nothing => (None, None),
        Followed::Handshake(records) => (Some(records), None),
        Followed::Requests(requests) => (None, Some(requests)),
    };
    loop {
        let Some(buffer) = next(from).await? else { break };
        let bytes = match (&mut requests, further.take()) {
            (Some(requests), _) => Cow::Owned(requests.take(&buffer).map_err(Cut::Refused)?),
            (None, Some(records)) if accepted.load(Relaxed) => {
                let mut held = records.into_held();
                held.extend_from_slice(&buffer);
                Cow::Owned(held)
            }
            (None, Some(mut records)) => {
                let passed = records.take(&buffer).map_err(Cut::Refused)?;
                further = Some(records);
                Cow::Owned(passed)
            }
            (None, None) => Cow::Borrowed(&buffer[..]),
        };
        if !bytes.is_empty() {
            meter.sent(bytes.len()).await?;
            to.write_all(&bytes).await?;
        }
    }
    Ok(to.shutdown().await?)
}

async fn down(
    from: &ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    accepted: &AtomicBool,
    meter: &Meter<'_>,
) -> Result<(), Cut> {
    let mut first = FirstAnswer::default();
    let mut decided = accepted.load(Relaxed);
    loop {
        let Some(buffer) = next(from).await? else { break };
        if !decided && let Some(accepts) = first.take(&buffer) {
            accepted.store(accepts, Relaxed);
            decided = true;
        }
        meter.received(buffer.len()).await;
        to.write_all(&buffer).await?;
    }
    Ok(to.shutdown().await?)
}

/// Waits for bytes and reads them; `None` at the end.
async fn next(from: &ReadHalf<'_>) -> io::Result<Option<Vec<u8>>> {
    loop {
        from.readable().await?;
        let mut buffer = Vec::with_capacity(BUFFER);
        match from.try_read_buf(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(buffer)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
