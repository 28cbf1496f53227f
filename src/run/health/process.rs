//! The server's process: what it and its descendants take, and whether it is a server.
//!
//! A server may have its models in processes of its own, such as the stubs of Triton's Python backend.

/// What a server takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Its memory, in bytes.
    pub(super) bytes: u64,
    /// The CPU time of its processes since they began, user and system, in µs; none where that is not known.
    pub(super) cpu_us: Option<u64>,
}

/// The processes of a model's instances: the stubs of Triton's Python backend, descendants of the server's process.
#[derive(Clone, Debug)]
pub(in super::super) struct Stubs {
    pub(in super::super) server: u32,
    pub(in super::super) model: String,
}

/// The program of a stub; its first argument is the model's file.
#[cfg(target_os = "linux")]
const STUB: &str = "triton_python_backend_stub";

#[cfg(target_os = "linux")]
mod system {
    use std::{collections::BTreeSet, path::Path};

    use nix::{
        errno::Errno,
        sys::signal::{Signal, kill},
        unistd::Pid,
    };

    use procfs::{
        ProcError, ProcResult,
        net::TcpState,
        process::{FDTarget, Process, Stat, Status, all_processes},
    };

    use super::{STUB, Stubs, Taken};
    use workload::endpoint::Endpoint;

    /// What the process of this ID and its descendants take, or in one line why that cannot be read. Memory that they share, such as that
    /// in which Triton's Python stubs get tensors, is counted once: that of the descendants is what each has alone.
    pub(in super::super) fn taken(pid: u32) -> Result<Taken, String> {
        let (server, stat) = of(pid)?;
        let status = server.status().map_err(|error| ended(pid, &error))?;
        let mut ticks = ticks(&stat);
        let mut kilobytes = status.vmrss.ok_or_else(|| format!("process {pid} ({}) has ended", stat.comm))?;
        for (descendant, stat) in descendants(stat.pid) {
            ticks += self::ticks(&stat);
            // One that has ended since takes nothing.
            kilobytes += descendant.status().ok().and_then(|Status { rssanon, .. }| rssanon).unwrap_or(0);
        }
        let cpu_us = Some(ticks * 1_000_000 / procfs::ticks_per_second().max(1));
        Ok(Taken { bytes: kilobytes * 1024, cpu_us })
    }

    /// Says in one line why the process of this ID is not the server at these endpoints, if that is certain.
    pub(in super::super) fn check(pid: u32, endpoints: &[Endpoint]) -> Result<(), String> {
        let (server, stat) = of(pid)?;
        let name = format!("process {pid} ({})", stat.comm);
        // What the system does not let one see accuses nobody.
        let Ok(ports) = listens_on(&server) else { return Ok(()) };
        if ports.is_empty() {
            return Err(format!("{name} listens on no TCP port, so it is no server"));
        }
        let local: Vec<_> = endpoints.iter().filter(|endpoint| endpoint.is_loopback()).collect();
        let is_another = !local.is_empty()
            && local.len() == endpoints.len()
            && has_our_network(&server)
            && !local.iter().any(|endpoint| ports.contains(&endpoint.port()));
        if is_another {
            let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
            let endpoint = local[0].address();
            return Err(format!("{name} is not the server at {endpoint}: it listens on port {}", ports.join(", ")));
        }
        Ok(())
    }

    impl Stubs {
        /// The IDs of those that run, or in one line why they cannot be read.
        pub(in super::super::super) fn pids(&self) -> Result<Vec<i32>, String> {
            let (server, _) = of(self.server)?;
            let its = descendants(server.pid()).into_iter();
            // One that has ended has no command line any more.
            let is_stub = |process: &Process| {
                let words = process.cmdline().unwrap_or_default();
                let of_model = |file: &String| Path::new(file).iter().any(|part| part == self.model.as_str());
                words.first().is_some_and(|program| Path::new(program).ends_with(STUB))
                    && words.get(1).is_some_and(of_model)
            };
            let mut pids: Vec<_> =
                its.filter(|(process, _)| is_stub(process)).map(|(process, _)| process.pid()).collect();
            pids.sort_unstable();
            Ok(pids)
        }

