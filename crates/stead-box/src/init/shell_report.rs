//! The report of a persistent shell after each command, and the program that writes it.
//!
//! The shell writes three fields to its side channel, each with a NUL at its end: the nonce of the
//! call with the exit code and the number of open descriptors, the working directory, and its state
//! as a script. No value of a shell contains a NUL, so a field ends where it says.
//!
//! The commands that the shell runs do not inherit the descriptor, but they can open it in `/proc`.
//! Fields before the nonce of the running call are dropped, and the shell reads the nonce only when
//! its command has ended. So a process of an earlier call cannot forge the end of a later one by
//! writing alone. Code with the same user id can still read the memory and the pipes of the shell.
//! It deceives only the agent that started it.

/// Maximum size of a state. A larger one is not kept.
pub(super) const MOST_STATE: usize = 256 << 10;

/// Maximum size of the first field of a report, including lines that a trap wrote before it.
const MOST_HEAD: usize = 4 << 10;

/// Reads one state, one command and one nonce at a time, each with a NUL at its end, and reports.
///
/// All on one line, because the shell counts the lines of a command from the line of its `eval`.
/// `for … in 1` makes `break` and `continue` end the command and not the program. The shell's own
/// output goes to `/dev/null`, so that tracing shows only the command.
pub(super) const PROGRAM: &str = concat!(
    "exec 196>&1 197>&2 198<&0 </dev/null >/dev/null 2>&1; shopt -s expand_aliases; ",
    "__stead_status() { builtin return \"$1\"; }; __stead_r=0; __stead_f=(/proc/self/fd/*); ",
    "printf 'ready %s\\0%s\\0\\0' \"${#__stead_f[@]}\" \"$PWD\" >&199; ",
    "while IFS= read -r -d '' -u 198 __stead_s; do ",
    "if [[ -n $__stead_s ]]; then eval \"$__stead_s\" 196>&- 197>&- 198<&- 199>&-; fi; unset __stead_s; ",
    "IFS= read -r -d '' -u 198 __stead_c || break; ",
    // The command sees the exit code of the previous one, unless that would end or be traced.
    "case $-,${__stead_r:-0} in *[ex]*|*,0) ;; *) __stead_c=\"__stead_status $__stead_r; $__stead_c\" ;; esac; ",
    "for __stead_o in 1; do eval \"$__stead_c\" >&196 2>&197 196>&- 197>&- 198<&- 199>&-; done; ",
    "__stead_r=$?; unset __stead_c __stead_o; __stead_f=(/proc/self/fd/*); ",
    "IFS= read -r -d '' -u 198 __stead_n || break; ",
    "{ printf '%s %s %s\\0%s\\0' \"$__stead_n\" \"$__stead_r\" \"${#__stead_f[@]}\" \"$PWD\"; unset __stead_f __stead_n; ",
    "declare -p; declare -f; alias -p; trap -p; shopt -p; umask -p; ",
    "printf 'set --'; printf ' %q' \"$@\"; printf '\\ncd -- %q\\n' \"$PWD\"; set +o; printf '\\0'; } >&199; done",
);

/// One report.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// Exit code of the command; `None` for the report of the start.
    pub(super) exit_code: Option<i32>,
    /// Number of open descriptors.
    pub(super) descriptors: Option<u64>,
    pub(super) cwd: Option<String>,
    /// Script that restores the state; `None` if it is too large.
    pub(super) state: Option<Vec<u8>>,
}

/// Finds the reports in the bytes of a side channel, with bounded memory.
#[derive(Default)]
pub(super) struct Reports {
    /// True after the report of the start. The shell writes it before it runs any command, so a
    /// later one is forged.
    started: bool,
    /// The report whose first field was read.
    begun: Option<Begun>,
    current: Vec<u8>,
    overflow: bool,
}

struct Begun {
    head: Head,
    /// The second field.
    cwd: Option<Option<Vec<u8>>>,
}

/// The first field of a report: the exit code and the number of open descriptors.
type Head = (Option<i32>, u64);

impl Reports {
    /// Takes bytes and returns the reports of the start and of the call with this nonce that they
    /// complete.
    pub(super) fn push(&mut self, bytes: &[u8], nonce: Option<&str>) -> Vec<Report> {
        let mut reports = Vec::new();
        let mut pieces = bytes.split(|byte| *byte == 0).peekable();
        while let Some(piece) = pieces.next() {
            self.extend(piece);
            // A NUL follows every piece but the last.
            if pieces.peek().is_some() {
                reports.extend(self.end_field(nonce));
            }
        }
        reports
    }

