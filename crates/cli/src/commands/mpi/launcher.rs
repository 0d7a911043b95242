//! The launcher of an MPI job: the one that fits the library that the program was built with.
//!
//! What for: two libraries side by side (Debian's alternatives). A program that a launcher of the other library starts runs N times, each
//! time as the only rank of a job of its own. What not: starting it (`mpi`).
//!
//! Sources: names of libraries: Open MPI 1.10 to 5 (`libmpi.so.12` is MPICH's ABI, https://www.mpich.org/abi/), Debian's alternatives of
//! `mpirun`; texts of `--version`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::exit::{CANNOT_MEASURE, Failure};

/// Who made a launcher, or the library that a program was built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maker {
    OpenMpi,
    /// And what has its process manager, as Intel MPI.
    Mpich,
    Slurm,
}

impl Maker {
    const fn name(self) -> &'static str {
        match self {
            Maker::OpenMpi => "Open MPI",
            Maker::Mpich => "MPICH",
            Maker::Slurm => "Slurm",
        }
    }

    /// Its launchers, those that are surely its own first.
    const fn launchers(self) -> &'static [&'static str] {
        match self {
            Maker::OpenMpi => &["mpirun.openmpi", "mpirun", "mpiexec"],
            Maker::Mpich => &["mpirun.mpich", "mpiexec.hydra", "mpirun", "mpiexec"],
            Maker::Slurm => &["srun"],
        }
    }
}

/// A launcher and the user's arguments for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launcher {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

impl Launcher {
    /// The named one, if it fits the program; else the one that fits best.
    pub fn choose(named: Option<&str>, program: &Path) -> Result<Launcher, Failure> {
        let built_with = built_with(program);
        if let Some(named) = named {
            let mut words = named.split_whitespace();
            let name = words.next().unwrap_or_default();
            let found = in_path(name)
                .ok_or_else(|| Failure::usage(format!("no launcher '{name}' is in PATH")))?;
            let maker = maker(&found);
            if let Some(why) = misfit(name, maker, built_with) {
                return Err(Failure::usage(why));
            }
            return Ok(Launcher { program: found, arguments: words.map(OsString::from).collect() });
        }
        let in_allocation = std::env::var_os("SLURM_JOB_ID").is_some();
        let order: &[Maker] = match built_with {
            Some(maker) if in_allocation => &[maker, Maker::Slurm],
            Some(maker) => &[maker],
            None if in_allocation => &[Maker::Slurm, Maker::OpenMpi, Maker::Mpich],
            None => &[Maker::OpenMpi, Maker::Mpich],
        };
        let fits = |maker: &Maker| {
            let found = maker.launchers().iter().filter_map(|name| in_path(name));
            found.into_iter().find(|path| self::maker(path) == Some(*maker))
        };
        let found = order.iter().find_map(fits).ok_or_else(|| {
            let what = built_with.map_or("MPI".to_owned(), |maker| maker.name().to_owned());
            Failure::new(CANNOT_MEASURE, anyhow::anyhow!("no launcher of {what} is in PATH"))
                .hint("name one: --launcher 'srun -N 2'; or install mpirun (Debian: openmpi-bin or mpich)")
        })?;
        Ok(Launcher { program: found, arguments: Vec::new() })
    }
}

/// Why a launcher cannot start a program built with another maker's library. Slurm starts all.
fn misfit(name: &str, launcher: Option<Maker>, program: Option<Maker>) -> Option<String> {
    let (launcher, program) = launcher.filter(|maker| *maker != Maker::Slurm).zip(program)?;
    (launcher != program).then(|| {
        format!(
            "{name} is of {}, and the program was built with {}: each rank would be the only one of a job of its own",
            launcher.name(),
            program.name()
        )
    })
}

/// The library that a program names. A script, and one that loads it later, names none.
fn built_with(program: &Path) -> Option<Maker> {
    let names = |beginnings: &[&[u8]]| {
        let is_it = |name: &[u8]| beginnings.iter().any(|beginning| name.starts_with(beginning));
        collect::preload::names_library(program, is_it)
    };
    match () {
        () if names(&[b"libmpich", b"libmpifort.so", b"libmpi.so.12"]) => Some(Maker::Mpich),
        () if names(&[b"libmpi.so.", b"libmpi_mpifh", b"libmpi_usempi"]) => Some(Maker::OpenMpi),
        () => None,
    }
}

/// Whose a launcher is. A wrapper says so by what it starts.
fn maker(launcher: &Path) -> Option<Maker> {
    let name = launcher.file_name()?.to_string_lossy();
    if name.starts_with("srun") {
        return Some(Maker::Slurm);
    }
    let said = Command::new(launcher).arg("--version").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    match () {
        () if has(&["Open MPI", "OpenRTE", "PRRTE"]) => Some(Maker::OpenMpi),
        () if has(&["HYDRA", "Intel(R) MPI"]) => Some(Maker::Mpich),
        () => None,
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|directory| directory.join(name));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_of_another_library_is_refused() {
        let of = |launcher, program| misfit("mpirun", launcher, program);
        let why = of(Some(Maker::OpenMpi), Some(Maker::Mpich)).expect("a reason");
        assert!(why.starts_with("mpirun is of Open MPI, and the program was built with MPICH"));
        assert_eq!(of(Some(Maker::Mpich), Some(Maker::Mpich)), None);
        assert_eq!(of(Some(Maker::Slurm), Some(Maker::Mpich)), None);
        assert_eq!(of(None, Some(Maker::Mpich)), None);
        assert_eq!(of(Some(Maker::OpenMpi), None), None);
    }
}
