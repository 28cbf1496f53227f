//! How ranks find each other: rank 0 listens, and the others learn where.

use std::{
    collections::hash_map::RandomState,
    fs,
    hash::BuildHasher as _,
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout_at},
};

use super::{
    Launcher, Leader, Members, Place,
    link::{FromLeader, FromMember, Hello, VERSION},
};
use crate::run::{allow_ranks, host_name};
use workload::whole_file::write_whole;

/// How often a rank looks for rank 0.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The key in the store of PMI-1.
#[cfg(unix)]
const KEY: &str = "sequence-stress";

/// Where and how ranks meet.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// Where rank 0 listens: `HOST:PORT`. Without a port, or with port 0, any that is free. None where rank 0 decides.
    pub address: Option<String>,
    /// A folder that all ranks see, where nothing else tells them where rank 0 is.
    pub folder: PathBuf,
    /// How long the others are waited for.
    pub limit: Duration,
}

/// Why ranks do not meet, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankError {
    /// What was asked for cannot be.
    WrongInput(String),
    /// Somebody is missing.
    CouldNotMeet(String),
    /// Rank 0 says that this rank cannot take part.
    Refused(String),
}

/// What a rank is from now on.
#[derive(Debug)]
pub enum Joined {
    /// Rank 0, with the others.
    Leads(Members),
    /// Another one, with its connection to rank 0.
    Follows(Leader),
}

/// Where rank 0 is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Whereabouts {
    address: String,
    /// What those know that were told.
    token: String,
}

/// How the others learn where rank 0 is.
#[derive(Clone, Debug)]
enum Way {
    /// Everybody was told.
    Told(String),
    /// Through whatever started them.
    #[cfg(unix)]
    Pmi,
    /// By a file.
    File(PathBuf),
}

impl Way {
    fn of(place: &Place, meeting: &Meeting) -> Result<Self, RankError> {
        let told = meeting.address.as_deref().filter(|address| has_port(address));
        if let Some(address) = told {
            return Ok(Self::Told(address.to_owned()));
        }
        if matches!(place.launcher, Launcher::ByHand | Launcher::Kubernetes) {
            return Err(RankError::WrongInput(format!(
                "ranks that are started {} need the address of rank 0: --rendezvous HOST:PORT, the same for all ranks",
                if place.launcher == Launcher::ByHand { "by hand" } else { "by Kubernetes" }
            )));
        }
        #[cfg(unix)]
        if std::env::var_os("PMI_FD").is_some() {
            return Ok(Self::Pmi);
        }
        let name = format!("rendezvous-{}.json", place.job.as_deref().unwrap_or("ranks"));
        Ok(Self::File(meeting.folder.join(name)))
    }
}

fn has_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port != 0))
}

/// Brings this rank together with the others: rank 0 waits for them, and the others for rank 0.
///
/// # Errors
/// When somebody does not come within the limit, or what was asked for cannot be.
pub async fn join(place: &Place, meeting: &Meeting) -> Result<Joined, RankError> {
    let way = Way::of(place, meeting)?;
    let deadline = Instant::now() + meeting.limit;
    if place.leads() {
        allow_ranks(place.share.of.get()).map_err(RankError::CouldNotMeet)?;
        let (listener, whereabouts) = listen(place, meeting, &way).await?;
        tell(&way, &whereabouts, meeting).await?;
        let members = Members::gather(place, listener, whereabouts.token, deadline, meeting.limit).await;
        if let Way::File(path) = &way {
            // A later run of this name has another.
            let _ = fs::remove_file(path);
        }
        members.map(Joined::Leads)
    } else {
        follow(place, meeting, &way, deadline).await.map(Joined::Follows)
    }
}

async fn listen(place: &Place, meeting: &Meeting, way: &Way) -> Result<(TcpListener, Whereabouts), RankError> {
    let cannot = |host: &str, error: io::Error| {
        RankError::CouldNotMeet(format!(
            "rank 0 cannot listen at {host}: {error}; give an address of this machine (--rendezvous HOST:PORT)"
        ))
    };
    if let Way::Told(address) = way {
        // The name may be one that only others need.
        let port = address.rsplit_once(':').map_or("", |(_, port)| port);
        let listener = match TcpListener::bind(address.as_str()).await {
            Ok(listener) => listener,
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && place.launcher == Launcher::Kubernetes => {
                let any = format!("0.0.0.0:{port}");
                TcpListener::bind(any.as_str()).await.map_err(|error| cannot(&any, error))?
            }
            Err(error) => return Err(cannot(address, error)),
        };
        return Ok((listener, Whereabouts { address: address.clone(), token: String::new() }));
    }
    let host = meeting.address.as_deref().map(|address| address.strip_suffix(":0").unwrap_or(address).to_owned());
    let host = host.unwrap_or_else(|| if place.are_here { Ipv4Addr::LOCALHOST.to_string() } else { own_address() });
    let listener = TcpListener::bind((host.as_str(), 0)).await.map_err(|error| cannot(&host, error))?;
    let port = listener.local_addr().map_err(|error| cannot(&host, error))?.port();
    let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    Ok((listener, Whereabouts { address, token: any_name() }))
}

/// A name that nobody guesses.
pub(crate) fn any_name() -> String {
    // The keys of a hash table, which come from the system.
    let part = || RandomState::new().hash_one(Instant::now().into_std());
    format!("{:016x}{:016x}", part(), part())
}

