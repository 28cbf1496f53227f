//! What only a request for an inference tells, before the run sends any.

use std::collections::BTreeSet;

use super::{aside::OwnStream, slots::free_ids};
use crate::preflight::{Note, Part, Preflight, Wanted};
use wire::transport::{Access, Client, Link, Message};
use workload::{
    conversation::Transport,
    model::ToldIds,
    scenario::{Population, Scenario},
    sequence::{CorrelationId, IdForm, Pattern, RequestId, Step, Trait, WireId},
};

impl Preflight {
    /// Finds out whether calls for inferences are let in, and whether texts are taken as correlation IDs, where the run needs that. An error
    /// says in one line why the scenario cannot be run there.
    pub(crate) async fn probe(&mut self, scenario: &Scenario, access: &Access) -> Result<(), String> {
        let over = transports(scenario);
        for by in over.into_iter().filter(|by| !by.is_stream()) {
            let endpoints = &scenario.target.endpoint;
            let endpoint = endpoints.of(by.protocol(), 0);
            let Some(endpoint) = endpoint else { continue };
            let rejected = |error| format!("no inference can be asked for over {by}, at {endpoint}: {error}");
            let client = Client::new(endpoint, access, scenario.limits.connect_ms.duration()).map_err(rejected)?;
            let model = &scenario.target.model;
            client.of_version(model, self.model.asked_version).infers(model).await.map_err(rejected)?;
        }
        // Behind the correlation IDs of the run, like those of the looks after it.
        let (Some(id), true) = (free_ids(scenario, 0, 1), scenario.id_forms().any(IdForm::is_text)) else {
            return Ok(());
        };
        let mut are_taken = true;
        for (by, form) in texts(scenario, self.looks_go_over(scenario)) {
            are_taken &= self.takes_texts(scenario, access, by, (CorrelationId(id), form)).await?;
        }
        if are_taken {
            self.parts.push(Part::of(Wanted::TextIds, None));
        }
        Ok(())
    }

    /// Whether texts are taken as correlation IDs; where that cannot be told, it is noted.
    async fn takes_texts(
        &mut self,
        scenario: &Scenario,
        access: &Access,
        by: Transport,
        (id, form): (CorrelationId, IdForm),
    ) -> Result<bool, String> {
        let came = self.one_step(scenario, access, by, id.on_the_wire(form)).await;
        if let Some(Ok(())) = came {
            return Ok(true);
        }
        let text = id.written(form);
        if let Some(Err(why)) = came {
            let integer = id.on_the_wire(IdForm::Integer);
            // Who rejects integers as well has something else against it, which is for the run to tell.
            let is_of_texts = self.model.told_ids == ToldIds::Texts
                || matches!(self.one_step(scenario, access, by, integer).await, Some(Ok(())));
            if is_of_texts {
                return Err(format!(
                    "over {by} no correlation ID such as '{text}' is taken: the server said: {why}; use another \
                     correlation_ids.form"
                ));
            }
        }
        self.notes.push(Note::Other(format!(
            "not known before the run: whether correlation IDs such as '{text}' are taken over {by}, because a sequence of one \
             step had no output"
        )));
        Ok(false)
    }

    /// Sends a sequence of one step, and reads to the end of all that comes. Returns whether it had an output, or why it was rejected; none
    /// where nothing came.
    async fn one_step(
        &self,
        scenario: &Scenario,
        access: &Access,
        by: Transport,
        id: WireId,
    ) -> Option<Result<(), String>> {
        let Self { model, limits, .. } = self;
        let connection = Link::to(&scenario.target.endpoint, access, scenario.limits.connect_ms.duration());
        let mut stream = connection.and_then(|its| OwnStream::open(model, &its, by, id)).ok()?;
        let request = RequestId { worker: scenario.workers(), context: 0, sequence: 0, step: 0 };
        let value = model.values().of(request, 1);
        let step = Step { request, pattern: Pattern::Valid, start: true, end: true, value, of: 1, special: None };
        stream.send(step);
        stream.outgoing = None;
        let answers = async {
            let mut first = None;
            loop {
                match stream.incoming.next().await {
                    Message::ServedBy(_) => {}
                    Message::Received(received) => first = first.or(Some(received.result)),
                    Message::End
                    | Message::Status(..)
                    | Message::Broken(_)
                    | Message::Lapsed(_)
                    | Message::DeadlinePassed => return first,
                }
            }
        };
        let first = tokio::time::timeout(limits.lost_after, answers).await.ok()??;
        Some(first.map(drop))
    }
}

fn transports(scenario: &Scenario) -> BTreeSet<Transport> {
    scenario.populations.iter().flat_map(|population| transports_of(scenario, population)).collect()
}

fn transports_of(scenario: &Scenario, population: &Population) -> Vec<Transport> {
    let mixes = population.draws_any(Trait::MixesTransports);
    let others = if mixes { scenario.transports() } else { Vec::new() };
    others.into_iter().chain([population.sending.transport()]).collect()
}

/// The texts that the run's correlation IDs are, and what each goes out over; the looks after the run have the scenario's own form.
fn texts(scenario: &Scenario, looks_go_over: Transport) -> Vec<(Transport, IdForm)> {
    let looks = [(looks_go_over, scenario.correlation_ids.form)];
    let of_steps = scenario.populations.iter().flat_map(|population| {
        let form = scenario.form_in(population);
        transports_of(scenario, population).into_iter().map(move |by| (by, form))
    });
    let mut texts = Vec::new();
    for pair in of_steps.chain(looks).filter(|(_, form)| form.is_text()) {
        if !texts.contains(&pair) {
            texts.push(pair);
        }
    }
    texts
}
