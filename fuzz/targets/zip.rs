//! Zips: the raw input, or an archive built from fields and then damaged, because mutations hardly
//! find a valid checksum.
//!
//! Fields: flags, damage, then a name and a content for each entry. A name that starts with `@` is
//! a link. Damage consists of byte triples: two bytes of offset, one byte of value.
#![no_main]

use std::io::{Cursor, Write};

use libfuzzer_sys::fuzz_target;
use stead_fs::archive::ArchiveFormat;
use stead_fuzz::{check_unpack, fields};
use zip::write::SimpleFileOptions;

const DISK: u8 = 1;
const BUILT: u8 = 2;

fuzz_target!(|input: &[u8]| {
    let Some((flags, bytes)) = input.split_first() else { return };
    let on_disk = flags & DISK != 0;
    if flags & BUILT == 0 {
        return check_unpack(ArchiveFormat::Zip, bytes, on_disk);
    }
    let [damage, entries] = fields::<2>(bytes);
    if let Some(mut bytes) = build(entries) {
        for hit in damage.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([hit[0], hit[1]])) % bytes.len();
            bytes[at] = hit[2];
        }
        check_unpack(ArchiveFormat::Zip, &bytes, on_disk);
    }
});

/// Returns `None` if the writer itself refuses the entries.
fn build(entries: &[u8]) -> Option<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let mut parts = entries.split(|byte| *byte == 0xff);
    while let Some(name) = parts.next().and_then(|name| std::str::from_utf8(name).ok()) {
        let content = parts.next().unwrap_or_default();
        let options = SimpleFileOptions::default().unix_permissions(0o755);
        match name.strip_prefix('@') {
            Some(name) => writer.add_symlink(name, std::str::from_utf8(content).ok()?, options).ok()?,
            None if name.ends_with('/') => writer.add_directory(name, options).ok()?,
            None => {
                writer.start_file(name, options).ok()?;
                writer.write_all(content).ok()?;
            }
        }
    }
    Some(writer.finish().ok()?.into_inner())
}