        /// Kills the first of them, or says in one line why that cannot be done.
        pub(in super::super::super) fn kill_first(&self) -> Result<(), String> {
            let first = self.pids()?.first().copied();
            let pid = first.ok_or_else(|| format!("model '{}' has no stub any more that can be killed", self.model))?;
            match kill(Pid::from_raw(pid), Signal::SIGKILL) {
                Ok(()) | Err(Errno::ESRCH) => Ok(()),
                Err(error) => {
                    Err(format!("process {pid}, a stub of model '{}', cannot be killed: {error}", self.model))
                }
            }
        }
    }

    fn of(pid: u32) -> Result<(Process, Stat), String> {
        let number = i32::try_from(pid).map_err(|_| format!("there is no process {pid}"))?;
        let server = Process::new(number).map_err(|error| ended(pid, &error))?;
        let stat = server.stat().map_err(|error| ended(pid, &error))?;
        Ok((server, stat))
    }

    fn ended(pid: u32, error: &ProcError) -> String {
        match error {
            ProcError::NotFound(_) => format!("there is no process {pid}"),
            _ => format!("process {pid} cannot be looked at: {error}"),
        }
    }

    /// CPU time, with that of children that have ended.
    fn ticks(stat: &Stat) -> u64 {
        let of_children = u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
        stat.utime + stat.stime + of_children
    }

    /// The processes whose parent is this one, and theirs.
    fn descendants(pid: i32) -> Vec<(Process, Stat)> {
        let all = all_processes().into_iter().flatten().flatten();
        let mut others: Vec<_> = all.filter_map(|process| process.stat().ok().map(|stat| (process, stat))).collect();
        let (mut family, mut found) = (BTreeSet::from([pid]), Vec::new());
        loop {
            let before = found.len();
            found.extend(others.extract_if(.., |(_, stat)| family.contains(&stat.ppid) && stat.pid != pid));
            if found.len() == before {
                return found;
            }
            family.extend(found[before..].iter().map(|(_, stat)| stat.pid));
        }
    }

    /// The TCP ports that a process or a descendant listens on. The network may be another than ours, as in a container.
    fn listens_on(server: &Process) -> ProcResult<BTreeSet<u16>> {
        // A descendant that has ended since listens on none.
        let of_descendants = descendants(server.pid()).into_iter().flat_map(|(process, _)| own_ports(&process));
        Ok(own_ports(server)?.into_iter().chain(of_descendants.flatten()).collect())
    }

    /// The TCP ports that a process itself listens on.
    fn own_ports(process: &Process) -> ProcResult<Vec<u16>> {
        let files = process.fd()?.flatten().map(|file| file.target);
        let sockets = files.filter_map(|target| if let FDTarget::Socket(inode) = target { Some(inode) } else { None });
        let sockets: BTreeSet<_> = sockets.collect();
        // A system may have one version of the protocol alone.
        let listening = process.tcp()?.into_iter().chain(process.tcp6().into_iter().flatten());
        let its = listening.filter(|entry| entry.state == TcpState::Listen && sockets.contains(&entry.inode));
        Ok(its.map(|entry| entry.local_address.port()).collect())
    }

