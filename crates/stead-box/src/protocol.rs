//! The protocol between the server and `stead-init`.
//!
//! A frame consists of two little-endian lengths, a JSON head and raw bytes. The server sends a
//! [`Request`], and init responds with a [`Reply`] that carries the number of the request. A
//! request can have several replies, and the last one ends it. Neither side trusts the other: it
//! checks every length before it allocates memory, and an invalid frame ends the connection.

mod frame;
mod guest_error;
mod message;
mod port;
mod shell;

pub use frame::{Decoder, MAX_FRAME, ProtocolError, encode, encode_request, read_frame};
pub(crate) use frame::{ReadError, receive};
pub use guest_error::{GuestError, GuestErrorKind};
pub use message::{
    AfterRun, Answer, Ask, ExecOrder, ExecResult, ExecStatus, FileAsk, FileStat, FullBuffer, IfMissing, IfThere, Input,
    Kept, NewContent, OutputLimits, Reply, Request, Stream, TerminalSize, ToolCall, ToolReply,
};
pub use port::ListeningPort;
pub use shell::{Left, LeftProcess, ShellBegin, ShellOrder, ShellOrigin, ShellResult, ShellState};

/// Version of the protocol. The server and init are installed together. A box that outlives an
/// upgrade reports its version, and the server replaces it if it is another one.
pub const VERSION: u32 = 5;
/// Maximum number of output bytes in one frame.
pub const CHUNK: usize = 64 << 10;
