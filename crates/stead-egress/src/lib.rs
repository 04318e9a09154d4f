//! The connections of boxes to the outside.
//!
//! A box with a network lends the server three sockets. Every TCP connection of a program in the
//! box ends in the first, and every question for a name in the other two. For each connection this
//! crate judges the destination, has the first contact recorded, resolves the name, connects to an
//! address that it has judged, and copies bytes. Nothing else connects a box with the outside.
//!
//! Programs in a box only see made-up addresses ([`names`]), so the name that was judged is the
//! name that is dialled. What a rule demands of the first bytes ([`client_hello`],
//! [`http_requests`]) is checked before a packet leaves.
//!
//! The engine owns an [`Egress`] per session and decides what the journal keeps ([`Record`]).

pub mod client_hello;
mod connection;
mod copy;
mod dial;
pub mod dns;
mod egress;
pub mod http;
pub mod http_requests;
mod inspection;
mod limits;
mod metered;
pub mod names;
mod own_addresses;
mod record;
mod request_connection;
mod resolve;
mod resolver;
mod second_hello;
mod tally;

pub use egress::{Egress, EgressServer, Policy, Serving, Sockets};
pub use http::InvalidRoots;
pub use inspection::{Authority, AuthorityError};
pub use record::{Opened, Record, Refused, SecretUse, Unrecorded};
pub use tally::{Tally, Traffic};