    fn extend(&mut self, piece: &[u8]) {
        if self.begun.is_none() {
            // Only the end of a first field counts.
            self.current.extend_from_slice(&piece[piece.len().saturating_sub(MOST_HEAD)..]);
            self.current.drain(..self.current.len().saturating_sub(MOST_HEAD));
            return;
        }
        self.overflow |= self.current.len() + piece.len() > MOST_STATE;
        if !self.overflow {
            self.current.extend_from_slice(piece);
        }
    }

    fn end_field(&mut self, nonce: Option<&str>) -> Option<Report> {
        let field = std::mem::take(&mut self.current);
        let Some(mut begun) = self.begun.take() else {
            let head = head(&field, nonce).filter(|(exit_code, _)| exit_code.is_some() || !self.started);
            self.started |= head.is_some();
            self.begun = head.map(|head| Begun { head, cwd: None });
            return None;
        };
        let field = Some(field).filter(|_| !std::mem::take(&mut self.overflow));
        let Some(cwd) = begun.cwd.take() else {
            self.begun = Some(Begun { cwd: Some(field), ..begun });
            return None;
        };
        let (exit_code, descriptors) = begun.head;
        let cwd = cwd.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Some(Report { exit_code, descriptors: Some(descriptors), cwd, state: field })
    }
}

/// Reads the first field of a report; `None` for any other field.
fn head(field: &[u8], nonce: Option<&str>) -> Option<Head> {
    let text = String::from_utf8_lossy(field);
    // A trap of the command, or another process, may have written before.
    let mut words = text.rsplitn(3, [' ', '\n']);
    let descriptors = words.next()?.parse().ok()?;
    match words.next()? {
        "ready" => Some((None, descriptors)),
        code => {
            let is_current = words.next()?.ends_with(nonce?);
            Some((Some(code.parse().ok()?), descriptors)).filter(|_| is_current)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Option<&str> = Some("abc");

    #[test]
    fn reports_are_split_at_any_byte() {
        let bytes = b"ready 8\0/w\0\0abc 3 9\0/a b\0x=1\nf\n\0trap\nabc 0 8\0/\0y\0";
        let expected = |exit_code, descriptors, cwd: &str, state: &str| Report {
            exit_code,
            descriptors: Some(descriptors),
            cwd: Some(cwd.to_owned()),
            state: Some(state.as_bytes().to_vec()),
        };
        let all =
            [expected(None, 8, "/w", ""), expected(Some(3), 9, "/a b", "x=1\nf\n"), expected(Some(0), 8, "/", "y")];
        for size in [1, 2, 7, 100] {
            let mut reports = Reports::default();
            let found: Vec<Report> = bytes.chunks(size).flat_map(|piece| reports.push(piece, NONCE)).collect();
            assert_eq!(found, all, "{size}");
        }
    }

    #[test]
    fn what_does_not_know_the_nonce_is_dropped() {
        let mut reports = Reports::default();
        assert_eq!(reports.push(b"ready 8\0/w\0\0", NONCE).len(), 1);
        for forged in
            [&b"0 8\0/\0x\0"[..], b"old 0 8\0/\0x\0", b"abc\0", b"abc 0\0", b"\0\0\0\0", b" 0 8\0", b"ready 8\0"]
        {
            assert_eq!(reports.push(forged, NONCE), [], "{forged:?}");
        }
        assert_eq!(reports.push(b"abc 0 8\0/\0x\0", None), [], "no call runs");
        assert_eq!(reports.push(&[b'x'; 1 << 20], NONCE), []);
        assert_eq!(reports.current.len(), MOST_HEAD);
        let found = reports.push(b"abc 4 8\0/\0x\0", NONCE);
        assert_eq!(found.iter().map(|report| report.exit_code).collect::<Vec<_>>(), [Some(4)]);
    }

    #[test]
    fn a_large_state_is_dropped_and_the_next_report_is_read() {
        let mut reports = Reports::default();
        assert_eq!(reports.push(b"abc 1 8\0/\0", NONCE), []);
        for _ in 0..40 {
            assert_eq!(reports.push(&[b'x'; 16 << 10], NONCE), []);
        }
        assert_eq!(reports.current.len(), MOST_STATE);
        let found = reports.push(b"\0abc 0 8\0/\0s\0", NONCE);
        assert_eq!(found.iter().map(|report| report.state.as_deref()).collect::<Vec<_>>(), [None, Some(&b"s"[..])]);
    }
}
