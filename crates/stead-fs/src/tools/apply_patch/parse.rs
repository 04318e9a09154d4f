//! Parses the text of a patch:
//!
//! ```text
//! *** Begin Patch
//! *** Add File: a.txt
//! +its lines
//! *** Update File: b.txt
//! *** Move to: c.txt
//! @@ a line above
//!  a line that stays
//! -a line that goes
//! +a line that comes
//! *** Delete File: d.txt
//! *** End Patch
//! ```

pub(super) enum Operation<'a> {
    Add { path: &'a str, content: String },
    Delete { path: &'a str },
    Update { path: &'a str, moved: Option<&'a str>, hunks: Vec<Hunk<'a>> },
}

impl<'a> Operation<'a> {
    pub(super) const fn path(&self) -> &'a str {
        match self {
            Self::Add { path, .. } | Self::Delete { path } | Self::Update { path, .. } => path,
        }
    }
}

/// Consecutive lines to find below some other lines.
#[derive(Default)]
pub(super) struct Hunk<'a> {
    /// Each is searched for below the previous one.
    pub(super) above: Vec<&'a str>,
    pub(super) lines: Vec<HunkLine<'a>>,
    pub(super) at_end: bool,
}

#[derive(Clone, Copy)]
pub(super) enum HunkLine<'a> {
    Stays(&'a str),
    Goes(&'a str),
    Comes(&'a str),
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

pub(super) fn parse(text: &str) -> Result<Vec<Operation<'_>>, String> {
    let mut lines: Vec<&str> = text.trim().lines().collect();
    if lines.first().map(|line| line.trim()) != Some(BEGIN) {
        return Err(format!("its first line is not '{BEGIN}'"));
    }
    if lines.pop().map(str::trim) != Some(END) || lines.is_empty() {
        return Err(format!("its last line is not '{END}'"));
    }
    let mut rest = &lines[1..];
    let mut operations = Vec::new();
    while let Some((line, after)) = rest.split_first() {
        let length = after.iter().take_while(|line| !is_header(line)).count();
        let (body, next) = after.split_at(length);
        operations.push(operation(line, body)?);
        rest = next;
    }
    if operations.is_empty() { Err("it changes no file".to_owned()) } else { Ok(operations) }
}

fn is_header(line: &str) -> bool {
    ["*** Add File:", "*** Delete File:", "*** Update File:"].iter().any(|header| line.starts_with(header))
}

fn operation<'a>(line: &'a str, body: &[&'a str]) -> Result<Operation<'a>, String> {
    let named = |path: &'a str| match path.trim() {
        "" => Err(format!("'{line}' names no file")),
        path => Ok(path),
    };
    if let Some(path) = line.strip_prefix("*** Add File:") {
        let mut content = String::new();
        for line in body {
            let added =
                line.strip_prefix('+').ok_or_else(|| format!("'{line:.80}' of a new file does not begin with +"))?;
            content.push_str(added);
            content.push('\n');
        }
        return Ok(Operation::Add { path: named(path)?, content });
    }
    if let Some(path) = line.strip_prefix("*** Delete File:") {
        return match body.iter().find(|line| !line.trim().is_empty()) {
            Some(line) => Err(format!("'{line:.80}' follows a file that is deleted")),
            None => Ok(Operation::Delete { path: named(path)? }),
        };
    }
    let Some(path) = line.strip_prefix("*** Update File:") else {
        return Err(format!("'{line:.80}' is not a file header (*** Add File:, *** Update File:, *** Delete File:)"));
    };
    let (moved, body) = match body.split_first() {
        Some((first, rest)) if first.starts_with("*** Move to:") => {
            (Some(named(first.trim_start_matches("*** Move to:"))?), rest)
        }
        _ => (None, body),
    };
    let hunks = hunks(body)?;
    if hunks.is_empty() && moved.is_none() {
        return Err(format!("'{line:.80}' is followed by no change"));
    }
    Ok(Operation::Update { path: named(path)?, moved, hunks })
}

fn hunks<'a>(body: &[&'a str]) -> Result<Vec<Hunk<'a>>, String> {
    let mut hunks: Vec<Hunk<'a>> = Vec::new();
    for line in body {
        if let Some(above) = line.strip_prefix("@@") {
            // Several `@@` lines in a row belong to one hunk.
            if hunks.last().is_none_or(|hunk| !hunk.lines.is_empty()) {
                hunks.push(Hunk::default());
            }
            if let (Some(hunk), false) = (hunks.last_mut(), above.trim().is_empty()) {
                hunk.above.push(above.strip_prefix(' ').unwrap_or(above));
            }
            continue;
        }
        // The first hunk of a file needs no `@@` line.
        if hunks.is_empty() {
            hunks.push(Hunk::default());
        }
        let Some(hunk) = hunks.last_mut() else { continue };
        if line.trim_end() == END_OF_FILE {
            hunk.at_end = true;
            continue;
        }
        if hunk.at_end {
            return Err(format!("'{line:.80}' comes after the end of the file"));
        }
        hunk.lines.push(match line.split_at_checked(1) {
            Some((" ", rest)) => HunkLine::Stays(rest),
            Some(("-", rest)) => HunkLine::Goes(rest),
            Some(("+", rest)) => HunkLine::Comes(rest),
            None => HunkLine::Stays(""),
            _ => return Err(format!("'{line:.80}' begins with none of blank, + and -")),
        });
    }
    match hunks.iter().find(|hunk| hunk.lines.is_empty()) {
        Some(_) => Err("a place (@@) is named and nothing is changed there".to_owned()),
        None => Ok(hunks),
    }
}
