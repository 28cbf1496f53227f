//! Models that are loaded, unloaded and changed while sequences live, and what the server says of models and of itself.
//!
//! `BY_ID` is never loaded here.

use crate::{
    conversation::{Conversation, Query, conversation},
    setup::{BY_ID, BY_SLOT, Setup},
    step::{end, only, start, step},
};

fn load(setup: Setup) -> Query {
    Query::Load(Box::new(setup))
}

fn unload() -> Query {
    Query::Unload { model: BY_SLOT }
}

fn index() -> Query {
    Query::Index { ready: false }
}

pub(crate) fn conversations() -> Vec<Conversation> {
    // The first one sees the index of a server that has loaded nothing else yet.
    vec![
        the_index(),
        reload_same(),
        reload_other(),
        more_instances(),
        more_instances_for_the_backlog(),
        fewer_instances(),
        unload_idle(),
        unload_busy(),
        unload_backlog(),
        reload_busy(),
        failing_loads(),
        load_while_waiting(),
        restart_strategy(),
        queries("direct", Setup::direct()),
        queries("dyna", Setup::dyna().batch(8).instances(2)),
    ]
}

fn the_index() -> Conversation {
    let setup = Setup::direct();
    conversation("index", "the index before and after", setup.clone())
        .ask(index())
        .ask(Query::Index { ready: true })
        .exchange("a", only(5, 1))
        .half_close("a")
        .take_end("a")
        .ask(unload())
        .await_state(BY_SLOT, "UNAVAILABLE")
        .ask(index())
        .ask(Query::Index { ready: true })
        .ask(Query::ModelReady { model: BY_SLOT, version: "" })
        .ask(Query::ModelConfig { model: BY_SLOT })
        .ask(Query::StatisticsOf { model: BY_SLOT })
        .exchange("b", only(5, 2))
        .infer(only(5, 2))
        .ask(unload())
        .ask(load(setup))
        .ask(index())
        .exchange("b", only(5, 3))
        .statistics()
}

fn reload_same() -> Conversation {
    let about = "a model is loaded again as it is: whether live sequences and statistics stay";
    conversation("reload-same", about, Setup::direct())
        .exchange("a", start(5, 1))
        .ask(load(Setup::direct()))
        .statistics()
        .exchange("a", step(5, 2))
        .exchange("a", only(6, 3))
        .statistics()
}

fn reload_other() -> Conversation {
    let about = "a model is loaded again with another batch size, with a live sequence that has nothing under way";
    conversation("reload-other", about, Setup::direct())
        .exchange("a", start(5, 1))
        .ask(load(Setup::direct().batch(2)))
        .statistics()
        .exchange("a", step(5, 2))
        .exchange("a", start(5, 10))
        .exchange("a", end(5, 20))
        .statistics()
}

fn more_instances() -> Conversation {
    let about = "a model gets a second instance: live sequences go on, and there are more slots";
    conversation("instance-added", about, Setup::direct().batch(1))
        .exchange("a", start(5, 1))
        .ask(load(Setup::direct().batch(1).instances(2)))
        .exchange("a", step(5, 2))
        .send_all("b", [start(6, 10), step(6, 20)])
        .take("b", 2)
        .exchange("b", end(6, 30))
        .exchange("a", end(5, 3))
        .statistics()
}

fn more_instances_for_the_backlog() -> Conversation {
    let about =
        "a model gets a second instance while a sequence waits for a slot: who comes later gets the new slot first";
    conversation("instance-added-backlog", about, Setup::direct().batch(1))
        .exchange("a", start(5, 1))
        .send_all("b", [start(6, 10), step(6, 20)])
        .ask(load(Setup::direct().batch(1).instances(2)))
        .quiet(200)
        .exchange("a", step(5, 2))
        .exchange("c", start(7, 1))
        .quiet(200)
        .exchange("c", end(7, 1))
        .take("b", 2)
        .exchange("a", end(5, 2))
        .exchange("b", end(6, 2))
        .statistics()
}

fn fewer_instances() -> Conversation {
    let about = "a model loses an instance: sequences on it go on to their END, and there are fewer slots then";
    conversation("instance-removed", about, Setup::direct().batch(1).instances(2))
        .exchange("a", start(5, 1))
        .exchange("b", start(6, 10))
        .ask(load(Setup::direct().batch(1)))
        .exchange("a", step(5, 2))
        .exchange("b", step(6, 20))
        .exchange("b", end(6, 30))
        .exchange("a", end(5, 3))
        .exchange("a", start(7, 1))
        .send("b", start(8, 1))
        .quiet(300)
        .exchange("a", end(7, 2))
        .take("b", 1)
        .statistics()
}

