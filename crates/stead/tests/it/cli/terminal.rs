//! A pseudo-terminal for commands that behave differently on a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

pub(crate) struct Terminal {
    master: File,
    slave: OwnedFd,
    /// Everything that was written to the terminal.
    pub(crate) seen: String,
}

impl Terminal {
    /// Opens a terminal of 33 rows and 101 columns.
    pub(crate) fn new() -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        let terminal = Self { master: master.into(), slave, seen: String::new() };
        terminal.resize(33, 101);
        terminal
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        tcsetwinsize(&self.master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }

    pub(crate) fn is_raw(&self) -> bool {
        !tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    /// Starts a command on the terminal.
    pub(crate) fn spawn(&self, mut command: Command) -> Child {
        command.env("TERM", "xterm-256color");
        self.spawn_as(command)
    }

    /// Starts a command and leaves `TERM` to the caller.
    pub(crate) fn spawn_as(&self, mut command: Command) -> Child {
        let slave = || Stdio::from(self.slave.try_clone().unwrap());
        command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().unwrap()
    }

    /// Reads the output that arrived since the last call.
    pub(crate) fn look(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(count) = self.master.read(&mut buffer) {
            if count == 0 {
                return;
            }
            self.seen += &String::from_utf8_lossy(&buffer[..count]);
        }
    }

    /// Types `text` and waits until `shown` appears after it.
    pub(crate) fn type_until(&mut self, text: &str, shown: &str) {
        let from = if text.is_empty() { 0 } else { self.seen.len() };
        self.master.write_all(text.as_bytes()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.seen[from..].contains(shown) {
            assert!(Instant::now() < deadline, "{shown:?} is not shown: {:?}", self.seen);
            self.look();
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the command's end and returns its exit code.
    pub(crate) fn until_end(&mut self, child: &mut Child) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            self.look();
            if let Some(status) = child.try_wait().unwrap() {
                self.look();
                return status.code();
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("the program did not end within a minute: {:?}", self.seen);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
