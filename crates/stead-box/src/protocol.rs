//! What the server and `stead-init` say to each other.
//!
//! A frame is two little-endian lengths, a JSON head and raw bytes. The server asks ([`Request`]), init answers ([`Reply`]) with the number
//! of the request; a request can have several answers, the last of which ends it. Neither side believes the other: every length
//! is checked before anything is allocated, and a frame that is not understood ends the connection.

mod frame;
mod guest_error;
mod message;

pub use frame::{Decoder, MAX_FRAME, ProtocolError, encode, read_frame};
pub(crate) use frame::{ReadError, receive};
pub use guest_error::{GuestError, GuestErrorKind};
pub use message::{
    AfterRun, Answer, Ask, ExecOrder, ExecResult, ExecStatus, FileAsk, FileStat, IfMissing, IfThere, Input, Kept,
    NewContent, OutputLimits, PatchText, Reply, Request, Stream, TerminalSize, ToolCall, ToolLimits, ToolReply, Unread,
};

/// Of the protocol. The server and init are installed together; a box that outlives an upgrade says which it speaks.
pub const VERSION: u32 = 2;
/// The most bytes of output in one frame.
pub const CHUNK: usize = 64 << 10;
