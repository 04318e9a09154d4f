//! The files of the page, as `cargo xtask page` packed them: a tar archive of gzip files.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::sync::LazyLock;

use flate2::read::GzDecoder;

static BUNDLE: &[u8] = include_bytes!("bundle.tar");

/// A file of the page.
pub(super) struct Part {
    pub(super) media_type: &'static str,
    pub(super) compressed: &'static [u8],
}

impl Part {
    /// Returns the bytes for a client that does not take gzip.
    pub(super) fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        GzDecoder::new(self.compressed).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

static PARTS: LazyLock<HashMap<String, Part>> = LazyLock::new(|| {
    unpack(BUNDLE).unwrap_or_else(|error| {
        tracing::error!(%error, "the files of the web page cannot be read");
        HashMap::new()
    })
});

/// Returns a file by its path, such as `index.html` or `assets/index-1234.js`.
pub(super) fn part(path: &str) -> Option<&'static Part> {
    PARTS.get(path)
}

fn unpack(bundle: &'static [u8]) -> io::Result<HashMap<String, Part>> {
    let mut parts = HashMap::new();
    for entry in tar::Archive::new(bundle).entries()? {
        let entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let (start, size) = (entry.raw_file_position(), entry.size());
        let range = usize::try_from(start).ok().zip(usize::try_from(start + size).ok());
        let compressed = range.and_then(|(start, end)| bundle.get(start..end));
        let (Some(compressed), Some(media_type)) = (compressed, media_type(&path)) else {
            return Err(io::Error::other(format!("{path} is not a file of a page")));
        };
        parts.insert(path, Part { media_type, compressed });
    }
    Ok(parts)
}

fn media_type(path: &str) -> Option<&'static str> {
    Some(match path.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_unpacks_and_the_page_names_only_files_that_exist() {
        let parts = unpack(BUNDLE).unwrap();
        for (path, part) in &parts {
            assert!(!part.bytes().unwrap().is_empty(), "{path}");
        }
        let index = String::from_utf8(parts["index.html"].bytes().unwrap()).unwrap();
        let named: Vec<&str> = index.split('"').filter_map(|text| text.strip_prefix("/assets/")).collect();
        assert!(named.len() >= 2, "{index}");
        for file in named {
            assert!(parts.contains_key(&format!("assets/{file}")), "{file}");
        }
        assert!(!index.contains("<style") && !index.contains("<script>"), "{index}");
    }

    #[test]
    fn the_first_view_is_small() {
        let parts = unpack(BUNDLE).unwrap();
        let index = String::from_utf8(parts["index.html"].bytes().unwrap()).unwrap();
        let first = parts.iter().filter(|(path, _)| index.contains(path.as_str()) || *path == "index.html");
        let bytes: usize = first.map(|(_, part)| part.compressed.len()).sum();
        assert!(bytes <= 500 * 1024, "{bytes} bytes");
    }
}
