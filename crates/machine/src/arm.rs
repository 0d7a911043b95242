//! Names for the identification numbers of Arm cores in `/proc/cpuinfo`.
//!
//! Source: MIDR_EL1 implementer and part codes, Arm Architecture Reference Manual; the same tables as
//! `sys-utils/lscpu-arm.c` of util-linux, and https://github.com/ARM-software/data (cpus.json). A number that is not in them is shown as a number.

/// A core design, by the numbers of its MIDR_EL1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ArmCore {
    /// The company.
    pub(crate) implementer: u32,
    /// The company's number of the design.
    pub(crate) part: u32,
}

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

const PARTS: [(u32, u32, &str); 42] = [
    (0x41, 0xd01, "Cortex-A32"),
    (0x41, 0xd02, "Cortex-A34"),
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd04, "Cortex-A35"),
    (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd06, "Cortex-A65"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd09, "Cortex-A73"),
    (0x41, 0xd0a, "Cortex-A75"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),
    (0x41, 0xd0d, "Cortex-A77"),
    (0x41, 0xd0e, "Cortex-A76AE"),
    (0x41, 0xd40, "Neoverse-V1"),
    (0x41, 0xd41, "Cortex-A78"),
    (0x41, 0xd42, "Cortex-A78AE"),
    (0x41, 0xd43, "Cortex-A65AE"),
    (0x41, 0xd44, "Cortex-X1"),
    (0x41, 0xd46, "Cortex-A510"),
    (0x41, 0xd47, "Cortex-A710"),
    (0x41, 0xd48, "Cortex-X2"),
    (0x41, 0xd49, "Neoverse-N2"),
    (0x41, 0xd4a, "Neoverse-E1"),
    (0x41, 0xd4b, "Cortex-A78C"),
    (0x41, 0xd4c, "Cortex-X1C"),
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
    (0x41, 0xd88, "Cortex-A520AE"),
    (0x41, 0xd89, "Cortex-A720AE"),
    (0x41, 0xd8e, "Neoverse-N3"),
    (0x46, 0x001, "A64FX"),
    (0x48, 0xd01, "TaiShan-v110"),
    (0xc0, 0xac3, "Ampere-1"),
];

impl ArmCore {
    /// The company, e.g. `Arm`; the code in hexadecimal when unknown.
    pub(crate) fn implementer_name(self) -> String {
        let known = IMPLEMENTERS.iter().find(|(code, _)| *code == self.implementer);
        known.map_or_else(|| format!("{:#04x}", self.implementer), |(_, name)| (*name).to_owned())
    }

    /// The core, e.g. `Neoverse-N1`; implementer and part when unknown.
    pub(crate) fn name(self) -> String {
        let is_this = |(implementer, part): (u32, u32)| self == ArmCore { implementer, part };
        let known = PARTS.iter().find(|(implementer, part, _)| is_this((*implementer, *part)));
        known.map_or_else(
            || format!("{} part {:#05x}", self.implementer_name(), self.part),
            |(_, _, name)| (*name).to_owned(),
        )
    }
}
