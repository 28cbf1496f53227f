//! Which of several processes this one is, as whatever started it says.

use std::num::NonZeroU32;

use workload::share::Share;

workload::table! {
    /// What starts several processes together, and how its processes learn who they are.
    pub enum Launcher: Names {
        /// Somebody who says it on the command line.
        ByHand = "by hand", NONE;
        /// Open MPI. It may itself be started by Slurm, whose variables are then those of its daemons.
        OpenMpi = "Open MPI", Names { rank: "OMPI_COMM_WORLD_RANK", of: "OMPI_COMM_WORLD_SIZE", job: &["PMIX_NAMESPACE"], on_this_node: Some("OMPI_COMM_WORLD_LOCAL_SIZE"), ..NONE };
        /// Anything that speaks PMI-1: MPICH, and Slurm with `--mpi=pmi2`.
        Pmi = "PMI", Names { rank: "PMI_RANK", of: "PMI_SIZE", job: &["SLURM_JOB_ID", "SLURM_STEP_ID"], on_this_node: Some("MPI_LOCALNRANKS"), restarts: Some("SLURM_RESTART_COUNT") };
        /// A step of Slurm.
        Slurm = "Slurm", Names { rank: "SLURM_PROCID", of: "SLURM_STEP_NUM_TASKS", job: &["SLURM_JOB_ID", "SLURM_STEP_ID"], on_this_node: None, restarts: Some("SLURM_RESTART_COUNT") };
        /// An Indexed Job of Kubernetes, whose manifest sets the number of ranks.
        Kubernetes = "Kubernetes", Names { rank: "JOB_COMPLETION_INDEX", of: RANKS_VARIABLE, ..NONE };
    }
}

/// The most ranks of a run.
pub(super) const RANKS_MAX: u32 = 100_000;

/// The variable of the environment that says how many ranks there are, where the launcher does not.
pub(crate) const RANKS_VARIABLE: &str = "SEQUENCE_STRESS_RANKS";

/// The variables of the environment in which a launcher says who a process is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    rank: &'static str,
    of: &'static str,
    /// Which together name the job.
    job: &'static [&'static str],
    /// How many processes are on this node.
    on_this_node: Option<&'static str>,
    /// How often the job was started again.
    restarts: Option<&'static str>,
}

const NONE: Names = Names { rank: "", of: "", job: &[], on_this_node: None, restarts: None };

/// What the command line says of the ranks.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// This process's number.
    pub rank: Option<u32>,
    /// How many there are.
    pub of: Option<NonZeroU32>,
}

/// Which of several processes this one is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number, and how many there are.
    pub share: Share,
    /// What started them.
    pub launcher: Launcher,
    /// The job's name, where it has one.
    pub job: Option<String>,
    /// How often the job was started again, where the launcher says so.
    pub restarts: u32,
    /// Whether all are on this node, as far as the launcher tells.
    pub are_here: bool,
}

impl Place {
    /// What the command line and the environment say; none where this process is alone.
    ///
    /// # Errors
    /// When they contradict themselves, in one line.
    pub fn find(told: &Told, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let launcher = Launcher::ALL.into_iter().find(|launcher| {
            *launcher != Launcher::ByHand
                && [launcher.row().rank, launcher.row().of].iter().all(|name| variable(name).is_some())
        });
        let launcher = if told.rank.is_some() { Launcher::ByHand } else { launcher.unwrap_or(Launcher::ByHand) };
        let names = launcher.row();
        let (rank, of) = match (told.rank, told.of) {
            (Some(rank), Some(of)) => (rank, of),
            (Some(_), None) => {
                return Err(format!("--rank needs the number of ranks: add --of N, or set {RANKS_VARIABLE}"));
            }
            (None, Some(_)) if launcher == Launcher::ByHand => {
                return Err("--of needs the number of this rank: add --rank, from 0 on".to_owned());
            }
            (None, _) if launcher == Launcher::ByHand => return Ok(None),
            (None, told) => {
                let number = |name: &str| {
                    let text = variable(name).unwrap_or_default();
                    text.trim().parse::<u32>().map_err(|_| format!("{name}={text} is no number of {launcher}"))
                };
                let of =
                    NonZeroU32::new(number(names.of)?).ok_or_else(|| format!("{}=0: there is no rank", names.of))?;
                (number(names.rank)?, told.unwrap_or(of))
            }
        };
        if of.get() > RANKS_MAX {
            return Err(format!("{of} ranks are too many: a run has at most {RANKS_MAX}"));
        }
        if rank >= of.get() {
            return Err(format!("rank {rank} of {of}: ranks are numbered from 0 to {}", of.get() - 1));
        }
        let job: Option<Vec<_>> = names.job.iter().map(|name| variable(name)).collect();
        let number = |name: Option<&str>| variable(name?)?.trim().parse::<u32>().ok();
        Ok(Some(Self {
            share: Share { rank, of },
            launcher,
            job: job.filter(|parts| !parts.is_empty()).map(|parts| file_name(&parts.join("."))),
            restarts: number(names.restarts).unwrap_or(0),
            are_here: number(names.on_this_node) == Some(of.get()),
        }))
    }

