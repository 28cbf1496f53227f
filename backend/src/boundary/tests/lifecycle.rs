//! Loading, making instances, and ending them.

use super::{
    super::c,
    mock::{KIND_GPU, TOLD_TO_FAIL, world},
    server::{Config, START, Server},
};

#[test]
fn a_server_whose_interface_does_not_fit_is_rejected() {
    for (version, is_rejected) in [((1, 19), false), ((1, 10), false), ((1, 9), true), ((2, 19), true), ((0, 19), true)]
    {
        let server = Server::new("{}");
        world().api = version;
        let said = Server::initialize();
        assert_eq!(said.is_err(), is_rejected, "{version:?}: {said:?}");
        if let Err((code, text)) = said {
            assert_eq!(code, 5, "{text}");
            assert!(text.ends_with(&format!("and this server has {}.{}", version.0, version.1)), "{text}");
        }
        server.end();
    }
}

#[test]
fn a_configuration_that_cannot_be_is_rejected_with_its_reason() {
    for (config, reason) in [
        ("", "the configuration cannot be read"),
        ("\0", "the configuration cannot be read"),
        ("[1, 2", "the configuration cannot be read"),
        ("\u{FF}", "the configuration cannot be read"),
        ("{}", "sequence_batching is missing"),
    ] {
        let mut server = Server::new(config);
        let (code, text) = server.load().expect_err(config);
        assert!(code == 3 && text.contains(reason), "{config}: {code}, {text}");
        let (_, text) = server.make_instance().expect_err(config);
        assert_eq!(text, "the model was not initialized");
        server.end();
    }
}

#[test]
fn a_model_that_is_loaded_again_begins_anew() {
    let config = Config::direct();
    let mut server = Server::running(&config);
    assert_eq!(server.execute([config.ask(START, 7, &[5])])[0].sums(), [5]);
    assert_eq!(server.finalize(), []);
    server.load().expect("it is loaded again");
    server.make_instance().expect("it has an instance again");
    assert_eq!(server.execute([config.ask(super::server::MID, 7, &[1])])[0].sums(), [1]);
    server.end();
}

#[test]
fn what_has_no_state_is_finalized_and_executes_nothing() {
    let config = Config::direct();
    let mut server = Server::new(&config.json());
    let (_, text) = server.make_instance().expect_err("the model is not loaded");
    assert_eq!(text, "the model was not initialized");
    let request = world().arrive(config.ask(START, 7, &[5]));
    let (_, text) = server.execute_once(0, &[request]).expect_err("there is no instance");
    assert_eq!(text, "the instance was not initialized");
    assert_eq!(server.finalize(), []);
    server.end();
}

#[test]
fn an_instance_on_a_gpu_is_rejected() {
    let config = Config::direct();
    let mut server = Server::running(&config);
    for kind in [KIND_GPU, 0, 3] {
        let (_, text) = server.make_instance_of_kind(kind).expect_err("it is not on the CPU");
        assert!(text.contains("instance_group") && text.contains("KIND_CPU"), "{text}");
    }
    server.make_instance_of_kind(c::KIND_CPU).expect("it is on the CPU");
    server.end();
}

#[test]
fn an_execution_of_nothing_is_nothing() {
    let config = Config::direct();
    let server = Server::running(&config);
    assert_eq!(server.execute_once(0, &[]), Ok(()));
    assert!(world().batches.is_empty());
    server.end();
}

#[test]
fn what_the_server_rejects_while_loading_is_told_and_leaves_nothing() {
    for function in [
        "TRITONBACKEND_ApiVersion",
        "TRITONBACKEND_ModelConfig",
        "TRITONSERVER_MessageSerializeToJson",
        "TRITONBACKEND_ModelSetState",
        "TRITONBACKEND_ModelInstanceModel",
        "TRITONBACKEND_ModelState",
        "TRITONBACKEND_ModelInstanceKind",
        "TRITONBACKEND_ModelInstanceSetState",
    ] {
        let mut server = Server::new(&Config::direct().json());
        world().to_fail = Some((function, 1));
        let said = Server::initialize().and_then(|()| server.load()).and_then(|()| server.make_instance());
        assert_eq!(said, Err((1, TOLD_TO_FAIL.to_owned())), "{function}");
        server.end();
    }
}

#[test]
fn a_model_whose_configuration_cannot_be_freed_is_loaded_all_the_same() {
    let server = Server::new(&Config::direct().json());
    world().to_fail = Some(("TRITONSERVER_MessageDelete", 1));
    assert_eq!(server.load(), Ok(()));
    assert_eq!(world().log, [format!("freeing the configuration: {TOLD_TO_FAIL}")]);
    server.end();
}
