//! MPI ranks: which of the processes that a launcher started this one is.
//!
//! What for: names of results that all ranks of a job write, and the choice of ranks that are traced. What not: what ranks
//! do together.
//!
//! Sources: `ompi_info`'s and mpirun(1) of Open MPI ("Environment variables"), pmi_proxy of MPICH (also Intel MPI), srun(1)
//! ("OUTPUT ENVIRONMENT VARIABLES"), PMIx 4 (`PMIX_RANK`, set for clients).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use facts::Rank;

use crate::exit::Failure;

/// The name that `fathom mpi` gives its job, for launchers that have none.
pub const JOB: &str = "FATHOM_MPI_JOB";

/// The note of a rank whose accesses were not traced by choice.
pub const NOT_TRACED: &str = "no accesses were traced: other ranks were chosen";

/// Variables of a launcher: rank, number of ranks, rank within the node, job.
type Variables = [&'static str; 4];

/// The launchers, the most specific first: under srun, Open MPI sets its own.
const LAUNCHERS: [Variables; 4] = [
    [
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "PMIX_NAMESPACE",
    ],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI_KVS"],
    // A batch script without srun has a task number, too.
    ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_JOB_ID"],
    ["PMIX_RANK", "", "", "PMIX_NAMESPACE"],
];

/// The rank of this process, if a launcher of MPI programs started it. `variable` looks into the environment.
pub fn rank(variable: impl Fn(&str) -> Option<OsString>) -> Option<Rank> {
    let text = |name: &str| variable(name)?.into_string().ok().filter(|text| !text.is_empty());
    let number = |name: &str| text(name)?.parse().ok();
    LAUNCHERS.iter().find_map(|[rank, ranks, local, job]| {
        let is_step = !rank.starts_with("SLURM") || text("SLURM_STEP_ID").is_some();
        let rank = number(rank).filter(|_| is_step)?;
        Some(Rank {
            rank,
            ranks: number(ranks),
            local_rank: number(local),
            job: text(job).or_else(|| text(JOB)),
        })
    })
}

/// A name with `%r` for the rank, `%h` for the host and `%%` for a percent sign.
pub fn named(name: &Path, rank: Option<&Rank>, host: &str) -> Result<PathBuf, Failure> {
    let (mut found, mut bytes) = (Vec::new(), name.as_os_str().as_bytes().iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => match (bytes.next(), rank) {
                (Some(b'r'), Some(rank)) => found.extend(rank.rank.to_string().bytes()),
                (Some(b'r'), None) => {
                    return Err(Failure::usage(
                        "%r in the name of the result: no MPI rank is known here",
                    )
                    .hint("a launcher sets it: mpirun -n 4 fathom run -r job.%r -- ./app"));
                }
                (Some(b'h'), _) => found.extend(host.bytes()),
                (Some(b'%'), _) => found.push(b'%'),
                (other, _) => found.extend(std::iter::once(b'%').chain(other.copied())),
            },
            byte => found.push(*byte),
        }
    }
    Ok(PathBuf::from(OsString::from_vec(found)))
}

/// Ranks by number: `0,4-7`, `all`, `none`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranks(Vec<(u32, u32)>);

impl Ranks {
    /// One alone.
    pub fn only(rank: u32) -> Ranks {
        Ranks(vec![(rank, rank)])
    }

    /// Whether this one is among them.
    pub fn has(&self, rank: u32) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&rank))
    }
}

impl std::fmt::Display for Ranks {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(from, to)| format!("{from}-{to}")).collect();
        out.write_str(if parts.is_empty() { "none" } else { "" })?;
        out.write_str(&parts.join(","))
    }
}

impl std::str::FromStr for Ranks {
    type Err = String;

    fn from_str(text: &str) -> Result<Ranks, String> {
        let one = |part: &str| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let ends = from.trim().parse().ok().zip(to.trim().parse().ok());
            ends.filter(|(from, to)| from <= to)
                .ok_or_else(|| format!("'{part}' is no rank or range of ranks, as in 0,4-7"))
        };
        match text {
            "all" => return Ok(Ranks(vec![(0, u32::MAX)])),
            "none" => return Ok(Ranks(Vec::new())),
            _ => {}
        }
        text.split(',').map(one).collect::<Result<_, _>>().map(Ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<Rank> {
        rank(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn launchers_name_ranks_by_their_variables() {
        let rank = |rank, ranks, local_rank, job: Option<&str>| {
            Some(Rank { rank, ranks, local_rank, job: job.map(str::to_owned) })
        };
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "64"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_ID", "0"),
        ];
        assert_eq!(of(&open_mpi), rank(3, Some(64), Some(1), None));
        assert_eq!(of(&[("PMI_RANK", "7"), ("PMI_SIZE", "8")]), rank(7, Some(8), None, None));
        let slurm = [("SLURM_PROCID", "2"), ("SLURM_STEP_ID", "0"), ("SLURM_JOB_ID", "4711")];
        assert_eq!(of(&slurm), rank(2, None, None, Some("4711")));
        assert_eq!(of(&slurm[..1]), None, "a batch script is no rank");
        assert_eq!(of(&[("PMIX_RANK", "5")]), rank(5, None, None, None));
        assert_eq!(of(&[("PMI_RANK", "1"), (JOB, "a-7")]), rank(1, None, None, Some("a-7")));
        assert_eq!(of(&[("PMI_RANK", "-1"), ("OMPI_COMM_WORLD_RANK", "x")]), None);
    }

    #[test]
    fn names_have_the_rank_and_the_host() {
        let rank = Rank { rank: 12, ranks: None, local_rank: None, job: None };
        let named = |name: &str| named(Path::new(name), Some(&rank), "node7");
        assert_eq!(named("job.%r").unwrap(), Path::new("job.12"));
        assert_eq!(named("%h/100%%.%r%x%").unwrap(), Path::new("node7/100%.12%x%"));
        assert!(super::named(Path::new("job.%r"), None, "node7").is_err());
        assert_eq!(super::named(Path::new("plain"), None, "").unwrap(), Path::new("plain"));
    }

    #[test]
    fn ranks_are_numbers_and_ranges() {
        let ranks: Ranks = "0, 4-7".parse().unwrap();
        assert_eq!((0..9).filter(|rank| ranks.has(*rank)).collect::<Vec<_>>(), [0, 4, 5, 6, 7]);
        for text in ["all", "none", "0,4-7"] {
            let ranks: Ranks = text.parse().unwrap();
            assert_eq!(ranks.to_string().parse::<Ranks>().unwrap(), ranks);
            assert_eq!(ranks.has(5), text != "none");
        }
        for wrong in ["", "a", "3-1", "1,,2", "-1"] {
            assert!(wrong.parse::<Ranks>().is_err(), "{wrong}");
        }
    }
}
