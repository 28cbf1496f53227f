//! What a right model makes of the numbers of each data type.

use super::{
    mock::{Account, Id},
    server::{Config, END, MID, START, Server, encoded, text_element},
};

pub(super) const DATATYPES: [&str; 12] = [
    "TYPE_INT8",
    "TYPE_INT16",
    "TYPE_INT32",
    "TYPE_INT64",
    "TYPE_UINT8",
    "TYPE_UINT16",
    "TYPE_UINT32",
    "TYPE_UINT64",
    "TYPE_FP16",
    "TYPE_FP32",
    "TYPE_FP64",
    "TYPE_STRING",
];

#[test]
fn implicit_state_of_texts_begins_with_the_servers_empty_ones() {
    for has_initial in [false, true] {
        let config = Config { state: Some(has_initial), datatype: "TYPE_STRING", ..Config::direct() };
        let server = Server::running(&config);
        let one = server.execute([config.ask(START, 7, &[5]).with("INPUT_STATE", text_element(""))]);
        assert_eq!((one[0].error(), one[0].sums()), ("", vec![5]));
        let state = one[0].state().expect("a state");
        assert_eq!(state, text_element("5"));
        let two = server.execute([config.ask(MID, 7, &[-7]).with("INPUT_STATE", state)]);
        assert_eq!(two[0].sums(), [-2]);
        server.end();
    }
}

#[test]
fn each_data_type_of_numbers_counts_steps() {
    for datatype in DATATYPES {
        let config = Config { datatype, ..Config::two_states() };
        let server = Server::running(&config);
        let batches = [(START, 5), (MID, 20), (END, 7)].map(|(flags, number)| config.batch(&[(flags, 7, number)]));
        let done = server.converse(batches.into());
        let told: Vec<_> = done.iter().flat_map(|done| done.sums().into_iter().zip(done.counts())).collect();
        assert_eq!(told, [(5, 1), (25, 2), (32, 3)], "{datatype}");
        assert_eq!(done[0].output("COUNT").code, encoded("TYPE_INT64", &[]).0);
        server.end();
    }
}

#[test]
fn each_data_type_of_numbers_is_summed() {
    for datatype in DATATYPES {
        for corrid in [None, Some("TYPE_INT32"), Some("TYPE_UINT32"), Some("TYPE_INT64"), Some("TYPE_STRING")] {
            let config = Config { datatype, corrid, ..Config::direct() };
            let server = Server::running(&config);
            let one = server.execute([config.padding(), config.ask(START, 7, &[5])]);
            let two = server.execute([config.padding(), config.ask(END, 7, &[20])]);
            assert_eq!((one[1].sums(), two[1].sums()), (vec![5], vec![25]), "{datatype}, {corrid:?}: {two:?}");
            assert_eq!(two[1].output("OUTPUT").code, encoded(datatype, &[]).0);
            server.end();
        }
    }
}

#[test]
fn the_formula_adds_as_much_of_the_id_as_there_is_room_for_at_the_end() {
    let id = (3 << 32) + 2;
    let wide = i64::try_from(id).expect("it is small");
    for (datatype, corrid, of_id) in [
        ("TYPE_INT8", "TYPE_UINT64", 2),
        ("TYPE_INT16", "TYPE_STRING", 2),
        ("TYPE_UINT8", "TYPE_INT64", 2),
        ("TYPE_UINT16", "TYPE_UINT32", 2),
        ("TYPE_FP16", "TYPE_INT32", 2),
        ("TYPE_INT32", "TYPE_UINT64", 2),
        ("TYPE_INT32", "TYPE_UINT32", 2),
        ("TYPE_INT32", "TYPE_STRING", 2),
        ("TYPE_UINT32", "TYPE_INT64", 2),
        ("TYPE_STRING", "TYPE_UINT64", 2),
        ("TYPE_FP32", "TYPE_UINT64", 2),
        ("TYPE_FP64", "TYPE_STRING", 2),
        ("TYPE_INT64", "TYPE_UINT64", wide),
        ("TYPE_UINT64", "TYPE_STRING", wide),
        ("TYPE_INT64", "TYPE_INT32", 2),
    ] {
        let parameters = vec![("sequence_stress_formula", "running-sum-plus-corrid-at-end")];
        let config = Config { datatype, corrid: Some(corrid), parameters, ..Config::direct() };
        let server = Server::running(&config);
        let one = server.execute([config.ask(START, id, &[5])]);
        let two = server.execute([config.ask(END, id, &[2])]);
        let three = server.execute([config.ask(START | END, id, &[1])]);
        let sums = [one, two, three].map(|batch| batch[0].sums());
        assert_eq!(sums, [vec![5], vec![7 + of_id], vec![1 + of_id]], "{datatype}, {corrid}");
        server.end();
    }
}

