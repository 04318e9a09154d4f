//! The one place that recognises the text of messages.
//!
//! Git, curl and ssh report most failures only as text: git's exit code is 128 for all of them. Git
//! runs with `LC_ALL=C`, so the texts are not translated. A text that is not recognised gives no
//! cause, and the failure is reported with git's own words.

/// The cause of a failure, as far as the messages of git tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// An HTTP redirect, which git is told not to follow.
    Redirected,
    /// The other side answers, but not as a git server.
    NotGit,
    DumbHttp,
    /// The ssh host key is unknown or another one than expected.
    HostKey,
    /// The other side wants another credential, or any.
    Unauthorised,
    /// The repository does not exist.
    NotFound,
    /// The network or the server failed. A retry may succeed.
    Unreachable,
    /// The remote does not have a requested commit.
    MissingRef,
    OutOfMemory,
    /// A file exceeds the limit of the process. The kernel sends SIGXFSZ, also to children of git.
    FileTooLarge,
}

/// Texts of each cause. The first cause with a text in the messages is the cause.
const TEXTS: &[(Cause, &[&str])] = &[
    (Cause::FileTooLarge, &["signal 25", "File too large"]),
    (
        Cause::Redirected,
        &[
            "returned error: 301",
            "returned error: 302",
            "returned error: 303",
            "returned error: 307",
            "returned error: 308",
        ],
    ),
    (Cause::NotGit, &["not valid: is this a git repository?", "text/html", "invalid content-type"]),
    (Cause::DumbHttp, &["dumb http transport"]),
    (Cause::HostKey, &["Host key verification failed", "host key is known", "REMOTE HOST IDENTIFICATION"]),
    (
        Cause::Unauthorised,
        &[
            "could not read Username",
            "could not read Password",
            "Authentication failed",
            "Permission denied",
            "error: 401",
            "error: 403",
        ],
    ),
    // A host name that is not found is no missing repository.
    (Cause::Unreachable, &["Could not resolve"]),
    (
        Cause::NotFound,
        &[
            "not found",
            "does not appear to be a git repository",
            "does not exist",
            "returned error: 404",
            "returned error: 410",
        ],
    ),
    (
        Cause::Unreachable,
        &[
            "Failed to connect",
            "Connection refused",
            "Connection timed out",
            "Connection reset",
            "unable to connect",
            "Operation timed out",
            "Operation too slow",
            "early EOF",
            "unexpected disconnect",
            "hung up unexpectedly",
            "RPC failed",
            "Empty reply",
            "transfer closed",
            "No route to host",
            "Network is unreachable",
            "returned error: 5",
            "returned error: 429",
            "Recv failure",
            "SSL",
            "Connection closed",
            "Couldn't connect",
        ],
    ),
    (Cause::MissingRef, &["not our ref", "no such remote ref"]),
    (Cause::OutOfMemory, &["Out of memory", "out of memory"]),
];

/// Returns the cause that these messages name.
pub(crate) fn cause_of(messages: &str) -> Option<Cause> {
    let names = |texts: &[&str]| texts.iter().any(|text| messages.contains(text));
    TEXTS.iter().find(|(_, texts)| names(texts)).map(|(cause, _)| *cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages as the named versions print them.
    #[test]
    fn the_messages_of_each_version_name_their_cause() {
        for (messages, cause) in [
            // Git 2.11 to 2.47, with curl 7 and 8.
            ("fatal: unable to access 'https://h/r/': The requested URL returned error: 301", Some(Cause::Redirected)),
            (
                "fatal: unable to access 'https://h/r/': The requested URL returned error: 403",
                Some(Cause::Unauthorised),
            ),
            ("fatal: unable to access 'https://h/r/': The requested URL returned error: 503", Some(Cause::Unreachable)),
            ("fatal: could not read Username for 'https://h': terminal prompts disabled", Some(Cause::Unauthorised)),
            ("remote: Not Found\nfatal: repository 'https://h/r/' not found", Some(Cause::NotFound)),
            ("fatal: https://h/r/info/refs not valid: is this a git repository?", Some(Cause::NotGit)),
            ("fatal: dumb http transport does not support shallow capabilities", Some(Cause::DumbHttp)),
            ("fatal: unable to access 'https://h/r/': Could not resolve host: h", Some(Cause::Unreachable)),
            // Until curl 7.83 "port N", later "port N after N ms".
            (
                "fatal: unable to access 'http://h/': Failed to connect to h port 80: Connection refused",
                Some(Cause::Unreachable),
            ),
            (
                "fatal: unable to access 'http://h/': Failed to connect to h port 80 after 0 ms: Couldn't connect to server",
                Some(Cause::Unreachable),
            ),
            (
                "error: RPC failed; curl 18 transfer closed with outstanding read data remaining",
                Some(Cause::Unreachable),
            ),
            ("fatal: the remote end hung up unexpectedly", Some(Cause::Unreachable)),
            (
                "fetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF",
                Some(Cause::Unreachable),
            ),
            // OpenSSH 7 to 10.
            ("Host key verification failed.\nfatal: Could not read from remote repository.", Some(Cause::HostKey)),
            ("No ED25519 host key is known for h and you have requested strict checking.", Some(Cause::HostKey)),
            ("git@h: Permission denied (publickey).", Some(Cause::Unauthorised)),
            ("ssh: Could not resolve hostname h: Name or service not known", Some(Cause::Unreachable)),
            ("ssh: connect to host h port 22: Connection timed out", Some(Cause::Unreachable)),
            ("fatal: '/r' does not appear to be a git repository", Some(Cause::NotFound)),
            // Until git 2.11 "git upload-pack", later "remote error: upload-pack".
            ("fatal: git upload-pack: not our ref 0123456789012345678901234567890123456789", Some(Cause::MissingRef)),
            (
                "fatal: remote error: upload-pack: not our ref 0123456789012345678901234567890123456789",
                Some(Cause::MissingRef),
            ),
            ("error: no such remote ref 0123456789012345678901234567890123456789", Some(Cause::MissingRef)),
            ("fatal: Out of memory, malloc failed (tried to allocate 4096 bytes)", Some(Cause::OutOfMemory)),
            ("fatal: out of memory", Some(Cause::OutOfMemory)),
            ("error: index-pack died of signal 25", Some(Cause::FileTooLarge)),
            ("fatal: write error: File too large", Some(Cause::FileTooLarge)),
            ("fatal: bad object HEAD", None),
            ("", None),
        ] {
            assert_eq!(cause_of(messages), cause, "{messages}");
        }
    }
}
