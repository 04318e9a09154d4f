//! `stead forward SESSION PORT[:LOCAL]`

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use stead_api::port::Port;
use stead_api::{List, Session};
use stead_core::SessionId;
use stead_core::session::door_host::{DoorHost, parse_port};

use super::browser;
use super::port::port;
use super::signals;
use crate::client::{UpgradeError, segment, upgrade};
use crate::config::Endpoint;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Form, Output};

/// Makes a port of a session's box reachable on this machine until it is interrupted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  stead forward ses_… 5432\n  stead forward ses_… 8080:3000 --open")]
pub(crate) struct Forward {
    /// The session's id
    session: String,
    /// Port in the box, and the local port if it is another one; 0 takes a free one
    #[arg(value_name = "PORT[:LOCAL]", value_parser = Ports::parse)]
    ports: Ports,
    /// Open the local port in a browser
    #[arg(long, conflicts_with = "unix")]
    open: bool,
    /// Listen on a unix socket that only you can use, and not on a local port
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ports {
    port: u16,
    /// 0 takes a free port.
    local: u16,
}

impl Ports {
    fn parse(text: &str) -> Result<Self, String> {
        let (inside, local) = text.split_once(':').unwrap_or((text, text));
        let local = if local == "0" { Some(0) } else { parse_port(local) };
        Ok(Self { port: port(inside)?, local: local.ok_or("the local port is a number from 0 to 65535")? })
    }
}

impl Forward {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let client = context.client()?;
        // The id may be abbreviated.
        let Session { id: session, .. } = client.get(&format!("/sessions/{}", segment(&self.session)))?;
        let route = format!("/sessions/{session}/ports");
        let listening: List<Port> = client.get(&route)?;
        let target = Arc::new(Target {
            endpoint: client.endpoint(),
            path: format!("/api/v1{route}/{}:connect", self.ports.port),
        });
        let socket: Arc<OnceLock<PathBuf>> = Arc::default();
        let removed = socket.clone();
        signals::on_end(move || {
            if let Some(path) = removed.get() {
                let _ = std::fs::remove_file(path);
            }
            end();
        })?;
        let (listener, name) = match &self.unix {
            Some(path) => Listener::unix(path, &socket)?,
            None => Listener::local(self.ports.local)?,
        };
        self.announce(context, session, &listener, &name)?;
        if !listening.items.iter().any(|found| found.port == self.ports.port) {
            context.out.note(&format!("nothing listens on {} in the box yet", self.ports.port));
        }
        listener.serve(&target, context)
    }

    fn announce(&self, context: &Context, session: SessionId, listener: &Listener, name: &str) -> Result<(), Failure> {
        let url = match listener {
            Listener::Local(local) => {
                let door = DoorHost { session, port: self.ports.port };
                let local = local.local_addr().map(|address| address.port()).unwrap_or_default();
                // A name of its own: browsers send the cookies of a host, such as 127.0.0.1 or that
                // of the door, to each of its ports.
                Some(format!("http://forward-{}.localhost:{local}/", door.label()))
            }
            Listener::Unix(_) => None,
        };
        let answer = serde_json::json!({"listen": name, "port": self.ports.port, "url": url});
        context.out.either(&answer, || {
            context.out.line(&format!("{name} is port {} of {}", self.ports.port, session))?;
            if let Some(url) = &url {
                context.out.line(&format!("in a browser: {url}"))?;
                context.out.note("every user of this machine can reach it until you press Ctrl-C");
            }
            Ok(())
        })?;
        if self.open && url.as_deref().is_some_and(|url| !browser::open(url)) {
            context.out.note("no browser was found; open the link yourself");
        }
        Ok(())
    }
}

/// Ends the process after a signal.
#[expect(clippy::exit, reason = "the listener waits in the kernel, and nothing is left to do")]
fn end() -> ! {
    std::process::exit(0)
}

/// The port on the server.
struct Target {
    endpoint: Endpoint,
    path: String,
}

enum Listener {
    Local(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn local(port: u16) -> Result<(Self, String), Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
            Failure::new(format!("cannot listen on 127.0.0.1:{port}"))
                .because(&error)
                .hint("name another local port, as in 8080:3000, or 8080:0 for a free one")
        })?;
        let name = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
        Ok((Self::Local(listener), name))
    }

    /// Binds a socket, and names it in `socket` for its removal.
    fn unix(path: &Path, socket: &OnceLock<PathBuf>) -> Result<(Self, String), Failure> {
        // The mode has to be right from the start, so that no other user can connect in between.
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = bound.map_err(|error| {
            Failure::new(format!("cannot listen on {}", path.display()))
                .because(&error)
                .hint("remove a socket that is left there, or name another path")
        })?;
        let _ = socket.set(path.to_owned());
        Ok((Self::Unix(listener), path.display().to_string()))
    }

    /// Serves until the process ends. Every connection has its own connection to the server.
    fn serve(&self, target: &Arc<Target>, context: &Context) -> Result<(), Failure> {
        loop {
            let accepted = match self {
                Self::Local(listener) => listener.accept().map(|(stream, _)| Local::Tcp(stream)),
                Self::Unix(listener) => listener.accept().map(|(stream, _)| Local::Unix(stream)),
            };
            let (local, target) = match accepted {
                Ok(local) => (local, target.clone()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(Failure::new("cannot accept a connection").because(&error)),
            };
            let json = context.out.is_json();
            std::thread::spawn(move || {
                if let Err(error) = pass(local, &target)
                    && !json
                {
                    Output::new(Form::Human).warning(&error.to_string());
                }
            });
        }
    }
}

/// A connection of a local program.
enum Local {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Local {
    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    fn end_writes(&self) {
        // A connection that is gone has no writes.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

impl Read for Local {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Local {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Copies bytes in both directions until both ends have closed.
fn pass(mut local: Local, target: &Target) -> Result<(), UpgradeError> {
    let remote = upgrade(&target.endpoint, &target.path, "tcp")?;
    let (Ok(mut from_local), Ok(mut up)) = (local.try_clone(), remote.stream.try_clone()) else { return Ok(()) };
    std::thread::spawn(move || {
        let _ = io::copy(&mut from_local, &mut up);
        let _ = up.shutdown(Shutdown::Write);
    });
    let mut down = remote.early.as_slice().chain(&remote.stream);
    let _ = io::copy(&mut down, &mut local);
    local.end_writes();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_number_or_two() {
        assert_eq!(Ports::parse("8080"), Ok(Ports { port: 8080, local: 8080 }));
        assert_eq!(Ports::parse("8080:3000"), Ok(Ports { port: 8080, local: 3000 }));
        assert_eq!(Ports::parse("8080:0"), Ok(Ports { port: 8080, local: 0 }));
        for text in ["", "0", "x", "65536", "8080:", ":8080", "8080:65536", "8080:127.0.0.1:3000", "+1"] {
            assert!(Ports::parse(text).is_err(), "{text}");
        }
    }
}