#[test]
fn the_formula_adds_nothing_for_a_text_that_is_no_number() {
    let config = Config {
        corrid: Some("TYPE_STRING"),
        parameters: vec![("sequence_stress_formula", "running-sum-plus-corrid-at-end")],
        ..Config::direct()
    };
    let server = Server::running(&config);
    let mut ask = config.ask(START | END, 1, &[5]).with("CORRID", text_element("red"));
    ask.id = Id::Text(c"red".into());
    assert_eq!(server.execute([ask])[0].sums(), [5]);
    server.end();
}

#[test]
fn a_stateless_model_answers_the_input_and_whether_it_begins() {
    for (corrid, formula, at_end) in [
        (None, "ready-times-input-plus-start", 2),
        (Some("TYPE_UINT64"), "ready-times-input-plus-start-plus-corrid-at-end", 9),
    ] {
        for datatype in DATATYPES {
            let config =
                Config { datatype, corrid, parameters: vec![("sequence_stress_formula", formula)], ..Config::direct() };
            let server = Server::running(&config);
            let one = server.execute([config.padding(), config.ask(START, 7, &[5])]);
            let two = server.execute([config.padding(), config.ask(MID, 7, &[3])]);
            let three = server.execute([config.ask(START | END, 7, &[1]), config.ask(END, 7, &[2])]);
            let sums = [&one[1], &two[1], &three[0], &three[1]].map(Account::sums);
            assert_eq!(sums, [vec![6], vec![3], vec![at_end], vec![at_end]], "{datatype}");
            server.end();
        }
    }
}

#[test]
fn a_new_sequence_begins_with_the_initial_state() {
    let parameters = vec![("sequence_stress_initial_state", "100")];
    for datatype in DATATYPES {
        for base in [Config::direct(), Config::oldest(), Config { state: Some(true), ..Config::direct() }] {
            let config = Config { datatype, parameters: parameters.clone(), ..base };
            let server = Server::running(&config);
            let mut first = config.ask(START, 7, &[5]);
            if config.state.is_some() {
                first.set("INPUT_STATE", encoded(datatype, &[100]).1);
            }
            let one = server.execute([first]);
            let mut second = config.ask(END, 7, &[2]);
            if let Some(state) = one[0].state() {
                second.set("INPUT_STATE", state);
            }
            let two = server.execute([second]);
            assert_eq!((one[0].sums(), two[0].sums()), (vec![105], vec![107]), "{datatype}");
            server.end();
        }
    }
}

#[test]
fn texts_that_are_no_numbers_are_their_own_requests_errors() {
    for config in [Config::direct(), Config::oldest(), Config { state: Some(true), ..Config::direct() }] {
        let config = Config { datatype: "TYPE_STRING", ..config };
        let server = Server::running(&config);
        let with = |id, texts: &[&str]| {
            let data = texts.iter().flat_map(|text| text_element(text)).collect();
            let count = vec![0; texts.len()];
            config.ask(START, id, &count).with("INPUT", data)
        };
        let cut = config.ask(START, 11, &[0]).with("INPUT", vec![9, 0, 0, 0, b'1']);
        let done = server.execute([with(7, &["1", "one"]), with(8, &["2147483648"]), with(9, &["-5", "3"]), cut]);
        let errors: Vec<_> = done.iter().map(Account::error).collect();
        assert_eq!(
            errors,
            [
                "tensor 'INPUT': 'one' is no INT32 in decimal",
                "tensor 'INPUT': '2147483648' is no INT32 in decimal",
                "",
                "tensor 'INPUT': an element of it is cut off"
            ]
        );
        assert_eq!(done[2].sums(), [-2, -2]);
        server.end();
    }
}

#[test]
fn sums_wrap_wherever_they_are_kept() {
    for (datatype, most, wrapped) in [
        ("TYPE_INT8", 127, -128),
        ("TYPE_INT16", 32767, -32768),
        ("TYPE_UINT8", 255, 0),
        ("TYPE_UINT16", 65535, 0),
        ("TYPE_INT32", i64::from(i32::MAX), i64::from(i32::MIN)),
        ("TYPE_STRING", i64::from(i32::MAX), i64::from(i32::MIN)),
        ("TYPE_UINT32", i64::from(u32::MAX), 0),
        ("TYPE_INT64", i64::MAX, i64::MIN),
        // Its bits are those of the greatest.
        ("TYPE_UINT64", -1, 0),
    ] {
        for base in [Config::direct(), Config::oldest(), Config { state: Some(false), ..Config::direct() }] {
            let config = Config { datatype, ..base };
            let server = Server::running(&config);
            let one = server.execute([config.ask(START, 7, &[most])]);
            let mut next = config.ask(END, 7, &[1]);
            if let Some(state) = one[0].state() {
                next.set("INPUT_STATE", state);
            }
            assert_eq!(server.execute([next])[0].sums(), [wrapped], "{datatype}");
            server.end();
        }
    }
}
