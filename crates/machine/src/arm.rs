//! Names for the identification numbers of Arm cores in `/proc/cpuinfo`.
//!
//! Source: MIDR_EL1 implementer and part codes, Arm Architecture Reference Manual; the same tables as
//! `sys-utils/lscpu-arm.c` of util-linux. A number that is not in them is shown as a number.

const IMPLEMENTERS: [(u32, &str); 12] = [
    (0x41, "Arm"),
    (0x42, "Broadcom"),
    (0x43, "Cavium"),
    (0x46, "Fujitsu"),
    (0x48, "HiSilicon"),
    (0x4e, "NVIDIA"),
    (0x50, "APM"),
    (0x51, "Qualcomm"),
    (0x53, "Samsung"),
    (0x61, "Apple"),
    (0x6d, "Microsoft"),
    (0xc0, "Ampere"),
];

const PARTS: [(u32, u32, &str); 27] = [
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),
    (0x41, 0xd40, "Neoverse-V1"),
    (0x41, 0xd41, "Cortex-A78"),
    (0x41, 0xd44, "Cortex-X1"),
    (0x41, 0xd46, "Cortex-A510"),
    (0x41, 0xd47, "Cortex-A710"),
    (0x41, 0xd48, "Cortex-X2"),
    (0x41, 0xd49, "Neoverse-N2"),
    (0x41, 0xd4d, "Cortex-A715"),
    (0x41, 0xd4e, "Cortex-X3"),
    (0x41, 0xd4f, "Neoverse-V2"),
    (0x41, 0xd80, "Cortex-A520"),
    (0x41, 0xd81, "Cortex-A720"),
    (0x41, 0xd82, "Cortex-X4"),
    (0x41, 0xd83, "Neoverse-V3AE"),
    (0x41, 0xd84, "Neoverse-V3"),
    (0x41, 0xd85, "Cortex-X925"),
    (0x41, 0xd87, "Cortex-A725"),
    (0x41, 0xd8e, "Neoverse-N3"),
    (0x46, 0x001, "A64FX"),
    (0x48, 0xd01, "TaiShan-v110"),
    (0xc0, 0xac3, "Ampere-1"),
];

/// The company, e.g. `Arm`; the code in hexadecimal when unknown.
pub(crate) fn implementer(code: u32) -> String {
    let known = IMPLEMENTERS.iter().find(|(number, _)| *number == code);
    known.map_or_else(|| format!("{code:#04x}"), |(_, name)| (*name).to_owned())
}

/// The core, e.g. `Neoverse-N1`; implementer and part when unknown.
pub(crate) fn part(implementer_code: u32, part_code: u32) -> String {
    let known = PARTS
        .iter()
        .find(|(company, number, _)| (*company, *number) == (implementer_code, part_code));
    known.map_or_else(
        || format!("{} part {part_code:#05x}", implementer(implementer_code)),
        |(_, _, name)| (*name).to_owned(),
    )
}