    /// Whether it certainly has the network that this process has.
    fn has_our_network(server: &Process) -> bool {
        let network = |process: &Process| {
            let all = process.namespaces().ok()?.0;
            all.into_values().find(|namespace| namespace.ns_type == "net").map(|namespace| namespace.identifier)
        };
        let ours = Process::myself().ok().and_then(|own| network(&own));
        ours.is_some() && ours == network(server)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::{
            net::TcpListener,
            process::{Child, Command, Stdio, id},
        };

        /// A process that does nothing until it is killed.
        struct Idle(Child);

        impl Idle {
            fn start() -> Self {
                Self(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat is there"))
            }
        }

        impl Drop for Idle {
            fn drop(&mut self) {
                let _ = self.0.kill();
                let _ = self.0.wait();
            }
        }

        fn endpoints(texts: &[&str]) -> Vec<Endpoint> {
            texts.iter().map(|text| text.parse().expect("an endpoint")).collect()
        }

        #[test]
        fn a_process_takes_memory_together_with_its_descendants() {
            let own = Process::myself().and_then(|own| own.status()).expect("it runs").vmrss.expect("it has memory");
            let idle = Idle::start();
            assert!(descendants(Process::myself().expect("it runs").pid()).iter().any(|(_, stat)| stat.comm == "cat"));
            let taken = taken(id()).expect("it runs");
            assert!(taken.bytes > own * 1024 / 2 && taken.cpu_us.is_some(), "{taken:?}");
            drop(idle);
            assert!(super::taken(u32::MAX).is_err_and(|why| why == "there is no process 4294967295"));
        }

        /// A process that is called as a stub of this model is, and does nothing until it is killed.
        fn stub(folder: &Path, model: &str) -> Idle {
            let version = folder.join(model).join("1");
            std::fs::create_dir_all(&version).expect("a folder");
            std::fs::write(version.join("model.py"), "").expect("a file");
            let program = folder.join(STUB);
            if !program.exists() {
                std::os::unix::fs::symlink("/bin/cat", &program).expect("a link");
            }
            let mut command = Command::new(program);
            command.arg(version.join("model.py")).arg("-").stdin(Stdio::piped()).stdout(Stdio::null());
            Idle(command.spawn().expect("cat is there"))
        }

        #[test]
        fn the_stubs_of_a_model_are_killed_and_no_other_process() {
            let folder = tempfile::tempdir().expect("a folder");
            let (mut one, mut other, mut idle) =
                (stub(folder.path(), "one"), stub(folder.path(), "other"), Idle::start());
            let stubs = Stubs { server: id(), model: "one".to_owned() };
            let first = i32::try_from(one.0.id()).expect("a process ID");
            assert_eq!(stubs.pids(), Ok(vec![first]));
            assert_eq!(stubs.kill_first(), Ok(()));
            assert!(!one.0.wait().expect("it has ended").success());
            assert_eq!(stubs.pids(), Ok(Vec::new()));
            let why = stubs.kill_first().expect_err("there is none");
            assert_eq!(why, "model 'one' has no stub any more that can be killed");
            for lives in [&mut other, &mut idle] {
                assert!(lives.0.try_wait().expect("a child").is_none());
            }
        }

        #[test]
        fn a_server_listens_on_the_endpoints_port() {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let port = listener.local_addr().expect("it is bound").port();
            let here = format!("127.0.0.1:{port}");
            assert_eq!(check(id(), &endpoints(&[&here])), Ok(()));
            assert_eq!(check(id(), &endpoints(&[&format!("[::1]:{port}"), "localhost:1"])), Ok(()));
            // Of what stands elsewhere it may be the server behind a balancer.
            assert_eq!(check(id(), &endpoints(&["example.org:1"])), Ok(()));
            let why = check(id(), &endpoints(&["localhost:1"])).expect_err("another server");
            assert!(why.contains("is not the server at localhost:1") && why.contains(&port.to_string()), "{why}");
        }

        #[test]
        fn what_listens_nowhere_is_no_server() {
            let idle = Idle::start();
            let why = check(idle.0.id(), &endpoints(&["localhost:8001"])).expect_err("no server");
            assert_eq!(why, format!("process {} (cat) listens on no TCP port, so it is no server", idle.0.id()));
        }
    }
}

/// A system that does not tell what other processes take.
#[cfg(not(target_os = "linux"))]
mod system {
    use super::Taken;
    use workload::endpoint::Endpoint;

    pub(in super::super) fn taken(pid: u32) -> Result<Taken, String> {
        Err(format!("process {pid} cannot be looked at on this system: Linux alone tells what a process takes"))
    }

    impl super::Stubs {
        pub(in super::super::super) fn pids(&self) -> Result<Vec<i32>, String> {
            taken(self.server).map(|_| Vec::new())
        }

        pub(in super::super::super) fn kill_first(&self) -> Result<(), String> {
            taken(self.server).map(drop)
        }
    }

    pub(in super::super) fn check(pid: u32, _endpoints: &[Endpoint]) -> Result<(), String> {
        taken(pid).map(drop)
    }
}

pub(super) use self::system::{check, taken};