    /// Whether it is the one that leads.
    pub fn leads(&self) -> bool {
        self.share.rank == 0
    }
}

/// A job's name as a part of a file's name.
fn file_name(job: &str) -> String {
    job.chars().map(|c| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' }).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(rank: Option<u32>, of: Option<u32>, variables: &[(&str, &str)]) -> Result<Option<Place>, String> {
        let told = Told { rank, of: of.and_then(NonZeroU32::new) };
        Place::find(&told, |name| variables.iter().find(|(its, _)| *its == name).map(|(_, value)| (*value).to_owned()))
    }

    fn found(variables: &[(&str, &str)]) -> Option<(u32, u32, Launcher)> {
        let place = find(None, None, variables).expect("no contradiction")?;
        Some((place.share.rank, place.share.of.get(), place.launcher))
    }

    #[test]
    fn each_launcher_says_who_a_process_is() {
        let slurm =
            [("SLURM_PROCID", "3"), ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_JOB_ID", "77"), ("SLURM_STEP_ID", "0")];
        let ompi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(found(&slurm), Some((3, 4, Launcher::Slurm)));
        assert_eq!(found(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), Some((0, 2, Launcher::Pmi)));
        assert_eq!(found(&[&slurm[..], &ompi[..]].concat()), Some((1, 2, Launcher::OpenMpi)));
        assert_eq!(found(&[("JOB_COMPLETION_INDEX", "5"), (RANKS_VARIABLE, "8")]), Some((5, 8, Launcher::Kubernetes)));
        let place = find(None, None, &slurm).expect("no contradiction").expect("a rank");
        assert_eq!((place.job.as_deref(), place.restarts, place.are_here), (Some("77.0"), 0, false));
    }

    #[test]
    fn who_is_not_started_as_one_of_several_is_alone() {
        assert_eq!(found(&[]), None);
        // A script of sbatch has these, and is no step.
        assert_eq!(found(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "77")]), None);
        assert_eq!(found(&[("JOB_COMPLETION_INDEX", "5")]), None);
    }

    #[test]
    fn the_command_line_counts_for_more_than_the_environment() {
        let place = find(Some(1), Some(3), &[("PMI_RANK", "0"), ("PMI_SIZE", "2")]).expect("right").expect("a rank");
        assert_eq!((place.share.rank, place.share.of.get(), place.launcher), (1, 3, Launcher::ByHand));
    }

    #[test]
    fn what_contradicts_itself_is_told() {
        for (rank, of, variables, expected) in [
            (Some(1), None, &[][..], "--of N"),
            (None, Some(4), &[], "--rank"),
            (Some(4), Some(4), &[], "0 to 3"),
            (Some(4), Some(u32::MAX), &[], "at most 100000"),
            (None, None, &[("PMI_RANK", "x"), ("PMI_SIZE", "2")], "PMI_RANK=x"),
            (None, None, &[("PMI_RANK", "0"), ("PMI_SIZE", "0")], "no rank"),
            (None, None, &[("PMI_RANK", "2"), ("PMI_SIZE", "2")], "0 to 1"),
        ] {
            let error = find(rank, of, variables).expect_err(expected);
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