fn unload_idle() -> Conversation {
    let about = "a model is unloaded with a live sequence that has nothing under way: nobody waits for that";
    conversation("unload-live", about, Setup::direct())
        .exchange("a", start(5, 1))
        .half_close("a")
        .take_end("a")
        .ask(unload())
        .exchange("b", step(5, 2))
        .exchange("b", only(6, 2))
        .infer(step(5, 2))
        .await_state(BY_SLOT, "UNAVAILABLE")
        .ask(load(Setup::direct()))
        .exchange("b", step(5, 4))
        .infer(start(5, 4))
}

fn unload_busy() -> Conversation {
    let about = "a model is unloaded while steps execute and are queued: they are answered, new ones are rejected";
    conversation("unload-busy", about, Setup::direct().execute_ms(400))
        .send_all("a", [start(5, 1), step(5, 2), step(5, 4), end(5, 8)])
        .half_close("a")
        .pause(200)
        .ask(unload())
        .ask(index())
        .exchange("b", only(6, 1))
        .take_end("a")
        .await_state(BY_SLOT, "UNAVAILABLE")
        .ask(index())
}

fn unload_backlog() -> Conversation {
    let about = "a model is unloaded while a sequence waits for a slot: it gets one when the other one is reaped";
    conversation("unload-backlog", about, Setup::direct().batch(1).idle_ms(1200))
        .exchange("a", start(5, 1))
        .half_close("a")
        .send_all("b", [start(6, 10), end(6, 20)])
        .half_close("b")
        .pause(200)
        .ask(unload())
        .quiet(200)
        .take_end("b")
        .await_state(BY_SLOT, "UNAVAILABLE")
}

fn reload_busy() -> Conversation {
    let about = "a model is loaded with another batch size while steps execute and are queued";
    conversation("reload-busy", about, Setup::direct().execute_ms(500))
        .send_all("a", [start(5, 1), step(5, 2), step(5, 4), step(5, 8), step(5, 16)])
        .pause(200)
        .ask(load(Setup::direct().batch(2)))
        .exchange("b", only(5, 100))
        .take("a", 5)
        .exchange("a", step(5, 32))
        .statistics()
}

fn failing_loads() -> Conversation {
    let about = "loads that fail, and what is then of the model";
    conversation("load-fails", about, Setup::direct())
        .ask(Query::LoadUnchanged { model: "nobody" })
        .ask(Query::LoadConfig { model: "nobody", config: "{}" })
        .ask(Query::LoadConfig { model: BY_SLOT, config: "no JSON" })
        .ask(Query::LoadConfig { model: BY_SLOT, config: "{\"max_batch_size\": -1}" })
        .ask(Query::Unload { model: "nobody" })
        .ask(Query::LoadUnchanged { model: "" })
        .ask(Query::Unload { model: "" })
        .exchange("a", only(5, 1))
        .ask(index())
}

fn load_while_waiting() -> Conversation {
    let about = "unloaded and loaded again at once";
    conversation("unload-load", about, Setup::direct())
        .exchange("a", start(5, 1))
        .exchange("a", end(5, 2))
        .ask(unload())
        .ask(load(Setup::direct()))
        .exchange("a", step(5, 2))
        .exchange("a", start(5, 3))
        .statistics()
}

fn restart_strategy() -> Conversation {
    let about = "a model goes from Direct to Oldest";
    conversation("strategy-changed", about, Setup::direct())
        .exchange("a", start(5, 1))
        .exchange("a", end(5, 2))
        .ask(load(Setup::oldest().model(BY_SLOT)))
        .exchange("a", start(5, 10))
        .exchange("a", end(5, 20))
        .statistics()
}

fn queries(kind: &str, setup: Setup) -> Conversation {
    let model = setup.model;
    let begun = conversation(format!("queries-{kind}"), "what the server says of itself and of models", setup).alone();
    let mut asked = [Query::Live, Query::Ready, Query::ServerMetadata].into_iter().fold(begun, Conversation::ask);
    for (model, version) in
        [(model, ""), (model, "1"), (model, "2"), (model, "x"), (BY_ID, ""), ("nobody", ""), ("", "")]
    {
        asked = asked.ask(Query::ModelReady { model, version }).ask(Query::ModelMetadata { model, version });
    }
    for model in [model, BY_ID, "nobody"] {
        asked = asked.ask(Query::ModelConfig { model }).ask(Query::StatisticsOf { model });
    }
    asked
}
