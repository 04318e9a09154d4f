//! Plain and compressed tars. The first byte says how the rest is read; see `FLAGS`.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use stead_fs::archive::ArchiveFormat;
use stead_fuzz::check_unpack;

/// Bits of the first byte: unpack onto a disk too, and give every header a valid checksum, which
/// mutations would hardly find.
const DISK: u8 = 1;
const CHECKSUMS: u8 = 2;
/// The remaining bits of the first byte select the packing.
const FLAGS: u8 = 4;

fuzz_target!(|input: &[u8]| {
    let Some((flags, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if flags & CHECKSUMS != 0 {
        sum_headers(&mut bytes);
    }
    let on_disk = flags & DISK != 0;
    match flags / FLAGS % 5 {
        0 => check_unpack(ArchiveFormat::Tar, &bytes, on_disk),
        1 => check_unpack(ArchiveFormat::TarGz, &bytes, on_disk),
        2 => check_unpack(ArchiveFormat::TarZst, &bytes, on_disk),
        3 => check_unpack(ArchiveFormat::TarGz, &gz(&bytes), on_disk),
        _ => check_unpack(ArchiveFormat::TarZst, &zst(&bytes), on_disk),
    }
});

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("writing to memory");
    encoder.finish().expect("writing to memory")
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("writing to memory")
}

fn sum_headers(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = bytes.get_mut(at..at + 512) {
        if header.iter().all(|byte| *byte == 0) {
            return;
        }
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        let size = header[124..135].iter().filter(|byte| (b'0'..=b'7').contains(byte));
        let size = size.fold(0_usize, |size, digit| size.saturating_mul(8).saturating_add(usize::from(digit - b'0')));
        at = at.saturating_add(512).saturating_add(size.min(1 << 30).next_multiple_of(512));
    }
}
