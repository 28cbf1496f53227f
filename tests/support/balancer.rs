//! A load balancer in front of two servers: `HAProxy` or nginx, with a configuration of `examples/balancers`.

#![allow(unreachable_pub, dead_code, reason = "each test file uses its part")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/balancers");
/// Where the configurations have the balancer, over gRPC and over HTTP, and the two servers.
const BALANCER: [&str; 2] = ["127.0.0.1:9001", "127.0.0.1:9000"];
const SERVERS: [[&str; 2]; 2] = [["127.0.0.1:8001", "127.0.0.1:8000"], ["127.0.0.1:8101", "127.0.0.1:8100"]];
/// How often a balancer is started: somebody else may take a port that was free.
const TRIES: u32 = 5;

/// A server behind a balancer: where it speaks gRPC and HTTP.
pub type Addresses = [SocketAddr; 2];

/// A running balancer; it ends when it is dropped.
pub struct Balancer {
    process: Child,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    /// Its configuration, and what else it writes.
    _folder: TempDir,
}

impl Balancer {
    /// The balancer of this configuration in front of these servers, which accepts connections. `more` is put into the file by text.
    pub fn start(configuration: &str, servers: [Addresses; 2], more: &[(&str, &str)]) -> Self {
        let path = Path::new(FOLDER).join(configuration);
        let mut text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (old, new) in more {
            assert!(text.contains(old), "{configuration} has no '{old}'");
            text = text.replace(old, new);
        }
        for (names, addresses) in SERVERS.iter().zip(servers) {
            for (name, address) in names.iter().zip(addresses) {
                text = text.replace(name, &address.to_string());
            }
        }
        let mut said = String::new();
        for _ in 0..TRIES {
            match Self::try_to_start(configuration, &text) {
                Ok(balancer) => return balancer,
                Err(why) => said = why,
            }
        }
        panic!("{configuration}: {said}");
    }

    fn try_to_start(configuration: &str, text: &str) -> Result<Self, String> {
        let folder = TempDir::new().expect("a folder");
        let [grpc, http] = free_ports();
        let text = text.replace(BALANCER[0], &grpc.to_string()).replace(BALANCER[1], &http.to_string());
        let is_nginx = configuration.starts_with("nginx");
        // The system's folders are for the system's nginx.
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let folders = folders.map(|name| format!("    {name}_temp_path {};\n", folder.path().join(name).display()));
        let text = text.replace("http {\n", &format!("http {{\n{}", folders.concat()));
        let file = folder.path().join(configuration);
        fs::write(&file, text).expect("a file");
        let (mut command, ready) = if is_nginx { nginx(&file, folder.path()) } else { haproxy(&file) };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut said = String::new();
        loop {
            let before = said.len();
            if lines.read_line(&mut said).unwrap_or(0) == 0 {
                let _ = process.wait();
                return Err(said);
            }
            if said[before..].contains(ready) {
                break;
            }
        }
        // What it goes on to say nobody reads, and it does not wait for that.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Ok(Self { process, grpc, http, _folder: folder })
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        // Its children end with it, when it is told in good order.
        let id = i32::try_from(self.process.id()).expect("process IDs are so small");
        let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

fn haproxy(file: &Path) -> (Command, &'static str) {
    let mut command = Command::new("haproxy");
    command.args(["-W", "-db", "-f"]).arg(file);
    (command, "Loading success")
}

fn nginx(file: &Path, folder: &Path) -> (Command, &'static str) {
    let mut command = Command::new("nginx");
    let own = format!("pid {}; error_log stderr notice;", folder.join("pid").display());
    command.arg("-p").arg(folder).args(["-e", "stderr", "-g", &own, "-c"]).arg(file);
    (command, "start worker process ")
}

/// Two ports that are free just now.
fn free_ports() -> [SocketAddr; 2] {
    let taken = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    taken.map(|listener| listener.local_addr().expect("an address"))
}
