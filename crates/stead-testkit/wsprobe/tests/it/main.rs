//! The program `wsprobe` itself. The tests of `stead-box` and `stead` run it in boxes.

/// Without an interpreter the kernel starts the program in a root that has no libraries.
#[test]
fn the_probe_needs_no_dynamic_linker() {
    const PT_INTERP: u32 = 3;
    let elf = std::fs::read(env!("CARGO_BIN_EXE_wsprobe")).unwrap();
    let u16_at = |at: usize| usize::from(u16::from_le_bytes(elf[at..at + 2].try_into().unwrap()));
    assert_eq!(&elf[..6], b"\x7fELF\x02\x01", "64-bit, little-endian");
    let table = usize::try_from(u64::from_le_bytes(elf[32..40].try_into().unwrap())).unwrap();
    let (entry_size, entries) = (u16_at(54), u16_at(56));
    let types = (0..entries).map(|entry| {
        let at = table + entry * entry_size;
        u32::from_le_bytes(elf[at..at + 4].try_into().unwrap())
    });
    assert!(!types.into_iter().any(|kind| kind == PT_INTERP));
}