/// An address of this machine that others reach, as far as its name tells; else that of the loopback.
fn own_address() -> String {
    let of_name = host_name().and_then(|name| (name.as_str(), 0).to_socket_addrs().ok());
    let addresses: Vec<IpAddr> = of_name.into_iter().flatten().map(|address: SocketAddr| address.ip()).collect();
    let outer = addresses.iter().find(|address| !address.is_loopback());
    outer.copied().unwrap_or(Ipv4Addr::LOCALHOST.into()).to_string()
}

/// Tells the others where rank 0 is.
async fn tell(way: &Way, whereabouts: &Whereabouts, meeting: &Meeting) -> Result<(), RankError> {
    match way {
        Way::Told(_) => Ok(()),
        #[cfg(unix)]
        Way::Pmi => {
            let (value, limit) = (format!("{}/{}", whereabouts.address, whereabouts.token), meeting.limit);
            blocking(move || {
                let mut pmi = inherited::pmi(limit)?;
                pmi.put(KEY, &value)?;
                pmi.barrier()?;
                pmi.finalize()
            })
            .await
        }
        Way::File(path) => {
            let text = serde_json::to_vec(whereabouts).expect("its keys are texts");
            let written =
                fs::create_dir_all(&meeting.folder).and_then(|()| write_whole(path, |file| file.write_all(&text)));
            written.map_err(|error| {
                RankError::WrongInput(format!(
                    "rank 0 cannot write {}: {error}; name a folder that all ranks see (--results DIR)",
                    path.display()
                ))
            })
        }
    }
}

/// Finds rank 0 and is taken in.
async fn follow(place: &Place, meeting: &Meeting, way: &Way, deadline: Instant) -> Result<Leader, RankError> {
    let told = match way {
        Way::Told(address) => Some(Whereabouts { address: address.clone(), token: String::new() }),
        #[cfg(unix)]
        Way::Pmi => {
            let limit = meeting.limit;
            let value = blocking(move || {
                let mut pmi = inherited::pmi(limit)?;
                pmi.barrier()?;
                let value = pmi.get(KEY)?;
                pmi.finalize()?;
                Ok(value)
            });
            let value = value.await?;
            let (address, token) = value.split_once('/').unwrap_or((&value, ""));
            Some(Whereabouts { address: address.to_owned(), token: token.to_owned() })
        }
        Way::File(_) => None,
    };
    loop {
        let whereabouts = match (&told, way) {
            (Some(told), _) => Ok(told.clone()),
            (None, Way::File(path)) => read(path),
            (None, _) => Err("nobody said where it is".to_owned()),
        };
        let why = match whereabouts {
            Ok(whereabouts) => match timeout_at(deadline, greet(place, &whereabouts)).await {
                Ok(Ok(leader)) => return Ok(leader),
                Ok(Err(Greeted::Refused(why))) => return Err(RankError::Refused(why)),
                Ok(Err(Greeted::Nobody(why))) => format!("{}: {why}", whereabouts.address),
                Err(_) => format!("{} does not answer", whereabouts.address),
            },
            Err(why) => why,
        };
        if Instant::now() >= deadline {
            return Err(RankError::CouldNotMeet(format!(
                "rank {} found no rank 0 within {} s ({why}): start all ranks together, or wait longer (--rendezvous-limit)",
                place.share.rank,
                meeting.limit.as_secs_f64()
            )));
        }
        sleep(LOOK_AGAIN).await;
    }
}

fn read(path: &Path) -> Result<Whereabouts, String> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
}

enum Greeted {
    /// It is there, and says no.
    Refused(String),
    /// It is not there so far.
    Nobody(String),
}

async fn greet(place: &Place, whereabouts: &Whereabouts) -> Result<Leader, Greeted> {
    let nobody = |error: io::Error| Greeted::Nobody(error.to_string());
    let connection = TcpStream::connect(whereabouts.address.as_str()).await.map_err(nobody)?;
    let mut leader = Leader::over(connection, place.share).map_err(nobody)?;
    let hello = Hello {
        version: VERSION.to_owned(),
        token: whereabouts.token.clone(),
        share: place.share,
        host: host_name(),
        clock: super::clock::identity(),
    };
    leader.outbox().say(&FromMember::Hello(hello)).await;
    match leader.next().await {
        Ok(FromLeader::Welcome) => Ok(leader),
        Ok(FromLeader::Refused { why }) => Err(Greeted::Refused(why)),
        Ok(_) => Err(Greeted::Nobody("it is no rank 0".to_owned())),
        Err(why) => Err(Greeted::Nobody(why)),
    }
}

#[cfg(unix)]
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, RankError> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()));
    done.map_err(|why| {
        RankError::CouldNotMeet(format!(
            "the ranks could not meet through PMI ({why}): start all ranks together, or give the address of rank 0 (--rendezvous HOST:PORT)"
        ))
    })
}

#[cfg(unix)]
mod inherited {
    use std::{env, time::Duration};

    use command_fds::inherited::take_fd_ownership;

    use super::super::pmi::Pmi;

    /// The launcher, over the socket that this process inherited.
    pub(super) fn pmi(limit: Duration) -> Result<Pmi, String> {
        let number = env::var("PMI_FD").map_err(|error| format!("PMI_FD: {error}"))?;
        let number = number.trim().parse().map_err(|_| format!("PMI_FD={number} is no number"))?;
        let socket = take_fd_ownership(number).map_err(|error| format!("PMI_FD={number}: {error}"))?;
        Pmi::over(socket, limit)
    }
}

#[cfg(test)]
mod tests;
