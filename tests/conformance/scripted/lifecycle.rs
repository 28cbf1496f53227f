//! Models that are loaded, unloaded and changed while sequences live.

use crate::{
    conversation::{Conversation, Query, conversation},
    setup::{BY_SLOT, Setup},
    step::{end, only, start, step},
};

fn load(setup: Setup, mark: &str) -> Query {
    Query::Load(Box::new(setup), mark.into())
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
        fewer_instances(),
        unload_idle(),
        unload_busy(),
        unload_backlog(),
        reload_busy(),
        failing_loads(),
        load_while_waiting(),
        restart_strategy(),
    ]
}

fn the_index() -> Conversation {
    let setup = Setup::direct();
    conversation("index", "the index before and after", setup.clone())
        .alone()
        .ask(index())
        .ask(Query::Index { ready: true })
        .exchange("a", only(5, 1))
        .ask(unload())
        .await_state(BY_SLOT, "UNAVAILABLE")
        .ask(index())
        .ask(Query::Index { ready: true })
        .ask(Query::ModelReady { model: BY_SLOT, version: "" })
        .ask(Query::ModelConfig { model: BY_SLOT })
        .ask(Query::StatisticsOf { model: BY_SLOT })
        .exchange("a", only(5, 2))
        .infer(only(5, 2))
        .ask(unload())
        .ask(load(setup, "index"))
        .ask(index())
        .exchange("a", only(5, 3))
        .statistics()
}

fn reload_same() -> Conversation {
    let about = "a model is loaded again as it is: whether live sequences and statistics stay";
    conversation("reload-same", about, Setup::direct())
        .exchange("a", start(5, 1))
        .ask(load(Setup::direct(), "reload-same"))
        .statistics()
        .exchange("a", step(5, 2))
        .exchange("a", only(6, 3))
        .statistics()
}

fn reload_other() -> Conversation {
    let about = "a model is loaded again with another batch size, with a live sequence that has nothing under way";
    conversation("reload-other", about, Setup::direct())
        .exchange("a", start(5, 1))
        .ask(load(Setup::direct().batch(2), "reload-other"))
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
        .send_all("b", [start(6, 10), step(6, 20)])
        .quiet(200)
        .ask(load(Setup::direct().batch(1).instances(2), "instance-added"))
        .take("b", 2)
        .exchange("a", step(5, 2))
        .exchange("b", end(6, 30))
        .exchange("a", end(5, 3))
        .statistics()
}

fn fewer_instances() -> Conversation {
    let about = "a model loses an instance on which a sequence lives: the load waits for it";
    conversation("instance-removed", about, Setup::direct().batch(1).instances(2))
        .exchange("a", start(5, 1))
        .exchange("b", start(6, 10))
        .begin("load", load(Setup::direct().batch(1), "instance-removed"))
        .quiet(500)
        .exchange("a", step(5, 2))
        .exchange("b", step(6, 20))
        .exchange("b", end(6, 30))
        .exchange("a", end(5, 3))
        .take("load", 1)
        .send("a", start(7, 1))
        .send("b", start(8, 1))
        .take("a", 1)
        .quiet(300)
        .exchange("a", end(7, 2))
        .take("b", 1)
        .statistics()
}

fn unload_idle() -> Conversation {
    let about = "a model is unloaded with a live sequence that has nothing under way";
    conversation("unload-live", about, Setup::direct().idle_ms(2000))
        .exchange("a", start(5, 1))
        .ask(unload())
        .exchange("a", step(5, 2))
        .exchange("a", only(6, 2))
        .infer(step(5, 2))
        .await_state(BY_SLOT, "UNAVAILABLE")
        .exchange("a", step(5, 4))
        .infer(step(5, 4))
}

fn unload_busy() -> Conversation {
    let about = "a model is unloaded while steps execute and are queued";
    conversation("unload-busy", about, Setup::direct().idle_ms(2000).execute_ms(400))
        .send_all("a", [start(5, 1), step(5, 2), step(5, 4), end(5, 8)])
        .pause(200)
        .ask(unload())
        .ask(index())
        .exchange("b", only(6, 1))
        .take("a", 4)
        .await_state(BY_SLOT, "UNAVAILABLE")
        .ask(index())
}

fn unload_backlog() -> Conversation {
    let about = "a model is unloaded while a sequence waits for a slot";
    conversation("unload-backlog", about, Setup::direct().batch(1).idle_ms(1500))
        .exchange("a", start(5, 1))
        .send_all("b", [start(6, 10), end(6, 20)])
        .pause(200)
        .ask(unload())
        .take("b", 2)
        .await_state(BY_SLOT, "UNAVAILABLE")
}

fn reload_busy() -> Conversation {
    let about = "a model is loaded with another batch size while steps execute and are queued";
    conversation("reload-busy", about, Setup::direct().execute_ms(500))
        .send_all("a", [start(5, 1), step(5, 2), step(5, 4), step(5, 8), step(5, 16)])
        .pause(200)
        .ask(load(Setup::direct().batch(2), "reload-busy"))
        .exchange("b", only(5, 100))
        .take("a", 5)
        .exchange("a", step(5, 32))
        .statistics()
}

fn failing_loads() -> Conversation {
    let about = "loads that fail, and what is then of the model";
    conversation("load-fails", about, Setup::direct())
        .alone()
        .ask(Query::LoadUnchanged { model: "nobody" })
        .ask(Query::LoadConfig { model: "nobody", config: "{}" })
        .ask(Query::LoadConfig { model: BY_SLOT, config: "no JSON" })
        .ask(Query::LoadConfig { model: BY_SLOT, config: "{\"backend\": \"nobody\"}" })
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
        .ask(load(Setup::direct(), "unload-load"))
        .exchange("a", step(5, 2))
        .exchange("a", start(5, 3))
        .statistics()
}

fn restart_strategy() -> Conversation {
    let about = "a model goes from Direct to Oldest";
    conversation("strategy-changed", about, Setup::direct())
        .exchange("a", start(5, 1))
        .exchange("a", end(5, 2))
        .ask(load(Setup::oldest().model(BY_SLOT), "strategy-changed"))
        .exchange("a", start(5, 10))
        .exchange("a", end(5, 20))
        .statistics()
}
