//! What the steps of a scenario travel over, and what it is not for then.

use super::{Population, Scenario};
use crate::{
    claim::Claim,
    conversation::Transport,
    endpoint::Endpoint,
    sequence::{Pattern, Trait},
};

impl Scenario {
    pub(super) fn override_transports(&mut self, transport: Option<Transport>, http: Option<Endpoint>) {
        let only_http = !self.target.endpoint.speak(Transport::GrpcStream);
        for Population { sending, .. } in &mut self.populations {
            sending.transport = transport.or(sending.transport).or(only_http.then_some(Transport::HttpBinary));
        }
        let asks_for_http = self
            .populations
            .iter()
            .any(|population| population.sending.transport().is_http() || population.draws_any(Trait::MixesTransports));
        if let Some(http) = http.filter(|_| asks_for_http && !self.target.endpoint.speak(Transport::Http)) {
            self.target.endpoint.add(http);
        }
    }

    /// The transports over which any step can go: those that an endpoint speaks, but for one that an error of a request ends.
    pub fn transports(&self) -> Vec<Transport> {
        let is_spoken = |by: &Transport| self.target.endpoint.speak(*by) && !by.ends_with_errors();
        Transport::ALL.into_iter().filter(is_spoken).collect()
    }

    /// What says that a population's transport has no endpoint, if one has none.
    pub fn lacks_an_endpoint(&self) -> Option<String> {
        let transport =
            self.populations.iter().map(|its| its.sending.transport()).find(|its| !self.target.endpoint.speak(*its))?;
        let protocol = transport.protocol();
        Some(format!(
            "the transport {transport} needs an endpoint that speaks {protocol}, and {} does not: add one (-u {}://HOST:PORT)",
            self.target.endpoint,
            protocol.scheme()
        ))
    }

    /// A pattern of a file that the transport of the same file cannot do.
    pub(super) fn cannot_be_sent(&self) -> Option<(String, String)> {
        let several = self.populations.len() > 1;
        self.populations.iter().enumerate().find_map(|(index, population)| {
            let pattern = population.left_out().next()?;
            let table = if population.patterns.common.of(pattern) > 0.0 { "common" } else { "rare" };
            let key = format!("patterns.{table}");
            let transport = population.sending.transport();
            Some((
                if several { format!("population[{index}].{key}") } else { key },
                format!("{pattern} needs a stream, and sending.transport is {transport}: leave one of them out"),
            ))
        })
    }

    /// Why the scenario cannot do what it is for if every step travels over this transport, if it cannot.
    pub fn is_not_for(&self, transport: Transport) -> Option<String> {
        let mut over = self.clone();
        over.populations.iter_mut().for_each(|population| population.sending.transport = Some(transport));
        let needs_a_stream = |of: &[Pattern]| {
            let names: Vec<_> = of.iter().filter(|its| its.has(Trait::Streams)).map(|its| its.name()).collect();
            names.join(" and ")
        };
        let population = over.populations.iter().find(|population| population.has_nothing_left());
        if let Some(population) = population {
            let patterns = needs_a_stream(&population.left_out().collect::<Vec<_>>());
            return Some(format!("it is not for {transport}: {patterns} needs a stream (--transport grpc-stream)"));
        }
        let claims = self.claims.unwrap_or_default();
        let is_lost = |claim: &Claim| {
            let is_drawn = |scenario: &Self| claim.patterns().iter().any(|its| scenario.draws(*its).anywhere());
            is_drawn(self) && !is_drawn(&over)
        };
        let (claim, _) = claims.iter().find(|(claim, _)| is_lost(claim))?;
        let drawn: Vec<_> = claim.patterns().iter().copied().filter(|its| self.draws(*its).anywhere()).collect();
        let patterns = needs_a_stream(&drawn);
        Some(format!(
            "it is not for {transport}: it is about {claim}, and {patterns} needs a stream (--transport grpc-stream)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{BUILTIN, Overrides, Source};

    /// What of the suite calls cannot do, and why.
    #[test]
    fn scenarios_about_streams_are_not_for_calls() {
        let why = |name: &str, transport| {
            let builtin = BUILTIN.iter().find(|builtin| builtin.name == name).expect("a scenario");
            let source = Source::from_text(name, builtin.text);
            let scenario = Scenario::resolve(&source, Overrides::default()).expect("a scenario");
            let why = scenario.is_not_for(transport);
            let resolved = Scenario::resolve(&source, Overrides { transport: Some(transport), ..Overrides::default() });
            assert!(resolved.is_ok() || why.is_some(), "{name}");
            why
        };
        for builtin in BUILTIN {
            assert_eq!(why(builtin.name, Transport::GrpcStream), None, "{}", builtin.name);
        }
        let about_streams: Vec<_> = BUILTIN
            .iter()
            .filter(|builtin| builtin.in_suite && why(builtin.name, Transport::Http).is_some())
            .map(|builtin| builtin.name)
            .collect();
        assert_eq!(
            about_streams,
            ["connection-drops", "bad-network", "cancellation", "cancel-restart", "backlog-order"]
        );
        let told = why("connection-drops", Transport::GrpcUnary).expect("half-close is a stream's");
        assert_eq!(
            told,
            "it is not for grpc-unary: it is about half-closed-with-responses-due, and half-close needs a stream \
             (--transport grpc-stream)"
        );
        let told = why("bad-network", Transport::HttpBinary).expect("a population has nothing left");
        assert_eq!(told, "it is not for http-binary: stop-reading needs a stream (--transport grpc-stream)");
    }
}
