//! Several servers that serve the same model, with or without a load balancer before them.

use super::{Scenario, Target};
use crate::{
    endpoint::{Endpoint, Endpoints},
    event::ServerName,
    header::HeaderName,
};

/// More servers are a slip of the finger.
const REPLICAS_MAX: usize = 100;

/// What the command line says of them in place of the file.
#[derive(Clone, Debug, Default)]
pub struct ReplicaOverrides {
    /// In place of `target.replicas`.
    pub replicas: Option<Endpoints>,
    /// In place of `target.sequence_header`.
    pub sequence_header: Option<HeaderName>,
    /// In place of `target.server_header`.
    pub server_header: Option<HeaderName>,
}

impl Target {
    /// Puts what the command line says in place of what the file does. Where it names servers and no endpoint, the load goes to the
    /// servers.
    pub fn override_replicas(&mut self, overrides: ReplicaOverrides, endpoint: Option<Endpoints>) {
        let ReplicaOverrides { replicas, sequence_header, server_header } = overrides;
        if let Some(endpoint) = endpoint.or_else(|| replicas.clone()) {
            self.endpoint = endpoint;
        }
        self.replicas = replicas.or(self.replicas.take());
        self.sequence_header = sequence_header.or(self.sequence_header.take());
        self.server_header = server_header.or(self.server_header.take());
    }

    /// The servers that the endpoint leads to, where they are several.
    pub fn servers(&self) -> &[Endpoint] {
        self.replicas.as_ref().map_or(&[], Endpoints::all)
    }

    /// Whether requests may go to several servers.
    pub fn has_several_servers(&self) -> bool {
        self.servers().len() > 1 || self.server_header.is_some()
    }

    /// How many servers may answer a step, where they are several and the endpoint does not tell which one did, so that a header has to;
    /// nought where their number is not known.
    pub fn untold_servers(&self) -> Option<usize> {
        let is_told = self.endpoint.all().iter().all(|its| self.servers().contains(its));
        Some(self.servers().len()).filter(|_| self.has_several_servers() && !is_told)
    }

    /// The name of the server at an endpoint, where it is one of several.
    pub fn server_at(&self, endpoint: &Endpoint) -> Option<ServerName> {
        self.servers().contains(endpoint).then(|| ServerName::new(&endpoint.to_string()))
    }

    pub(super) fn check_replicas(&self, does_to_server: bool) -> Result<(), (String, String)> {
        let at = |key: &str, problem: String| Err((key.to_owned(), problem));
        let servers = self.servers();
        if let Some((_, twice)) =
            servers.iter().enumerate().find(|(index, server)| servers[..*index].iter().any(|its| its.is_at(server)))
        {
            return at("target.replicas", format!("{twice} is there twice: name each server once"));
        }
        if servers.len() > REPLICAS_MAX {
            return at("target.replicas", format!("{} servers are more than {REPLICAS_MAX}", servers.len()));
        }
        if servers.len() > 1 && does_to_server {
            let problem = "a phase restarts the server or reloads the model, which is for one server: leave the replicas out, or \
                           take another scenario";
            return at("target.replicas", problem.to_owned());
        }
        let twice = self
            .headers
            .iter()
            .find(|header| self.sequence_header.as_ref().is_some_and(|its| its.as_str() == header.name()));
        if let Some(header) = twice {
            return at("target.sequence_header", format!("'{}' is one of target.headers (-H), too", header.name()));
        }
        Ok(())
    }
}

impl Scenario {
    /// The same for each server alone; it alone where there is one.
    pub fn of_each_server(&self) -> Vec<Self> {
        let alone = |endpoint: &Endpoint| {
            let mut scenario = self.clone();
            scenario.target.endpoint = endpoint.clone().into();
            scenario.target.replicas = None;
            scenario.target.server_header = None;
            scenario
        };
        match self.target.servers() {
            [] => vec![self.clone()],
            servers => servers.iter().map(alone).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Overrides, Source};

    fn resolved(text: &str, overrides: Overrides) -> Result<Scenario, String> {
        Scenario::resolve(&Source::from_text("test", text), overrides).map_err(|error| error.to_string())
    }

    fn given(endpoint: Option<&str>, replicas: &str) -> Overrides {
        let endpoints = |text: &str| text.parse::<Endpoints>().expect("endpoints");
        let replicas = ReplicaOverrides { replicas: Some(endpoints(replicas)), ..ReplicaOverrides::default() };
        Overrides { endpoint: endpoint.map(endpoints), replicas, ..Overrides::default() }
    }

    #[test]
    fn servers_without_an_endpoint_before_them_get_the_load_themselves() {
        for direct in [
            resolved("target.replicas = ['a:1', 'b:1']", Overrides::default()),
            resolved("target.endpoint = 'z:9'", given(None, "a:1,b:1")),
        ] {
            let direct = direct.expect("a scenario").target;
            assert_eq!(direct.endpoint.to_string(), "a:1, b:1");
            let at_b = direct.server_at(&"b:1".parse().expect("an endpoint"));
            assert_eq!(at_b, Some(ServerName::new("b:1")));
        }
        let through = resolved("", given(Some("balancer:80"), "a:1,b:1")).expect("a scenario");
        assert_eq!((through.target.endpoint.to_string().as_str(), through.target.servers().len()), ("balancer:80", 2));
        assert_eq!(through.target.server_at(&"balancer:80".parse().expect("an endpoint")), None);
        let alone: Vec<_> = through.of_each_server().iter().map(|its| its.target.endpoint.to_string()).collect();
        assert_eq!(alone, ["a:1", "b:1"]);
        let one = resolved("", Overrides::default()).expect("a scenario");
        assert_eq!((one.of_each_server().len(), one.target.has_several_servers()), (1, false));
    }

    #[test]
    fn what_cannot_be_is_rejected_with_the_reason() {
        for (text, reason) in [
            ("target.replicas = ['a:1', 'b:1', 'a:1']", "a:1 is there twice"),
            ("target.replicas = ['a:1', 'http://a:1']", "http://a:1 is there twice"),
            ("target.replicas = []", "the list of endpoints is empty"),
            (
                "target.replicas = ['a:1', 'b:1']\nphase = [{ name = 'p', server = 'restart' }]",
                "which is for one server",
            ),
            ("target.sequence_header = 'x-id'\ntarget.headers = ['X-Id: 7']", "'x-id' is one of target.headers"),
            ("target.sequence_header = 'grpc-timeout'", "belongs to the protocol"),
            ("target.server_header = 'x y'", "'x y' is not the name of a header"),
        ] {
            let error = resolved(text, Overrides::default()).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
